#!/bin/sh -eu
# Stops and disables a unit.
# Arguments: the unit.
systemctl disable --quiet --now "$1" 2>/dev/null || :
systemctl reset-failed "$1" 2>/dev/null || :
