//! Fields of custom resources and arguments of programs that name images, as their projects document them.

use std::sync::LazyLock;

use serde_json::Value;

use kubexm_types::FieldPath;

/// The group of an API, kinds of objects, and paths of fields.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// A value that is a mapping has the parts of an image: `registry`, `repository`, `image` or `name`, `tag` or `version`.
const RESOURCES: &[Row] = &[
    // https://prometheus-operator.dev/docs/api-reference/api/
    (
        "monitoring.coreos.com",
        &[
            "Alertmanager",
            "Prometheus",
            "PrometheusAgent",
            "ThanosRuler",
        ],
        // The specification itself has baseImage and version in earlier releases.
        &[".spec", ".spec.image", ".spec.thanos.image"],
    ),
    // https://argo-workflows.readthedocs.io/en/latest/fields/
    (
        "argoproj.io",
        &["ClusterWorkflowTemplate", "Workflow", "WorkflowTemplate"],
        &[
            ".spec.templates[*].container.image",
            ".spec.templates[*].script.image",
            ".spec.templates[*].sidecars[*].image",
            ".spec.templateDefaults.container.image",
        ],
    ),
    (
        "argoproj.io",
        &["CronWorkflow"],
        &[
            ".spec.workflowSpec.templates[*].container.image",
            ".spec.workflowSpec.templates[*].script.image",
            ".spec.workflowSpec.templates[*].sidecars[*].image",
        ],
    ),
    (
        "argoproj.io",
        &["EventSource", "Sensor"],
        &[".spec.template.container.image"],
    ),
    // https://tekton.dev/docs/pipelines/tasks/
    (
        "tekton.dev",
        &["ClusterTask", "Task"],
        &[
            ".spec.stepTemplate.image",
            ".spec.steps[*].image",
            ".spec.sidecars[*].image",
        ],
    ),
    (
        "tekton.dev",
        &["TaskRun"],
        &[
            ".spec.taskSpec.steps[*].image",
            ".spec.taskSpec.sidecars[*].image",
        ],
    ),
    (
        "tekton.dev",
        &["Pipeline"],
        &[
            ".spec.tasks[*].taskSpec.steps[*].image",
            ".spec.tasks[*].taskSpec.sidecars[*].image",
            ".spec.finally[*].taskSpec.steps[*].image",
        ],
    ),
    (
        "tekton.dev",
        &["PipelineRun"],
        &[
            ".spec.pipelineSpec.tasks[*].taskSpec.steps[*].image",
            ".spec.pipelineSpec.tasks[*].taskSpec.sidecars[*].image",
            ".spec.pipelineSpec.finally[*].taskSpec.steps[*].image",
        ],
    ),
    ("tekton.dev", &["StepAction"], &[".spec.image"]),
    // The images of Knative's own parts; those of services are containers.
    ("caching.internal.knative.dev", &["Image"], &[".spec.image"]),
    // https://kubevirt.io/user-guide/storage/disks_and_volumes/#containerdisk
    (
        "kubevirt.io",
        &["VirtualMachine", "VirtualMachineInstanceReplicaSet"],
        &[
            ".spec.template.spec.volumes[*].containerDisk.image",
            ".spec.template.spec.domain.firmware.kernelBoot.container.image",
        ],
    ),
    (
        "kubevirt.io",
        &["VirtualMachineInstance"],
        &[
            ".spec.volumes[*].containerDisk.image",
            ".spec.domain.firmware.kernelBoot.container.image",
        ],
    ),
    (
        "pool.kubevirt.io",
        &["VirtualMachinePool"],
        &[".spec.virtualMachineTemplate.spec.template.spec.volumes[*].containerDisk.image"],
    ),
    // https://cluster-api.sigs.k8s.io/developer/core/testing: machines of the provider for containers.
    (
        "infrastructure.cluster.x-k8s.io",
        &["DockerMachineTemplate"],
        &[".spec.template.spec.customImage"],
    ),
    (
        "infrastructure.cluster.x-k8s.io",
        &["DockerMachine"],
        &[".spec.customImage"],
    ),
    // https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/. The operator adds the distribution of the node to the
    // version of the driver, so that one is a candidate.
    (
        "nvidia.com",
        &["ClusterPolicy"],
        &[
            ".spec.toolkit",
            ".spec.devicePlugin",
            ".spec.dcgm",
            ".spec.dcgmExporter",
            ".spec.gfd",
            ".spec.migManager",
            ".spec.nodeStatusExporter",
            ".spec.validator",
            ".spec.driver.manager",
        ],
    ),
    // https://kubernetes-sigs.github.io/node-feature-discovery/
    (
        "nfd.k8s-sigs.io",
        &["NodeFeatureDiscovery"],
        &[".spec.operand.image"],
    ),
    // https://rook.io/docs/rook/latest/CRDs/Cluster/ceph-cluster-crd/
    (
        "ceph.rook.io",
        &["CephCluster"],
        &[".spec.cephVersion.image"],
    ),
    // https://cloudnative-pg.io/documentation/current/image_catalog/
    ("postgresql.cnpg.io", &["Cluster"], &[".spec.imageName"]),
    (
        "postgresql.cnpg.io",
        &["ClusterImageCatalog", "ImageCatalog"],
        &[".spec.images[*].image"],
    ),
    ("acid.zalan.do", &["postgresql"], &[".spec.dockerImage"]),
    (
        "acid.zalan.do",
        &["OperatorConfiguration"],
        &[
            ".configuration.docker_image",
            ".configuration.connection_pooler.connection_pooler_image",
            ".configuration.logical_backup.logical_backup_docker_image",
        ],
    ),
    (
        "pxc.percona.com",
        &["PerconaXtraDBCluster"],
        &[
            ".spec.pxc.image",
            ".spec.haproxy.image",
            ".spec.proxysql.image",
            ".spec.logcollector.image",
            ".spec.backup.image",
        ],
    ),
    // https://www.elastic.co/docs/deploy-manage/deploy/cloud-on-k8s/create-custom-images
    (
        "elasticsearch.k8s.elastic.co",
        &["Elasticsearch"],
        &[".spec.image"],
    ),
    ("kibana.k8s.elastic.co", &["Kibana"], &[".spec.image"]),
    ("agent.k8s.elastic.co", &["Agent"], &[".spec.image"]),
    ("beat.k8s.elastic.co", &["Beat"], &[".spec.image"]),
    ("logstash.k8s.elastic.co", &["Logstash"], &[".spec.image"]),
    // https://strimzi.io/docs/operators/latest/configuring
    (
        "kafka.strimzi.io",
        &["Kafka", "KafkaBridge", "KafkaConnect", "KafkaMirrorMaker2"],
        &[
            ".spec.image",
            ".spec.kafka.image",
            ".spec.entityOperator.topicOperator.image",
            ".spec.entityOperator.userOperator.image",
            ".spec.cruiseControl.image",
            ".spec.kafkaExporter.image",
        ],
    ),
    ("rabbitmq.com", &["RabbitmqCluster"], &[".spec.image"]),
    ("minio.min.io", &["Tenant"], &[".spec.image"]),
    ("k8s.keycloak.org", &["Keycloak"], &[".spec.image"]),
    // https://docs.victoriametrics.com/operator/api/
    (
        "operator.victoriametrics.com",
        &["VMAgent", "VMAlert", "VMAlertmanager", "VMAuth", "VMSingle"],
        &[".spec.image"],
    ),
    (
        "operator.victoriametrics.com",
        &["VMCluster"],
        &[
            ".spec.vmstorage.image",
            ".spec.vmselect.image",
            ".spec.vminsert.image",
        ],
    ),
    // https://opentelemetry.io/docs/platforms/kubernetes/operator/
    (
        "opentelemetry.io",
        &["OpenTelemetryCollector"],
        &[".spec.image"],
    ),
    (
        "opentelemetry.io",
        &["Instrumentation"],
        &[
            ".spec.java.image",
            ".spec.nodejs.image",
            ".spec.python.image",
            ".spec.dotnet.image",
            ".spec.go.image",
        ],
    ),
    // https://gateway.envoyproxy.io/docs/api/extension_types/
    (
        "gateway.envoyproxy.io",
        &["EnvoyProxy"],
        &[
            ".spec.provider.kubernetes.envoyDeployment.container.image",
            ".spec.provider.kubernetes.envoyDaemonSet.container.image",
        ],
    ),
    // https://www.kubeflow.org/docs/components/spark-operator/
    (
        "sparkoperator.k8s.io",
        &["SparkApplication"],
        &[".spec.image", ".spec.driver.image", ".spec.executor.image"],
    ),
    (
        "sparkoperator.k8s.io",
        &["ScheduledSparkApplication"],
        &[".spec.template.image"],
    ),
    // https://docs.crossplane.io/latest/packages/
    (
        "pkg.crossplane.io",
        &["Configuration", "Function", "Provider"],
        &[".spec.package"],
    ),
    // https://olm.operatorframework.io/docs/concepts/crds/
    ("operators.coreos.com", &["CatalogSource"], &[".spec.image"]),
    (
        "operators.coreos.com",
        &["ClusterServiceVersion"],
        &[".spec.relatedImages[*].image"],
    ),
    // https://docs.k3s.io/helm and https://docs.k3s.io/upgrades/automated
    ("helm.cattle.io", &["HelmChart"], &[".spec.jobImage"]),
    (
        "upgrade.cattle.io",
        &["Plan"],
        &[".spec.upgrade.image", ".spec.prepare.image"],
    ),
];

/// Flags of operators whose value is the image of pods that they create.
const FLAGS: &[&str] = &[
    // https://cert-manager.io/docs/cli/controller/
    "--acme-http01-solver-image",
    // https://prometheus-operator.dev/docs/platform/operator/
    "--prometheus-config-reloader",
];

/// The fields of one group and kind.
struct Known {
    group: &'static str,
    kinds: &'static [&'static str],
    paths: Vec<FieldPath>,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let rows = RESOURCES.iter();
    rows.map(|(group, kinds, paths)| Known {
        group,
        kinds,
        paths: paths.iter().filter_map(|path| path.parse().ok()).collect(),
    })
    .collect()
});

/// Returns the fields of an object that name images.
pub fn paths(object: &Value) -> impl Iterator<Item = &'static FieldPath> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    let known = KNOWN
        .iter()
        .filter(move |known| known.group == group && known.kinds.contains(&kind));
    known.flat_map(|known| &known.paths)
}

/// Returns whether the value of a flag is an image.
pub fn is_image_flag(flag: &str) -> bool {
    FLAGS.contains(&flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_can_be_read() {
        let read = KNOWN.iter().map(|known| known.paths.len()).sum::<usize>();
        let written = RESOURCES.iter().map(|(_, _, paths)| paths.len());
        assert_eq!(read, written.sum::<usize>());
    }
}
