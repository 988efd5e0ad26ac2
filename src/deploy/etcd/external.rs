//! An etcd that exists outside of the cluster.

use super::CLIENT_FILES;
use crate::{DeployError, controller_file};
use kubexm_config::cluster::{Cluster, Etcd};
use kubexm_engine::steps::WriteFile;
use kubexm_types::HostPath;

/// Returns the client's files, which kubexm copies from the controller to a control plane.
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
    let [ca, cert, key] = CLIENT_FILES;
    Ok(vec![
        WriteFile::new(HostPath::parse(ca)?, controller_file::read(ca_file)?),
        WriteFile::new(HostPath::parse(cert)?, controller_file::read(cert_file)?),
        WriteFile::secret(HostPath::parse(key)?, controller_file::read(key_file)?),
    ])
}
