#!/bin/sh -eu
# Prints the state that the removal of a block restores: whether the file exists, and whether its last line
# ends with a newline.
# Arguments: path of the file.
if [ ! -e "$1" ]; then echo absent
elif [ -s "$1" ] && [ "$(tail -c 1 "$1" | wc -l)" -eq 0 ]; then echo unended
else echo ended; fi
