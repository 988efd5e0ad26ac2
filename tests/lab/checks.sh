# shellcheck shell=bash disable=SC2154 # `work` is the caller's
# Checks of end-to-end tests, and how they are counted and printed. Sourced. The caller sets `work` to a
# temporary directory. It may define `explain`, which prints more about a failed check.
passed=0 failed=0

part() { printf '\n### %s\n' "$*"; part_start=$EPOCHREALTIME; }
took() { printf '    %s: %s s\n' "$1" "$(awk -v a="$part_start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')"; }
check() { # DESCRIPTION COMMAND...
  local description=$1
  shift
  if "$@" >"$work/check.log" 2>&1; then
    passed=$((passed + 1))
    echo "ok    $description"
  else
    failed=$((failed + 1))
    echo "FAIL  $description"
    tail -n 40 "$work/check.log" | cut -c1-400 | sed 's/^/      /'
    if declare -F explain >/dev/null; then explain | sed 's/^/      /'; fi
  fi
}
must() { # DESCRIPTION COMMAND...: a check whose failure ends the test
  local before=$failed
  check "$@"
  [ "$failed" = "$before" ] || { printf '\n%s passed, %s failed\n' "$passed" "$failed"; exit 1; }
}
ends() { # STATUS PATTERN COMMAND…: the command ends with this status, and its output, which stays in ended.log, matches
  local ended=0
  "${@:3}" >"$work/ended.log" 2>&1 || ended=$?
  cat "$work/ended.log"
  [ "$ended" = "$1" ] && grep -q -e "$2" "$work/ended.log"
}
prints_no() { # PATTERN COMMAND...: the command succeeds, and no line of its output matches
  local ended=0
  "${@:2}" >"$work/printed" 2>&1 || ended=$?
  cat "$work/printed"
  [ "$ended" = 0 ] && ! grep -e "$1" "$work/printed"
}
# Limits are for an idle machine. A limit only ends a test that waits for what never happens, so a busy machine
# gets four times as long.
patience=4
until_true() { # SECONDS COMMAND...
  local end=$((SECONDS + $1 * patience))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 1
  done
}
summary() { # prints the last line of a test; its status is the status of the test
  printf '\n%s passed, %s failed\n' "$passed" "$failed"
  [ "$failed" = 0 ]
}
