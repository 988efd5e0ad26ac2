# shellcheck shell=sh
# Compares objects with the cluster. kubectl diff ends with 1 if they differ, and with more if it fails, as before their kind exists.
# Arguments: URL of an API server that does not wait long, or empty for the endpoint; those of kubectl diff.
compare() {
  server=$1 status=0
  shift
  said=$(kubectl ${server:+--server "$server" --request-timeout=10s} diff "$@" 2>&1 >/dev/null) || status=$?
  [ "$status" != 0 ] || exit 0
  [ "$status" != 1 ] || { echo differs; exit 1; }
  kubectl ${server:+--server "$server" --request-timeout=10s} get --raw /readyz >/dev/null 2>&1 ||
    { printf 'the API server does not answer: %s\n' "$said" | tail -n 1 >&2; exit 75; }
  printf 'cannot be compared: %s\n' "$said" | tail -n 1
  exit 1
}
