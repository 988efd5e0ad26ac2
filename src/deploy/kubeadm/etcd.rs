//! Where etcd is, for kubeadm's configuration.

use std::path::Path;

use crate::deploy::DeployError;
use crate::render::kubeadm::{EtcdSection, ExternalEtcd};
use crate::spec::HostPath;
use crate::spec::cluster::{Cluster, Etcd};
use crate::steps::WriteFile;

/// CA, client certificate and client key on control planes.
const FILES: [&str; 3] = [
    "/etc/kubexm/etcd/ca.crt",
    "/etc/kubexm/etcd/client.crt",
    "/etc/kubexm/etcd/client.key",
];

/// The external etcd with its files on hosts; `None` where etcd is kubeadm's.
pub(super) fn external(cluster: &Cluster) -> Option<ExternalEtcd> {
    let Etcd::External { endpoints, .. } = &cluster.etcd else {
        return None;
    };
    let [ca_file, cert_file, key_file] = FILES.map(str::to_owned);
    Some(ExternalEtcd {
        endpoints: endpoints.clone(),
        ca_file,
        cert_file,
        key_file,
    })
}

/// The `etcd` section of kubeadm's configuration.
pub(super) fn section(cluster: &Cluster) -> EtcdSection {
    match &cluster.etcd {
        Etcd::Kubeadm { extra_args } => EtcdSection::Local {
            args: extra_args.clone(),
        },
        Etcd::External { endpoints, .. } => {
            let [ca_file, cert_file, key_file] = FILES.map(str::to_owned);
            EtcdSection::External {
                endpoints: endpoints.clone(),
                ca_file,
                cert_file,
                key_file,
            }
        }
    }
}

/// The client files of an external etcd, from this machine to a control plane. `kubeadm join`
/// writes them again, from what `upload-certs` took of the first control plane, with these modes.
pub(super) fn client_files(cluster: &Cluster) -> Result<Vec<WriteFile>, DeployError> {
    let Etcd::External {
        ca_file,
        cert_file,
        key_file,
        ..
    } = &cluster.etcd
    else {
        return Ok(Vec::new());
    };
    let [ca, cert, key] = FILES;
    Ok(vec![
        WriteFile::new(HostPath::parse(ca)?, read(ca_file)?),
        WriteFile::new(HostPath::parse(cert)?, read(cert_file)?),
        WriteFile::secret(HostPath::parse(key)?, read(key_file)?),
    ])
}

fn read(file: &Path) -> Result<String, DeployError> {
    std::fs::read_to_string(file).map_err(|source| DeployError::File {
        path: file.display().to_string(),
        source,
    })
}
