//! Two dnf repositories, made by the real rpmbuild, rpmsign, gpg and createrepo_c, and a web server for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use kubexm_config::Mirrors;
use kubexm_config::manifest::{DnfRepository, DnfSet, PackageSource, Repositories, Verify};
use kubexm_fetch::{Cache, Http};
use kubexm_types::event::Events;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// All of them are built in one run of rpmbuild.
const NEW: &str = r#"
Name: tool
Version: 1.2
Release: 3
Summary: A <tool> & more
License: MIT
BuildArch: noarch
Requires: lib >= 2:1.0, virt = 3, legacy, web, /opt/lab/bin/helper, /etc/lab/listed
Requires: (extra or other), (plugin if tool), (cond if absent), (both(a) with both(b))
Recommends: weak
%description
x
%package -n lib
Version: 1.5
Epoch: 2
Summary: x
%description -n lib
x
%package -n helper
Summary: x
Requires: (needless if (absent and lib))
%description -n helper
x
%package -n listed
Summary: x
%description -n listed
x
%package -n other
Summary: x
%description -n other
x
%package -n plugin
Summary: x
%description -n plugin
x
%package -n cond
Summary: x
%description -n cond
x
%package -n needless
Summary: x
Requires: nothing-has-this
%description -n needless
x
%package -n weak
Summary: x
%description -n weak
x
%package -n provider
Summary: x
Provides: virt = 3
%description -n provider
x
%package -n wrong-provider
Summary: x
Provides: virt = 2
%description -n wrong-provider
x
%package -n renamed
Summary: x
Provides: legacy = 3
Obsoletes: legacy < 3
%description -n renamed
x
%package -n light
Summary: x
Provides: web
Conflicts: other
%description -n light
x
%package -n heavy
Summary: x
Provides: web
%description -n heavy
x
%package -n half
Summary: x
Provides: both(a)
%description -n half
x
%package -n whole
Summary: x
Provides: both(a), both(b)
%description -n whole
x
%package -n broken
Summary: x
Requires: lib > 3:0
%description -n broken
x
%install
mkdir -p %{buildroot}/opt/lab/bin %{buildroot}/etc/lab
echo helper >%{buildroot}/opt/lab/bin/helper
echo tool >%{buildroot}/opt/lab/bin/tool
echo listed >%{buildroot}/etc/lab/listed
echo lib >%{buildroot}/opt/lab/lib
head -c 5000 /dev/zero >%{buildroot}/opt/lab/heavy
%files
/opt/lab/bin/tool
%files -n lib
/opt/lab/lib
%files -n helper
/opt/lab/bin/helper
%files -n listed
/etc/lab/listed
%files -n heavy
/opt/lab/heavy
%files -n other
%files -n plugin
%files -n cond
%files -n needless
%files -n weak
%files -n provider
%files -n wrong-provider
%files -n renamed
%files -n light
%files -n half
%files -n whole
%files -n broken
"#;

/// Older packages: one with a higher version and a lower epoch, and one that another obsoletes.
const OLD: &str = r#"
Name: lib
Version: 9.0
Release: 1
Epoch: 1
Summary: x
License: MIT
BuildArch: noarch
%description
x
%package -n legacy
Version: 2
Epoch: 0
Summary: x
%description -n legacy
x
%files
%files -n legacy
"#;

/// The packages that `tool` requires on an empty host.
pub const NEEDED: [&str; 10] = [
    "heavy", "helper", "lib", "listed", "other", "plugin", "provider", "renamed", "tool", "whole",
];

/// Returns the directory of everything that is made once: `base` and `apps` (repositories; the first is
/// compressed with xz and has a signed `repomd.xml`), `aged` (repositories of 2020, signed with a key that
/// expired in that year), `key`, `revoked` (the same, revoked), `old` (the expired one) and `other` (keys),
/// `plain` (packages without a signature). The next run deletes it, because a static value is never dropped.
pub static MADE: LazyLock<Made> = LazyLock::new(|| {
    let folder = Made(Path::new(env!("CARGO_TARGET_TMPDIR")).join("os-packages"));
    let _ = std::fs::remove_dir_all(folder.path());
    std::fs::create_dir_all(folder.path()).unwrap();
    let script = r#"
cd "$1"
export HOME=$PWD
# Paths of its sockets must be short.
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
mkdir base apps plain
# One after the other: two concurrent calls fail in a new home directory.
for name in key other; do
  gpg --batch --quiet --passphrase '' --quick-gen-key "$name@lab.example" rsa2048 sign never 2>>gpg.log ||
    { cat gpg.log >&2; exit 1; }
done
for name in new old; do
  rpmbuild --quiet --define "_topdir $PWD/$name" --define "_build_name_fmt %%{NAME}-%%{VERSION}.rpm" \
    -bb "$name.spec" >"$name.log" 2>&1 || { cat "$name.log"; exit 1; } &
done
wait
gpg --batch --armor --export key@lab.example >key.asc
gpg --batch --export other@lab.example >other.gpg
then=--faked-system-time
gpg --batch --quiet --passphrase '' $then 20200101T000000 --quick-gen-key old@lab.example rsa2048 sign 30d 2>>gpg.log
gpg --batch --armor --export old@lab.example >old.asc
fingerprint=$(gpg --batch --with-colons --list-keys key@lab.example | awk -F: '/^fpr/ {print $10}')
sed 's/^:---/---/' "$GNUPGHOME/openpgp-revocs.d/$fingerprint.rev" >revocation
home=$(mktemp -d)
gpg --batch --quiet --homedir "$home" --import key.asc revocation 2>>gpg.log
gpg --batch --homedir "$home" --armor --export >revoked.asc
GNUPGHOME=$home gpgconf --kill all
cp new/RPMS/tool-1.2.rpm plain/
mkdir -p aged/base aged/apps
cp new/RPMS/plugin-1.2.rpm aged/apps/
rpmsign --define '_gpg_name old@lab.example' --define '__gpg /usr/bin/gpg' \
  --define "_gpg_sign_cmd_extra_args $then 20200102T000000" --addsign aged/apps/*.rpm >sign.log 2>&1
createrepo_c -q aged/base
createrepo_c -q aged/apps
gpg --batch --armor $then 20200102T000000 --detach-sign --local-user old@lab.example aged/apps/repodata/repomd.xml
rpmsign --define '_gpg_name key@lab.example' --define '__gpg /usr/bin/gpg' --addsign new/RPMS/*.rpm old/RPMS/*.rpm >sign.log 2>&1
mv old/RPMS/*.rpm new/RPMS/lib-1.5.rpm new/RPMS/helper-1.2.rpm new/RPMS/listed-1.2.rpm base/
mv new/RPMS/*.rpm apps/
createrepo_c -q --general-compress-type xz base
createrepo_c -q apps
gpg --batch --armor --detach-sign --local-user key@lab.example base/repodata/repomd.xml
gpgconf --kill all
mv "$GNUPGHOME" gnupg
"#;
    std::fs::write(folder.path().join("new.spec"), NEW).unwrap();
    std::fs::write(folder.path().join("old.spec"), OLD).unwrap();
    let made = Command::new("sh")
        .args(["-euc", script, "make"])
        .arg(folder.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&made.stderr);
    assert!(
        made.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&made.stdout)
    );
    folder
});

/// A directory.
pub struct Made(PathBuf);

impl Made {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Serves the files below a directory.
struct Folder(PathBuf);

impl Respond for Folder {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let path = request.url.path().trim_start_matches('/');
        match std::fs::read(self.0.join(path)) {
            Ok(content) => ResponseTemplate::new(200).set_body_bytes(content),
            Err(_) => ResponseTemplate::new(404),
        }
    }
}

/// A copy of the repositories that a test may change, its server, and a cache.
pub struct Site {
    folder: tempfile::TempDir,
    server: MockServer,
    pub http: Http,
}

impl Site {
    pub async fn start() -> Self {
        Self::with(MADE.path()).await
    }

    /// The repositories whose key has expired.
    pub async fn aged() -> Self {
        Self::with(&MADE.path().join("aged")).await
    }

    async fn with(repositories: &Path) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        for name in ["base", "apps"] {
            let from = repositories.join(name);
            let copied = Command::new("cp")
                .arg("-r")
                .arg(from)
                .arg(folder.path())
                .status();
            assert!(copied.unwrap().success());
        }
        let server = MockServer::start().await;
        let respond = Folder(folder.path().to_owned());
        Mock::given(any())
            .respond_with(respond)
            .mount(&server)
            .await;
        let mut mirrors = Mirrors::default();
        mirrors
            .downloads
            .insert("https://dnf.example".into(), vec![server.uri()]);
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        let http = Http::new(mirrors, cache, Events::silent()).unwrap();
        Self {
            folder,
            server,
            http,
        }
    }

    /// Writes a detached signature of a file with the trusted key.
    pub fn sign(&self, file: &Path) {
        gpg(KEY, &["--armor", "--detach-sign"], &[file.as_os_str()]);
    }

    /// Writes a signature around a text with the trusted key.
    pub fn clear_sign(&self, file: &Path, signed: &Path) {
        self.clear_sign_as(KEY, file, signed);
    }

    /// Signs a text with these options of gpg.
    pub fn clear_sign_as(&self, signer: &[&str], file: &Path, signed: &Path) {
        let arguments = ["--output".as_ref(), signed.as_os_str(), file.as_os_str()];
        gpg(signer, &["--clear-sign"], &arguments);
    }

    /// Returns the address of the server itself, with a login.
    pub fn address(&self, login: &str) -> String {
        self.server.uri().replace("://", &format!("://{login}@"))
    }

    /// Returns path and `Authorization` of each request.
    pub async fn requests(&self) -> Vec<(String, Option<String>)> {
        let requests = self.server.received_requests().await.unwrap();
        let of = |request: &Request| {
            let header = request.headers.get("authorization");
            let header = header.map(|value| value.to_str().unwrap().to_owned());
            (request.url.path().to_owned(), header)
        };
        requests.iter().map(of).collect()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Returns the file of a directory whose name ends with this text.
    pub fn find(&self, folder: &str, end: &str) -> PathBuf {
        find(&self.at(folder), end)
    }
}

/// The options for the trusted signer.
const KEY: &[&str] = &["--local-user", "key@lab.example"];
/// The options for the signer whose key has expired, at a time when it was valid.
pub const EXPIRED: &[&str] = &[
    "--faked-system-time",
    "20200102T000000",
    "--local-user",
    "old@lab.example",
];

/// Options come before files. gpg starts an agent for this call alone and ends it.
fn gpg(signer: &[&str], action: &[&str], files: &[&std::ffi::OsStr]) {
    const SIGN: &str = r#"
chmod 700 "$GNUPGHOME"
cp -r "$1/." "$GNUPGHOME"
shift
gpg --batch --quiet --yes "$@"
gpgconf --kill all
"#;
    let home = tempfile::tempdir().unwrap();
    let (output, files) = files.split_at(files.len() - 1);
    let signed = Command::new("sh")
        .args(["-euc", SIGN, "sign"])
        .arg(MADE.path().join("gnupg"))
        .args(signer)
        .args(output)
        .args(action)
        .args(files)
        .env("GNUPGHOME", home.path())
        .status();
    assert!(signed.unwrap().success());
}

pub fn find(folder: &Path, end: &str) -> PathBuf {
    let mut entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .find(|path| path.to_str().unwrap().ends_with(end))
        .unwrap()
}

/// Returns a set from both repositories.
pub fn source(key: &str, verify: [Verify; 2], packages: &[&str]) -> PackageSource {
    let repository = |(name, verify): (&str, Verify)| DnfRepository {
        url: format!("https://dnf.example/{name}").parse().unwrap(),
        signed_by: vec![MADE.path().join(key)],
        verify,
    };
    let repositories = ["base", "apps"]
        .into_iter()
        .zip(verify)
        .map(repository)
        .collect();
    PackageSource {
        distribution: "rhel-like".into(),
        release: "9".into(),
        repositories: Repositories::Dnf(DnfSet {
            repositories,
            base: Vec::new(),
        }),
        packages: packages.iter().map(ToString::to_string).collect(),
    }
}
