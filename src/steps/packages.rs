//! Install OS packages of the bundle with the host's own apt.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Undo, ask, must};
use crate::bundle::Blobs;
use crate::bundle::lock::{LockedPackage, LockedPackages};
use crate::host::{Command, Input, tar_stream};
use crate::plan::{Check, Step, StepContext, StepError};

/// Installs the requested packages of a set; apt decides which of the set the host lacks.
pub struct InstallPackages {
    /// The set for the host's release.
    pub set: LockedPackages,
    /// The bundle.
    pub blobs: Arc<dyn Blobs>,
}

/// Ends with 0 where all requested packages are installed; prints those that are not.
const CHECK: &str = r#"
missing=
for name in "$@"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing="$missing $name"
done
[ -z "$missing" ] || { echo "lacks$missing"; exit 1; }
"#;

/// apt with a source of its own: the host's lists, sources and caches stay untouched.
const APT: &str = r#"
export DEBIAN_FRONTEND=noninteractive
base=/var/lib/kubexm/packages
mkdir -p /run/kubexm
# A killed install leaves its apt running on the host: it is waited for, never raced.
exec 9>/run/kubexm/packages.lock
flock -w 600 9 || { echo "an earlier run's apt is still going on after 10 minutes" >&2; exit 1; }
apt() {
  apt-get -q -y --no-install-recommends -o Dir::Etc::sourcelist="$base/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$base/lists" \
    -o Dir::Cache="$base/cache" -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold \
    -o APT::Sandbox::User=root "$@"
}
"#;

/// Reads the index from standard input and prints what apt would install: name, version, and `new`
/// for what the host has in no version.
const SIMULATE: &str = r#"
mkdir -p "$base/lists/partial" "$base/cache/archives/partial"
cat >"$base/Packages"
echo "deb [trusted=yes] file:$base ./" >"$base/sources.list"
apt update >/dev/null
apt -s install "$@" | sed -n -e 's/^Inst \([^ ]*\) \[[^]]*\] (\([^ ]*\) .*/\1 \2 newer/p' \
  -e 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1 \2 new/p'
"#;

/// Reads the packages from standard input, checks them against apt's index and installs them. No
/// service of theirs may start meanwhile: Kubernetes brings its own rules.
const INSTALL: &str = r#"
mkdir -p "$base/lists/partial" "$base/cache/archives/partial"
tar -x --no-same-owner -C "$base"
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  made=yes
fi
trap '[ -z "$made" ] || rm -f "$policy"; rm -rf "$base"' EXIT
apt install "$@" >"$base/log" 2>&1 || { tail -n 20 "$base/log" >&2; exit 1; }
"#;

const UNDO: &str = r#"
mkdir -p /run/kubexm
# A killed install leaves its apt running on the host: it is waited for.
exec 9>/run/kubexm/packages.lock
flock -w 600 9
present=
for name in "$@"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || :)
  case $status in '' | not-installed) ;; *) present="$present $name" ;; esac
done
[ -z "$present" ] || DEBIAN_FRONTEND=noninteractive dpkg --purge $present >/dev/null
"#;

impl InstallPackages {
    /// What apt would install, out of the set, and whether the host has it in no version yet.
    async fn simulate(
        &self,
        context: &StepContext<'_>,
    ) -> Result<Vec<(LockedPackage, bool)>, StepError> {
        let script = format!("{APT}{SIMULATE}");
        let index = self.blobs.open(&self.set.index.digest)?;
        let command =
            Command::script(script, self.set.requested.clone()).input(Input::Stream(index));
        let printed = must(context, "ask apt what it would install", command)
            .await?
            .text();
        let chosen: BTreeMap<(&str, &str), bool> = printed
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                Some(((words.next()?, words.next()?), words.next()? == "new"))
            })
            .collect();
        let packages = self.set.packages.iter();
        Ok(packages
            .filter_map(|p| Some((p.clone(), *chosen.get(&(&p.name, &p.version))?)))
            .collect())
    }
}

#[async_trait]
impl Step for InstallPackages {
    fn id(&self) -> String {
        "packages".to_owned()
    }

    fn describe(&self) -> String {
        format!("Install packages {}", self.set.requested.join(", "))
    }

    async fn check(&self, context: &StepContext<'_>) -> Result<Check, StepError> {
        let command = Command::script(CHECK, self.set.requested.clone());
        ask(context, "look for packages".to_owned(), command).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let packages = self.simulate(context).await?;
        // What is only renewed was the host's before, and stays.
        let names: Vec<String> = packages
            .iter()
            .filter(|(_, is_new)| *is_new)
            .map(|(package, _)| package.name.clone())
            .collect();
        let packages: Vec<LockedPackage> = packages.into_iter().map(|(p, _)| p).collect();
        let undo = Undo::Script {
            title: format!("Remove {} packages", names.len()),
            script: UNDO.to_owned(),
            arguments: names,
        };
        context.undo.record(&self.id(), undo.to_value()?).await?;
        let total = packages.iter().map(|package| package.size).sum();
        let label = format!("{} packages → {}", packages.len(), context.host.name());
        let transfer = context.events.transfer("push", label, Some(total));
        let blobs = Arc::clone(&self.blobs);
        let stream = tar_stream::stream(move |tar| {
            for package in &packages {
                let content = blobs.open(&package.digest).map_err(io::Error::other)?;
                tar_stream::add(tar, &package.file_name, package.size, 0o644, content)?;
            }
            Ok(())
        })
        .map_err(|error| StepError::Other(format!("packages: {error}")))?;
        let script = format!("{APT}{INSTALL}");
        let command =
            Command::script(script, self.set.requested.clone()).input(Input::Stream(stream));
        must(context, &self.describe(), command).await?;
        transfer.advance(total);
        transfer.done();
        Ok(())
    }
}
