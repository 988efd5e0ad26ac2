#!/bin/sh -eu
# Prints the paths that do not exist. A link to nothing exists: the disk that it leads to may not be
# mounted at the moment.
# Arguments: paths.
for path in "$@"; do
  [ -e "$path" ] || [ -L "$path" ] || echo "$path"
done
