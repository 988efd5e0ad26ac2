//! Runtime classes (`spec.containerRuntime.runtimes`).

use async_trait::async_trait;

use crate::module::Module;
use crate::runtime::INSTALL;
use crate::{DeployError, Deployment, Inputs, dns, manifest};
use kubexm_config::cluster::{HostSpec, RuntimeClass};
use kubexm_engine::plan::{
    Check, Describe, Ensure, Step, StepContext, StepError, Task, TaskId, TaskName,
};
use kubexm_engine::{Command, Host};
use kubexm_render::cri;
use kubexm_types::{HostPath, Message};

/// The objects of Kubernetes.
pub(super) struct RuntimeClasses;

/// Creates the objects.
const CREATE: TaskName = TaskName::new("runtime", "classes");

impl Module for RuntimeClasses {
    /// Adds steps that look for the programs that each node must have.
    fn prepare(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: Task,
    ) -> Result<Task, DeployError> {
        if !inputs.cluster.is_node(&host.name) {
            return Ok(task);
        }
        let classes = inputs.cluster.runtime.classes.iter();
        let everywhere = classes.filter(|class| class.node_selector.is_empty());
        Ok(everywhere.filter_map(Program::of).fold(task, Task::step))
    }

    fn tasks(&self, inputs: &Inputs<'_>, _: &Deployment) -> Result<Vec<Task>, DeployError> {
        let classes = &inputs.cluster.runtime.classes;
        let Some(first) = inputs.first().filter(|_| !classes.is_empty()) else {
            return Ok(Vec::new());
        };
        let object = |class: &RuntimeClass| cri::RuntimeClass {
            name: class.name.to_string(),
            node_selector: class
                .node_selector
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        };
        let objects = cri::RuntimeClasses {
            classes: classes.iter().map(object).collect(),
        };
        let nodes = inputs.nodes().into_iter();
        let installed: Vec<TaskId> = nodes.map(|host| INSTALL.id(&host.name)).collect();
        let text = kubexm_render::text("runtime classes", &objects)?;
        let task = CREATE
            .task(&first.name)
            .after([dns::configured(&first.name)])
            .after(installed);
        let title = "Create the runtime classes";
        Ok(vec![manifest::written(
            task,
            "runtime-classes",
            title,
            text,
        )?])
    }
}

/// An OCI runtime that a node must have. kubexm does not install it, because it is a package of the site.
struct Program {
    class: String,
    path: HostPath,
}

impl Program {
    fn of(class: &RuntimeClass) -> Option<Self> {
        Some(Self {
            class: class.name.to_string(),
            path: class.program.clone()?,
        })
    }
}

impl Describe for Program {
    fn id(&self) -> String {
        format!("program of the runtime {}", self.class)
    }

    fn describe(&self) -> String {
        format!("Look for {}", self.path)
    }
}

impl From<Program> for Step {
    fn from(step: Program) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for Program {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let command = Command::new("test").args(["-x", self.path.as_str()]);
        if host.run(command.describe(self.describe())).await?.success() {
            return Ok(Check::Satisfied);
        }
        Ok(Check::needed(format!("{} does not exist", self.path)))
    }

    async fn apply(&self, _: &StepContext<'_>) -> Result<(), StepError> {
        let (class, path) = (&self.class, &self.path);
        let text = format!("the runtime {class} needs {path}, which this node does not have");
        let hint = "add its package to spec.packages of the bundle, or install it; if only some nodes have it, name them with nodeSelector";
        Err(StepError::Other(Message::new(text).hint(hint)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, file_of, lock};
    use kubexm_host::local::LocalHost;
    use std::sync::Arc;

    fn file(runtime: &str, path: &str) -> String {
        let classes = "[{name: runc}, {name: kata, path: /opt/kata/bin/kata}, {name: nvidia, path: /usr/bin/nvidia-container-runtime, nodeSelector: {gpu: 'yes'}}]";
        let cluster = cluster(
            "",
            &format!(
                "network: {{plugin: none}}\ncontainerRuntime: {{type: {runtime}, runtimes: {classes}}}"
            ),
        );
        let mut lock = lock(&[]);
        let mut cri_o = lock.files[0].clone();
        cri_o.component = "cri-o".to_owned();
        lock.files.push(cri_o);
        for file in &mut lock.files {
            if file.component == "containerd" {
                file.version = kubexm_types::Version::new(2, 3, 7);
            }
        }
        let blobs = Arc::new(crate::example::OneFile(Vec::new()));
        let inputs = Inputs::assumed(&cluster, &lock, blobs);
        file_of(&inputs, "node1", path).unwrap()
    }

    #[test]
    fn a_runtime_class_has_a_handler_and_an_object() {
        let objects = file("containerd", "/etc/kubexm/runtime-classes.yaml");
        insta::assert_snapshot!(objects, @r#"
        # Written by kubexm.
        # https://kubernetes.io/docs/concepts/containers/runtime-class/
        ---
        apiVersion: node.k8s.io/v1
        kind: RuntimeClass
        metadata:
          name: "runc"
        handler: "runc"
        ---
        apiVersion: node.k8s.io/v1
        kind: RuntimeClass
        metadata:
          name: "kata"
        handler: "kata"
        ---
        apiVersion: node.k8s.io/v1
        kind: RuntimeClass
        metadata:
          name: "nvidia"
        handler: "nvidia"
        scheduling:
          nodeSelector:
            "gpu": "yes"
        "#);
        let config = parsed(&file("containerd", "/etc/containerd/config.toml"));
        let runtimes = &config["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"];
        assert_eq!(
            runtimes["kata"]["options"]["BinaryName"],
            "/opt/kata/bin/kata"
        );
        assert_eq!(runtimes["nvidia"]["runtime_type"], "io.containerd.runc.v2");
        assert_eq!(
            runtimes["runc"]["options"]["BinaryName"],
            "/usr/local/bin/runc"
        );
        let config = parsed(&file("cri-o", "/etc/crio/crio.conf.d/10-kubexm.conf"));
        let runtimes = &config["crio"]["runtime"]["runtimes"];
        assert_eq!(runtimes["kata"]["runtime_path"], "/opt/kata/bin/kata");
        assert_eq!(
            runtimes["runc"]["runtime_path"],
            "/usr/local/libexec/crio/runc"
        );
    }

    #[tokio::test]
    async fn a_node_without_the_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let host = LocalHost::within("node1".parse().unwrap(), folder.path()).unwrap();
        let looks = async |path: &str| {
            let program = Program {
                class: "kata".to_owned(),
                path: HostPath::parse(path).unwrap(),
            };
            let found = program.check(&host).await.unwrap();
            (
                matches!(found, Check::Satisfied),
                crate::fake_host::apply(&program, &host).await,
            )
        };
        assert!(looks("/bin/sh").await.0);
        let (found, error) = looks("/nowhere/kata").await;
        assert!(!found);
        insta::assert_snapshot!(error.unwrap_err(), @"
        the runtime kata needs /nowhere/kata, which this node does not have
        hint: add its package to spec.packages of the bundle, or install it; if only some nodes have it, name them with nodeSelector
        ");
    }

    fn parsed(config: &str) -> serde_json::Value {
        toml::from_str(config).unwrap()
    }
}
