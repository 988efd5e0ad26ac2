#!/bin/sh -eu
# Installs packages of the bundle with dnf. It passes its own settings, so that dnf does not use the host's
# repositories, caches, exclusions and plugins, which may contact a subscription server. The repository
# has no signature, because its content comes from the bundle. The script verifies the digests of the packages
# before dnf uses them. `module_hotfixes`: this repository does not mention modules, and dnf would hide
# packages that belong to one.
#   simulate  reads the index from standard input and prints what dnf would install: name, version, and
#             `new` for a package that the host has in no version
#   install   reads the packages as a tar from standard input, with SHA256SUMS, and installs them
# Arguments: verb, SHA-256 of the index, its size in bytes, names of packages.
verb=$1 digest=$2 size=$3
shift 3
base=/var/lib/kubexm/packages
command -v dnf >/dev/null || { echo "dnf is not installed" >&2; exit 1; }
install -d -m 700 /run/kubexm
# A killed install leaves its dnf running on the host. This waits for it.
exec 9>/run/kubexm/packages.lock
flock -w 600 9 || { echo "dnf of an earlier run still runs after 10 minutes" >&2; exit 1; }
run_dnf() { LC_ALL=C dnf --config="$base/dnf.conf" "$@"; }
simulate() {
  rm -rf "$base"
  mkdir -p "$base/repodata" "$base/repos" "$base/log"
  cat >"$base/repodata/primary.xml"
  cat >"$base/repodata/repomd.xml" <<END
<?xml version="1.0" encoding="UTF-8"?>
<repomd xmlns="http://linux.duke.edu/metadata/repo">
<revision>0</revision>
<data type="primary">
<checksum type="sha256">$digest</checksum>
<open-checksum type="sha256">$digest</open-checksum>
<location href="repodata/primary.xml"/>
<timestamp>0</timestamp>
<size>$size</size>
<open-size>$size</open-size>
</data>
</repomd>
END
  cat >"$base/repos/bundle.repo" <<END
[kubexm-bundle]
name=kubexm bundle
baseurl=file://$base
enabled=1
gpgcheck=0
repo_gpgcheck=0
module_hotfixes=1
END
  cat >"$base/dnf.conf" <<END
[main]
reposdir=$base/repos
cachedir=$base/cache
logdir=$base/log
gpgcheck=0
plugins=0
install_weak_deps=0
best=0
END
  if ! run_dnf --assumeno install "$@" >"$base/table" 2>"$base/words"; then
    grep -q '^Operation aborted' "$base/table" "$base/words" || { tail -n 20 "$base/words" >&2; exit 1; }
  fi
  # Of the table that dnf prints, this uses name and version: they stand before the name of the
  # repository, wherever dnf breaks the lines.
  tr -s ' \t\n' '\n' <"$base/table" |
    awk '$0 == "kubexm-bundle" && n > 2 { print word[n - 2], word[n] } { word[++n] = $0 }' |
    while read -r name version; do
      if rpm -q --quiet "$name"; then echo "$name $version newer"; else echo "$name $version new"; fi
    done
}
case $verb in
simulate) simulate "$@" ;;
install)
  trap 'rm -rf "$base"' EXIT
  mkdir -p "$base"
  tar -x --no-same-owner -C "$base"
  # Empty if the host has all of them.
  [ ! -s "$base/SHA256SUMS" ] || (cd "$base" && sha256sum --quiet -c SHA256SUMS >&2)
  run_dnf -y install "$@" >"$base/table" 2>&1 || { tail -n 20 "$base/table" >&2; exit 1; }
  ;;
*) echo "usage: dnf.sh simulate|install" >&2; exit 2 ;;
esac
