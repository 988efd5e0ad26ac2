# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# What `kubexm doctor` reports, compared with what a test has planted, and the commands of its fixes. Sourced by
# tests/e2e-doctor, which sets `kubexm`, `cluster`, `state`, `bundle`, `trust`, `work` and the array `table`.

examine() { # OPTIONS…: prints the report, and keeps it as JSON
  "$kubexm" doctor -f "$cluster" --known-hosts "$(known_hosts)" --state "$state" "$@"
}
look() { # keeps the report, the exit code and the duration
  local begun=$EPOCHREALTIME
  ended=0
  examine --output json >"$work/doctor.json" 2>"$work/doctor.err" || ended=$?
  seconds=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
}
asked() { # PYTHON-EXPRESSION: of the last report
  python3 - "$work/doctor.json" "$1" "$ended" <<'EOF2' || { cat "$work/doctor.json" "$work/doctor.err"; return 1; }
import json, sys
report = json.load(open(sys.argv[1]))
# All hosts have the disk of this machine, which other tests may fill and keep busy. That is not what was planted.
def is_ours(entry):
    return entry["check"] == "etcd-disk" or entry["check"] == "disk-space" and entry["what"].startswith("/ has")
ours = {entry["check"] for entry in report["findings"] if is_ours(entry)}
findings = [entry for entry in report["findings"] if not is_ours(entry)]
found = {entry["check"]: entry for entry in findings}
causes = sorted({entry["check"] for entry in findings if entry["follows"] not in found and not (ours and entry["follows"] in ours)})
def follows(check, cause):
    return found[check]["follows"] in {cause} | ours
checks = {entry["check"]: entry for entry in report["checks"]}
print(report["cluster"], "causes:", causes, "found:", sorted(found), "besides:", sorted(ours))
names = dict(report=report, findings=findings, found=found, causes=causes, checks=checks, follows=follows, ours=ours, ended=int(sys.argv[3]))
sys.exit(not eval(sys.argv[2], names))
EOF2
}
nothing() { look; asked 'not findings and (ended == 0 or ours)'; }
summary_of() { # the findings of the last report
  python3 - "$work/doctor.json" <<'EOF2'
import json, sys
for entry in json.load(open(sys.argv[1]))["findings"]:
    origin = f" (follows from {entry['follows']})" if entry["follows"] else ""
    print(f"        {entry['check']}: {','.join(entry['hosts'])}: {entry['what'][:100]}{origin}")
EOF2
}
names() { # CHECK[,CHECK…] EXPRESSION: these checks, and no others, are causes
  look
  [ "$ended" = 9 ] && asked "causes == sorted('$1'.split(',')) and ($2)"
}
finds() { # SECONDS DESCRIPTION CHECKS [EXPRESSION]
  local before=$failed
  check "found: $2" until_true "$1" names "$3" "${4:-True}"
  if [ "$failed" = "$before" ]; then table+=("$kind: $2|$3|$seconds"); else table+=("$kind: $2|not found ($3)|-"); fi
  summary_of
}
commands_of() { # CHECK: the commands of its fix
  python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
for entry in report["findings"]:
    if entry["check"] == sys.argv[2]:
        print(*entry["commands"], sep="\n")' "$work/doctor.json" "$1"
}
follow_fix() { # CHECK: runs the commands of the last report
  local line
  commands_of "$1" >"$work/commands"
  [ -s "$work/commands" ] || return 1
  while read -r line; do
    case $line in
    "kubexm logs "*) continue ;;
    *"install --bundle BUNDLE"*) line="${line/BUNDLE/$bundle} ${trust[*]}" ;;
    esac
    printf '$ %s\n' "$line"
    bash -c "$line" </dev/null || return 1
  done <"$work/commands"
}
undone() { # CHECK: by its fix; the cluster is healthy again
  check "the fix of $1 works" follow_fix "$1"
  check "no problems" until_true 150 nothing
}
healthy() { check "no problems" until_true 150 nothing; }
