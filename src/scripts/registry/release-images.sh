#!/bin/sh -eu
# Prints the images that the stored revisions of Helm's releases name, one in a line after namespace, name and number of the
# revision: with them, `helm rollback` works. Prints no other part of a revision, which can have secrets. Changes nothing.
# Argument: address of the API server
template='{{range .items}}{{.metadata.namespace}} {{.metadata.labels.name}} {{.metadata.labels.version}} {{.data.release}}
{{end}}'
revisions=$(kubectl --server "$1" get secrets -A -l owner=helm -o "go-template=$template")
printf '%s\n' "$revisions" | while read -r namespace name number release; do
  [ -n "$release" ] || continue
  # Helm compresses the JSON of a revision and encodes it, and so does the API.
  revision=$(printf '%s\n' "$release" | base64 -d | base64 -d | gzip -dc | sed 's/\\n/\
/g')
  # The images of a revision that is not JSON are unknown.
  case $revision in '{'*) ;; *) echo "revision $number of the release $namespace/$name cannot be read" >&2; exit 1 ;; esac
  printf '%s\n' "$revision" | sed -n 's/^ *\(- \)\{0,1\}\(image\|reference\): *[\\"'"'"']*\([A-Za-z0-9][^\\"'"'"' ]*\).*$/\3/p
    s/^.*[ =\\"'"'"']\([a-z0-9][a-z0-9.-]*\.[a-z0-9.-]*[:0-9]*\/[a-z0-9._\/-]*[:@][A-Za-z0-9._:-]*\).*$/\1/p' |
    sort -u | sed "s|^|$namespace $name $number |"
done
