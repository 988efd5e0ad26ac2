# shellcheck shell=sh
# Passes lines up to their largest number, and to a number of bytes. It reads to the end, so that the writer does not fail.
# Arguments: number of lines, number of bytes, largest length of a line.
first() {
  LC_ALL=C awk -v lines="$1" -v bytes="$2" -v columns="${3:-4000}" '
    { line = substr($0, 1, columns); size += length(line) + 1 }
    NR > lines || size > bytes { more++; next }
    { print line }
    END { if (more) print "[" more " more lines are left out]" }'
}
