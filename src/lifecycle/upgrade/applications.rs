//! Objects of applications whose API versions end with an upgrade. Helm neither upgrades nor removes a release with one.

use std::sync::Arc;

use super::context::Context;
use super::removed_apis::{is_removed, replacement};
use super::survey::listed;
use kubexm_deploy::objects::Server;
use kubexm_deploy::{
    Inputs, InstalledRelease, ManifestObject, PlannedApplication, Resources, releases,
    stored_release,
};
use kubexm_host::Host;
use kubexm_preflight::Finding;
use kubexm_session::CommandError;
use kubexm_session::application_changes::Renderer;
use kubexm_session::program_settings::Programs;
use kubexm_types::event::Events;
use kubexm_types::{FindingKind, HostName, Message, Version, WarningKind};

/// What to do about them.
const HINT: &str = "use a version of the chart or of the manifests with the replacements, and run kubexm app apply before the upgrade";

impl Context<'_> {
    /// Returns releases, and applications of the cluster file, with objects that the new version of Kubernetes does not serve.
    ///
    /// # Errors
    /// The API server does not answer, or the bundle does not have a part of an application.
    pub(super) async fn removed_objects(
        &self,
        (first, host): (&HostName, &dyn Host),
        from: &Version,
        events: &Events,
    ) -> Result<Vec<Finding>, CommandError> {
        let (cluster, to) = (self.cluster, &self.cluster.kubernetes.version);
        let mut installed = releases(Server::of(host)).await?;
        installed.retain(|release| release.is_of_kubexm);
        let minors = (from.minor(), to.minor());
        let mut findings = Vec::new();
        if cluster.applications.is_empty() && installed.is_empty() {
            return Ok(findings);
        }
        let not_checked = |what: &str, why: &str| {
            let text = format!("the API versions of {what} are not checked: {why}");
            events.warn(WarningKind::NotChecked, Message::new(text));
        };
        let resources = Resources::read(host).await?;
        let resources = resources.without(|version, kind| is_removed(to.minor(), version, kind));
        for release in &installed {
            let InstalledRelease {
                name, namespace, ..
            } = release;
            let objects = match stored_release(Server::of(host), release).await {
                Ok(stored) => ManifestObject::parse(&stored.manifest, namespace, &resources)
                    .map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let what = format!("the release {name} of Helm in the namespace {namespace}");
            match objects {
                Ok(objects) => {
                    let is_known = cluster.applications.iter().any(|one| release.is_of(one));
                    let left =
                        format!("kubexm app remove {name} --namespace {namespace} removes it");
                    let hint = if is_known { HINT } else { &left };
                    findings.extend(finding((&what, hint), &objects, first, minors, true));
                }
                Err(why) => not_checked(&what, &why),
            }
        }
        let programs = Programs::of(self.bundle);
        let renderer = Renderer::new(&programs, to)?;
        let blobs = Arc::clone(self.bundle) as _;
        let inputs = Inputs::assumed(cluster, self.bundle.lock(), blobs);
        // The releases of the others are checked above.
        for application in kubexm_deploy::applications_of_bundle(&inputs)?.0 {
            let planned = PlannedApplication::of(&inputs, application)?;
            let exists = installed.iter().any(|release| release.is_of(application));
            match renderer.objects(&planned, exists, &resources).await? {
                Ok(objects) => {
                    let what = format!("the application {}", application.name);
                    // Without a cluster, Helm reports former API versions to charts: an install can render others.
                    findings.extend(finding((&what, HINT), &objects, first, minors, false));
                }
                Err(why) => not_checked(&format!("the application {}", application.name), &why),
            }
        }
        Ok(findings)
    }
}

/// Returns which of these objects prevent an upgrade from a minor version to another one; `None` if none does.
fn finding(
    (what, hint): (&str, &str),
    objects: &[ManifestObject],
    first: &HostName,
    minors: (u64, u64),
    is_fatal: bool,
) -> Option<Finding> {
    let gone = objects.iter().filter_map(|object| {
        let ManifestObject {
            api_version, kind, ..
        } = object;
        let replacement = replacement(minors, api_version, kind)?;
        let namespace = object.namespace.as_ref();
        let place = namespace.map_or(String::new(), |namespace| format!("{namespace}/"));
        Some(format!(
            "{kind} {place}{} ({api_version}: {replacement} replaces it)",
            object.name
        ))
    });
    let gone: Vec<String> = gone.collect();
    let what = format!(
        "{what} has objects whose API versions Kubernetes 1.{} does not serve any more: {}",
        minors.1,
        listed(&gone)
    );
    (!gone.is_empty()).then(|| Finding::new(FindingKind::Versions, first, is_fatal, what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "
{apiVersion: flowcontrol.apiserver.k8s.io/v1beta2, kind: PriorityLevelConfiguration, metadata: {name: shop}}
---
{apiVersion: flowcontrol.apiserver.k8s.io/v1beta3, kind: FlowSchema, metadata: {name: shop}}
---
{apiVersion: storage.k8s.io/v1beta1, kind: VolumeAttributesClass, metadata: {name: fast}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: cache, namespace: shop}}
";

    fn found(from: u64, to: u64) -> Option<String> {
        let objects = ManifestObject::parse(MANIFEST, "shop", &Resources::default()).unwrap();
        let first = "node1".parse().unwrap();
        let what = ("the application shop", HINT);
        let finding = finding(what, &objects, &first, (from, to), true);
        finding.map(|finding| finding.to_string())
    }

    #[test]
    fn objects_that_the_new_version_does_not_serve_are_named_with_their_replacements() {
        assert_eq!(found(29, 31), None);
        insta::assert_snapshot!(found(28, 32).unwrap(), @"
        node1: the application shop has objects whose API versions Kubernetes 1.32 does not serve any more: PriorityLevelConfiguration shop (flowcontrol.apiserver.k8s.io/v1beta2: flowcontrol.apiserver.k8s.io/v1 replaces it), FlowSchema shop (flowcontrol.apiserver.k8s.io/v1beta3: flowcontrol.apiserver.k8s.io/v1 replaces it)
          hint: use a version of the chart or of the manifests with the replacements, and run kubexm app apply before the upgrade
        ");
        insta::assert_snapshot!(found(31, 36).unwrap(), @"
        node1: the application shop has objects whose API versions Kubernetes 1.36 does not serve any more: FlowSchema shop (flowcontrol.apiserver.k8s.io/v1beta3: flowcontrol.apiserver.k8s.io/v1 replaces it)
          hint: use a version of the chart or of the manifests with the replacements, and run kubexm app apply before the upgrade
        ");
    }
}
