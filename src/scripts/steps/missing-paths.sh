#!/bin/sh -eu
# Prints the paths that do not exist. A broken link counts as existing, because its target may be on a
# disk that is not mounted.
# Arguments: paths.
for path in "$@"; do
  [ -e "$path" ] || [ -L "$path" ] || echo "$path"
done
