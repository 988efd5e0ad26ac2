#!/bin/sh -eu
# Prints the last lines of a unit's journal.
# Arguments: the unit, number of lines.
journalctl -u "$1" -n "$2" --no-pager -o cat
