#!/bin/sh -eu
# Stops the scopes of conmon. No other program stops them, and with cgroup v1 systemd does not detect that they
# are empty.
systemctl stop 'crio-*.scope' 2>/dev/null || :
systemctl reset-failed 'crio-*.scope' 2>/dev/null || :
