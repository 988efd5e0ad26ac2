# shellcheck shell=bash disable=SC2154 # `work` is the caller's
# How end-to-end tests say what they found. Sourced; the caller sets `work` to a folder of its own,
# and may define `explain`, which says more about a check that failed.
passed=0 failed=0

part() { printf '\n### %s\n' "$*"; part_start=$EPOCHREALTIME; }
took() { printf '    %s: %s s\n' "$1" "$(awk -v a="$part_start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')"; }
check() { # DESCRIPTION COMMAND...
  local words=$1
  shift
  if "$@" >"$work/check.log" 2>&1; then
    passed=$((passed + 1))
    echo "ok    $words"
  else
    failed=$((failed + 1))
    echo "FAIL  $words"
    tail -n 40 "$work/check.log" | cut -c1-400 | sed 's/^/      /'
    if declare -F explain >/dev/null; then explain | sed 's/^/      /'; fi
  fi
}
must() { # DESCRIPTION COMMAND...: a check without which the rest makes no sense
  local before=$failed
  check "$@"
  [ "$failed" = "$before" ] || { printf '\n%s passed, %s failed\n' "$passed" "$failed"; exit 1; }
}
until_true() { # SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 1
  done
}
summary() { # the last line of a test; its status is the test's
  printf '\n%s passed, %s failed\n' "$passed" "$failed"
  [ "$failed" = 0 ]
}
