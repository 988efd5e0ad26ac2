# shellcheck shell=sh
# Splits the settings `Environment` of a unit of systemd, or the lines of an environment file, into variables, one in each line
# and without quotes. The words of a unit end at blanks.
# Arguments: 1 for an environment file, and files; without files, reads standard input.
variables() {
  is_file=$1
  shift
  awk -v is_file="$is_file" '
    function words(text, i, one, quote, word) {
      for (i = 1; i <= length(text); i++) {
        one = substr(text, i, 1)
        if (one == "\\") word = word substr(text, ++i, 1)
        else if (one == quote) quote = ""
        else if (quote == "" && one ~ /["\047]/) quote = one
        else if (quote != "" || is_file || one !~ /[ \t]/) word = word one
        else { print word; word = "" }
      }
      print word
    }
    /^[ \t]*[#;]/ { next }
    { line = line $0 }
    sub(/\\$/, " ", line) { next }
    { if (sub(/^[ \t]*Environment[ \t]*=[ \t]*/, "", line) || is_file) words(line); line = "" }' "$@"
}
