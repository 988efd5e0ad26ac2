#!/bin/sh -eu
# Prints the images that this node needs without an API server, one in a line: those of its static pods, and the one of its
# pods' sandboxes in the settings of each container runtime. Changes nothing.
# Arguments: names of these settings, a basic regular expression; patterns of the files that have them.
settings=$1
shift
for file in /etc/kubernetes/manifests/*.yaml; do
  [ ! -f "$file" ] || sed -n 's/^ *\(- \)\{0,1\}image: *"\{0,1\}\([^" ]*\).*$/\2/p' "$file"
done
for pattern; do
  for file in $pattern; do
    [ ! -f "$file" ] ||
      sed -n "s/^.*\($settings\)[\"']\{0,1\} *[=: ] *[\"']\{0,1\}\([a-z0-9][^\"' ]*\/[^\"' ]*:[^\"' ]*\).*$/\2/p" "$file"
  done
done
