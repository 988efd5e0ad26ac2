# shellcheck shell=sh
# Prints each line of standard input as a value of a key.
# Arguments: the key.
each() {
  sed "s/^/$1=/"
}
