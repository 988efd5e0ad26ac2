# shellcheck shell=sh
# Prints a path, or the nearest directory above it that exists.
# Arguments: path.
nearest() {
  path=$1
  until [ -e "$path" ]; do path=$(dirname "$path"); done
  echo "$path"
}
