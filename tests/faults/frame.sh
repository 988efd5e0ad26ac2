# shellcheck shell=bash disable=SC2034,SC2154 # the groups use its variables; stage.sh sets `work`, `kubexm`, …
# Cases of the fault suite: how they are declared, run, judged and printed. Sourced after stage.sh.
#
# A case injects one fault, runs kubexm, and repairs what it broke. It does not end at a wrong result: `expect`,
# `holds` and `next_run` record problems, so that the repair always happens. A case passes without problems.

group='' declared=() results=() pending=()
# Words of the page: groups and phases.
declare -A titles=([build]='Builds' [bundle]='Bundles and their disks' [connect]='Connections, logins and the state directory'
  [preflight]='Hosts before an install' [install]='Installs' [upkeep]='Later installs' [reset]='Resets')
# shellcheck disable=SC2016 # backticks of Markdown
declare -A phases=([build]='builds' [build-cold]='builds, with an empty cache' [verify]='verifies' [extract]='extracts'
  [split]='splits' [connect]='connects' [preflight]='checks hosts' [apply]='starts to change hosts'
  [os-packages]='installs OS packages' [seed]='fills the registry' [pull]='pulls images' [init]='runs `kubeadm init`'
  [join]='runs `kubeadm join`' [install]='installs' [second-install]='installs again' [after-install]='does nothing'
  [reset]='resets')

# fault NAME PHASE EXPECTED FUNCTION [IMITATION]: declares a case of the group whose file is being read.
#   recovers  the run with the fault succeeds
#   message   the run with the fault fails, and prints what the operator needs
#   killed    the fault ends kubexm itself: only the next run counts
# IMITATION states what represents the fault, if the machine cannot have the fault itself.
fault() { declared+=("$group|$1|$2|$3|$4|${5:-}"); }

problem() { problems+=("$*"); }
holds() { # DESCRIPTION COMMAND…: a condition besides the output of kubexm
  "${@:2}" >"$work/holds.log" 2>&1 || problem "not true: $1: $(tail -n 3 "$work/holds.log" | cut -c1-300)"
}
fails_quietly() { ! "$@"; }

# Each run leaves its output in $log and its exit code in $code.
log='' code=0 runs=0 victim=''
bare=(env -u SSH_AUTH_SOCK HOME="$work/home")
new_log() {
  runs=$((runs + 1))
  log=$work/logs/$runs
  : >"$log"
}
run() { # COMMAND…: of kubexm. The limit only ends a run that hangs, which is a problem.
  new_log
  code=0
  "${bare[@]}" timeout -s INT -k 20 420 "$kubexm" "$@" >"$log" 2>&1 || code=$?
  ! ended_by_limit || problem "kubexm hung: it was stopped after 420 s"
}
ended_by_limit() { [ "$code" = 124 ] || [ "$code" = 137 ]; }
begin() { # COMMAND…: like run, in the background
  new_log
  "${bare[@]}" "$kubexm" "$@" >"$log" 2>&1 &
  victim=$!
}
alive() { kill -0 "$victim" 2>/dev/null; }
finish() { # waits for the background run, at most 420 s
  code=0
  local end=$((SECONDS + 420))
  # The shell reports a child that was killed on its standard error.
  {
    while alive && [ "$SECONDS" -lt "$end" ]; do sleep 0.2; done
    ! alive || { problem "kubexm hung: it was killed after 420 s"; kill -9 "$victim" || true; }
    wait "$victim" || code=$?
  } 2>/dev/null
  victim=''
}
# reaches SECONDS COMMAND…: waits until the command succeeds, while the background run continues
reaches() {
  local end=$((SECONDS + $1))
  until "${@:2}"; do
    if [ "$SECONDS" -ge "$end" ] || ! alive; then
      problem "the run did not reach: ${*:2}"
      return 1
    fi
    sleep 0.1
  done
}
# step HOST PATTERN STATE: the background run printed this event (--output json). Host and pattern are expressions.
step() { grep -q "\"event\":\"step\",\"host\":\"$1\".*$2.*\"state\":\"$3\"" "$log"; }

# Prints the error of a run, or everything that it printed if there is none. Warnings before the error, which may have
# hints of their own, do not count.
said() { # LOG
  if grep -q '^{.*"event":"end"' "$1"; then
    grep '^{.*"event":"end"' "$1" | jq -r '.message // empty, (.hint // empty | "hint: " + .)'
  elif grep -q '^error: ' "$1"; then
    sed -n '/^error: /,$p' "$1"
  else
    cat "$1"
  fi
}
expect() { # CODE [TEXT…]: the last run ended with this code, and its error has these texts
  local text
  row_exit=$code
  [ "$code" = "$1" ] || problem "exit code $code, not $1"
  said "$log" >"$work/said"
  for text in "${@:2}"; do
    grep -qF -- "$text" "$work/said" || problem "not printed: $text"
  done
  cp "$log" "$work/judged.log"
}
next_run() { # DESCRIPTION COMMAND…: the run after the repair succeeds. COMMAND is one of this frame.
  "${@:2}"
  row_next="$1: $code"
  [ "$code" = 0 ] || problem "the next run ($1) ended with $code: $(tail -n 4 "$log" | cut -c1-300)"
}
# The install that continues after several faults: `settle` ends the rows that wait for it.
next_run_is() { row_next="pending $1"; }
settle() { # NAME TEXT PROBLEM: all rows that wait for NAME get the text, or the problem if it is not empty
  local i
  for i in "${!results[@]}"; do
    [[ ${results[i]} == *"|pending $1|"* ]] || continue
    results[i]=${results[i]/"|pending $1|"/"|$2|"}
    [ -z "$3" ] || results[i]=${results[i]%|*}"|FAIL"
  done
}

selected() { # NAME GROUP: whether the options select this case
  [ ${#only[@]} -eq 0 ] || listed "$1" "${only[@]}" || return
  [ ${#groups_only[@]} -eq 0 ] || listed "$2" "${groups_only[@]}"
}
listed() { # WORD WORD…: whether the first is among the others, which may be patterns
  local pattern
  # shellcheck disable=SC2053 # a pattern of the user
  for pattern in "${@:2}"; do [[ $1 != $pattern ]] || return 0; done
  return 1
}
selected_in() { # GROUP: whether the options select a case of it
  local line g called
  for line in "${declared[@]}"; do
    IFS='|' read -r g called _ <<<"$line"
    [ "$g" = "$1" ] && selected "$called" "$g" && return
  done
  return 1
}

run_cases() { # GROUP
  local line g called phase expected function imitation
  for line in "${declared[@]}"; do
    IFS="|" read -r g called phase expected function imitation <<<"$line"
    if [ "$g" = "$1" ] && selected "$called" "$g"; then
      run_case "$called" "$phase" "$expected" "$function" "$imitation"
    fi
  done
}
run_case() { # NAME PHASE EXPECTED FUNCTION IMITATION
  local began=$SECONDS result=ok mark='' text
  problems=() row_exit=- row_next=-
  # Random numbers depend on the seed and the case only, and not on the cases before it.
  RANDOM=$(((seed + $(cksum <<<"$1 $2" | cut -d' ' -f1)) % 32768))
  rm -f "$work/judged.log"
  "$4" || problem "the case itself failed"
  case $3 in
  recovers) [ "$row_exit" = 0 ] || problem "it does not recover: exit code $row_exit" ;;
  message)
    case $row_exit in - | 0) problem "it does not fail" ;; esac
    said "$work/judged.log" >"$work/said" 2>/dev/null || true
    grep -q "hint: " "$work/said" || problem "the message has no hint" ;;
  killed) [ "$row_exit" = 137 ] || problem "kubexm was not killed: exit code $row_exit" ;;
  esac
  [ "$row_next" != - ] || [ "$3" = recovers ] || problem "the case has no next run"
  [ ${#problems[@]} -eq 0 ] || result=FAIL
  [ -z "$5" ] || mark=' *'
  results+=("$group|$1$mark|$2|$3|$row_exit|$row_next|$result")
  printf '%-5s %s (%s): %s s\n' "$result" "$1" "$2" "$((SECONDS - began))"
  for text in ${problems[@]+"${problems[@]}"}; do printf '      %s\n' "$text"; done
  [ "$result" = ok ] || { [ ! -e "$work/judged.log" ] || tail -n 12 "$work/judged.log" | cut -c1-240 | sed 's/^/      | /'; }
}

list_cases() {
  local line g called phase expected function imitation
  printf '%-10s %-28s %-16s %-9s %s\n' GROUP FAULT PHASE EXPECTED IMITATION
  for line in "${declared[@]}"; do
    IFS="|" read -r g called phase expected function imitation <<<"$line"
    ! selected "$called" "$g" || printf '%-10s %-28s %-16s %-9s %s\n' "$g" "$called" "$phase" "$expected" "$imitation"
  done
}
described() { # FAULT: what it is, of tests/faults/descriptions
  local called text
  while IFS='|' read -r called text; do
    [ "$called" != "$1" ] || { printf '%s\n' "$text"; return; }
  done <"$faults/descriptions"
  echo "no description of $1 in tests/faults/descriptions" >&2
  return 1
}
page() { # prints the page of the book that lists all cases
  local line g called phase expected imitation before='' text
  declare -A kinds=([recovers]='succeeds in spite of it' [message]='one error with a hint; the next run succeeds'
    [killed]='the next run succeeds')
  cat "$faults/page-head.md"
  for line in "${declared[@]}"; do
    IFS='|' read -r g called phase expected _ imitation <<<"$line"
    [ "$g" = "$before" ] || printf '\n## %s\n\n| fault | while kubexm | result |\n| --- | --- | --- |\n' "${titles[$g]}"
    before=$g
    text=$(described "$called") || return
    # shellcheck disable=SC2016 # backticks of Markdown
    printf '| `%s`: %s%s | %s | %s |\n' "$called" "$text" "${imitation:+ (imitated by $imitation)}" "${phases[$phase]:?}" "${kinds[$expected]}"
  done
}
table() { # prints all results
  local line g called phase expected exit next result imitation
  printf '\n%-10s %-30s %-16s %-9s %-5s %-26s %s\n' group fault phase expected exit 'next run' result
  for line in "${results[@]}"; do
    IFS='|' read -r g called phase expected exit next result <<<"$line"
    printf '%-10s %-30s %-16s %-9s %-5s %-26s %s\n' "$g" "$called" "$phase" "$expected" "$exit" "$next" "$result"
  done
  for line in "${declared[@]}"; do
    IFS='|' read -r g called phase expected _ imitation <<<"$line"
    [ -z "$imitation" ] || ! selected "$called" "$g" || printf '* %s (%s): imitated: %s\n' "$called" "$phase" "$imitation"
  done
}
summary_of_faults() { # its status is the status of the suite
  local line faults passed=0 failed=0
  for line in "${results[@]}"; do
    case $line in *'|ok') passed=$((passed + 1)) ;; *) failed=$((failed + 1)) ;; esac
  done
  faults=$(printf '%s\n' "${results[@]}" | cut -d'|' -f2 | sed 's/ \*$//' | sort -u | wc -l)
  printf '\n%s faults in %s cases, seed %s: %s passed, %s failed\n' "$faults" "${#results[@]}" "$seed" "$passed" "$failed"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
