#!/bin/sh -eu
# Removes a configuration file of NetworkManager.
# Arguments: path of the file.
rm -f "$1" "$1.partial"
systemctl reload NetworkManager 2>/dev/null || :
