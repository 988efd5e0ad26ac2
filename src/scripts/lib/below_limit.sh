# shellcheck shell=sh
# Passes a part, and leaves out what is more than a command can print: kubexm then gets nothing of it (16 MiB).
below_limit() {
  LC_ALL=C awk -v most=15000000 '
    /^(end|left_out)=/ { print; next }
    { size += length($0) + 1 }
    /^= / { name = substr($0, 3); is_cut = 0 }
    size <= most { print; next }
    is_cut++ { next }
    { if (!/^= /) print "|[the rest is left out]"; print "left_out=" name ": too large" }'
}
