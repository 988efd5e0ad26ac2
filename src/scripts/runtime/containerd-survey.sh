#!/bin/sh -eu
# Prints what an upgrade must know about the containerd of this host, with tabs between the words: `version VERSION` of the one
# that runs, `deprecated NAME TEXT` for each feature in use that a later version does not have, and `end` at the end.
export PATH="/usr/local/bin:$PATH"
version=$(crictl version 2>/dev/null | sed -n 's/^RuntimeVersion:[[:blank:]]*v\{0,1\}//p' | sed 1q)
# One that does not run replaces no pods.
[ -n "$version" ] || version=$(containerd --version 2>/dev/null | sed -n 's/^containerd [^ ]* v\{0,1\}\([^ ]*\).*/\1/p' | sed 1q)
[ -z "$version" ] || printf 'version\t%s\n' "$version"
# Since 1.7.12. The first line has the names of the columns, the second column is a time.
ctr deprecations list 2>/dev/null | sed 1d | head -n 50 |
  awk 'NF > 2 { name = $1; $1 = $2 = ""; sub(/^ +/, ""); print "deprecated\t" name "\t" substr($0, 1, 400) }' || :
echo end
