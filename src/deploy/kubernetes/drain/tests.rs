use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::fake_host::{apply, objects, printed, words};
use kubexm_host::{HostError, Output};

/// A control plane of a cluster with the node `node1`. It records what changes something.
struct FakeCluster {
    name: HostName,
    kubelet: &'static str,
    runtime: &'static str,
    ready: &'static str,
    /// Whether the API server refuses requests.
    is_silent: bool,
    /// The pods of CoreDNS: node, status of `Ready`, name.
    dns: Mutex<Vec<[&'static str; 3]>>,
    /// Attachments: node, name, persistent volume.
    volumes: Vec<[&'static str; 3]>,
    /// What kubectl prints if the pods do not leave.
    stuck: Option<String>,
    is_cordoned: Mutex<bool>,
    is_marked: Mutex<bool>,
    calls: Mutex<Vec<String>>,
}

impl FakeCluster {
    fn new() -> Self {
        Self {
            name: "node2".parse().unwrap(),
            kubelet: "v1.35.4",
            runtime: "containerd://2.2.9",
            ready: "True",
            is_silent: false,
            dns: Mutex::default(),
            volumes: Vec::new(),
            stuck: None,
            is_cordoned: Mutex::new(false),
            is_marked: Mutex::new(false),
            calls: Mutex::default(),
        }
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn attachments_asked(&self) -> usize {
        let calls = self.calls();
        let asked = calls.iter();
        asked
            .filter(|call| *call == "get volumeattachments")
            .count()
    }

    fn is_cordoned(&self) -> (bool, bool) {
        (
            *self.is_marked.lock().unwrap(),
            *self.is_cordoned.lock().unwrap(),
        )
    }

    fn set_cordoned(&self, value: bool) {
        (
            *self.is_marked.lock().unwrap(),
            *self.is_cordoned.lock().unwrap(),
        ) = (value, value);
    }

    fn objects(&self, words: &[&str]) -> Value {
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let items = match words {
            ["node", ..] => {
                return json!({
                    "spec": {"unschedulable": *self.is_cordoned.lock().unwrap()},
                    "status": {
                        "nodeInfo": {"kubeletVersion": self.kubelet, "containerRuntimeVersion": self.runtime},
                        "conditions": ready(self.ready),
                    },
                });
            }
            ["pods", "-n", ..] => {
                let pods = self.dns.lock().unwrap();
                let pods = pods.iter().map(|[node, status, name]| {
                    json!({"metadata": {"name": name}, "spec": {"nodeName": node}, "status": {"conditions": ready(status)}})
                });
                pods.collect()
            }
            ["pods", "-A", on_node] => {
                assert_eq!(*on_node, "--field-selector=spec.nodeName=node1");
                let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
                json!([
                    {
                        "metadata": {"namespace": "app", "name": "ds-1", "ownerReferences": [{"kind": "DaemonSet"}]},
                        "spec": {"volumes": [claim("data"), {"name": "scratch", "ephemeral": {}}, {"name": "other", "emptyDir": {}}]},
                    },
                    {
                        "metadata": {"namespace": "app", "name": "web-0", "ownerReferences": [{"kind": "StatefulSet"}]},
                        "spec": {"volumes": [claim("web")]},
                    },
                ])
            }
            ["persistentvolumes"] => json!([
                {"metadata": {"name": "pv-1"}, "spec": {"claimRef": {"namespace": "app", "name": "data"}}},
                {"metadata": {"name": "pv-2"}, "spec": {"claimRef": {"namespace": "app", "name": "ds-1-scratch"}}},
                {"metadata": {"name": "pv-3"}, "spec": {"claimRef": {"namespace": "app", "name": "web"}}},
                {"metadata": {"name": "pv-4"}, "spec": {}},
            ]),
            ["volumeattachments"] => {
                let all = self.volumes.iter().map(|[node, name, volume]| {
                    let source = if volume.is_empty() { json!({}) } else { json!({"persistentVolumeName": volume}) };
                    json!({"metadata": {"name": name}, "spec": {"nodeName": node, "source": source}})
                });
                all.collect()
            }
            ["poddisruptionbudgets", "-A"] => json!([
                {
                    "metadata": {"namespace": "default", "name": "web"},
                    "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1},
                },
                {
                    "metadata": {"namespace": "default", "name": "other"},
                    "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1},
                },
            ]),
            _ => panic!("{words:?}"),
        };
        json!({ "items": items })
    }

    /// Answers the script.
    fn answer(&self, words: &[&str]) -> (i32, String) {
        let is_done = match words {
            ["cordoned", "node1"] => *self.is_marked.lock().unwrap(),
            _ if self.is_silent => false,
            ["cordon", "node1"] => {
                self.set_cordoned(true);
                true
            }
            ["uncordon", "node1"] => {
                if *self.is_marked.lock().unwrap() {
                    self.set_cordoned(false);
                }
                true
            }
            ["evict", "node1", ..] => match &self.stuck {
                Some(said) => return (1, said.clone()),
                None => true,
            },
            ["delete", pod] => {
                let mut pods = self.dns.lock().unwrap();
                pods.retain(|[_, _, name]| name != pod);
                pods.push(["node2", "True", "dns-3"]);
                true
            }
            _ => panic!("{words:?}"),
        };
        (i32::from(!is_done), String::new())
    }
}

#[async_trait]
impl Host for FakeCluster {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let ["", asked @ ..] = &words[..] {
            self.calls
                .lock()
                .unwrap()
                .push(format!("get {}", asked.join(" ")));
            return Ok(if self.is_silent {
                printed(1, String::new())
            } else {
                objects(&self.objects(asked))
            });
        }
        self.calls.lock().unwrap().push(words.join(" "));
        let (status, text) = self.answer(&words);
        Ok(printed(status, text))
    }
}

fn drain(reason: Reason) -> DrainNode {
    DrainNode {
        node: "node1".parse().unwrap(),
        drain: Drain {
            timeout: Duration::from_secs(5),
            deletes_unmanaged: true,
            ignores_budgets: false,
        },
        reason,
    }
}

fn changed() -> DrainNode {
    drain(Reason::Change {
        version: "1.36.3".to_owned(),
        runtime: Some("containerd://2.3".to_owned()),
    })
}

fn leaving() -> DrainNode {
    drain(Reason::Departure)
}

fn returned() -> ReturnNode {
    ReturnNode {
        node: "node1".parse().unwrap(),
        version: "1.36.3".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn node_is_cordoned_drained_and_returned() {
    let mut host = FakeCluster::new();
    let said = |said: &str| Check::needed(said);
    let found = changed().check(&host).await.unwrap();
    assert_eq!(found, said("its kubelet has the version v1.35.4"));
    apply(&changed(), &host).await.unwrap();
    assert_eq!(host.is_cordoned(), (true, true));
    let calls = host.calls();
    assert!(
        calls.contains(&"evict node1 --timeout=5s --force".to_owned()),
        "{calls:?}"
    );
    let found = returned().check(&host).await.unwrap();
    assert_eq!(found, said("kubexm has cordoned node1"));
    assert_eq!(
        apply(&returned(), &host).await.unwrap_err(),
        "node1 is not Ready with a kubelet of version 1.36.3\n\
         hint: read journalctl -u kubelet on node1, then run the same command again"
    );
    assert_eq!(host.is_cordoned(), (true, true));
    host.kubelet = "v1.36.3";
    apply(&returned(), &host).await.unwrap();
    assert_eq!(host.is_cordoned(), (false, false));
    assert_eq!(returned().check(&host).await.unwrap(), Check::Satisfied);
    // A rollback finds the former kubelet and the newer containerd, whose pods end.
    let found = changed().check(&host).await.unwrap();
    assert_eq!(found, said("its pods run with containerd://2.2.9"));
    host.runtime = "containerd://2.30.1";
    let found = changed().check(&host).await.unwrap();
    assert_eq!(found, said("its pods run with containerd://2.30.1"));
    host.runtime = "containerd://2.3.7";
    assert_eq!(changed().check(&host).await.unwrap(), Check::Satisfied);
}

#[tokio::test(start_paused = true)]
async fn node_that_an_administrator_has_cordoned_stays_cordoned() {
    let mut host = FakeCluster::new();
    *host.is_cordoned.lock().unwrap() = true;
    apply(&changed(), &host).await.unwrap();
    assert_eq!(host.is_cordoned(), (false, true));
    host.kubelet = "v1.36.3";
    apply(&returned(), &host).await.unwrap();
    assert_eq!(host.is_cordoned(), (false, true));
}

#[tokio::test(start_paused = true)]
async fn one_pod_of_dns_moves_before_the_others() {
    let host = FakeCluster::new();
    let set = |pods: &[[&'static str; 3]]| *host.dns.lock().unwrap() = pods.to_vec();
    set(&[["node1", "True", "dns-1"], ["node1", "True", "dns-2"]]);
    apply(&changed(), &host).await.unwrap();
    let calls = host.calls();
    let place = |part: &str| calls.iter().position(|call| call.contains(part)).unwrap();
    assert!(place("delete dns-1") < place("evict node1"));
    // None is ready elsewhere, and the only one that is ready stays.
    set(&[["node1", "True", "dns-1"], ["node2", "False", "dns-2"]]);
    let said = apply(&changed(), &host).await.unwrap_err();
    let expected = "no pod of CoreDNS is ready on another node than node1\nthe scheduler may use node1 again\nhint: ";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(host.is_cordoned(), (false, false));
    assert!(!host.calls().iter().any(|call| call.starts_with("delete")));
    // A single pod moves with the drain.
    set(&[["node1", "True", "dns-1"]]);
    apply(&changed(), &host).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_volumes_and_goes_on_after_a_time() {
    let mut host = FakeCluster::new();
    host.volumes = vec![["node1", "csi-1", "pv-3"], ["node2", "csi-2", "pv-4"]];
    apply(&changed(), &host).await.unwrap();
    assert!(host.attachments_asked() > 1);
    let said = apply(&leaving(), &host).await.unwrap_err();
    assert!(
        said.starts_with("volumes are still attached to node1: csi-1\nhint: "),
        "{said}"
    );
}

/// Before, a node with such a volume could not leave the cluster, and each drain waited for two minutes.
#[tokio::test(start_paused = true)]
async fn volumes_of_daemon_sets_stay_attached() {
    let mut host = FakeCluster::new();
    host.volumes = vec![["node1", "csi-1", "pv-1"], ["node1", "csi-2", "pv-2"]];
    apply(&leaving(), &host).await.unwrap();
    assert_eq!(host.attachments_asked(), 1);
}

/// Its pod may come from a StatefulSet that tolerates a cordoned node, and an inline volume has no PersistentVolume.
#[tokio::test(start_paused = true)]
async fn volumes_of_other_pods_keep_a_node_from_leaving() {
    let mut host = FakeCluster::new();
    for volume in ["pv-3", "pv-4", ""] {
        host.volumes = vec![["node1", "csi-1", volume]];
        assert!(apply(&leaving(), &host).await.is_err(), "{volume}");
    }
}

/// Before, the removal of a host that answers SSH, and whose kubelet has ended, did not go on.
#[tokio::test(start_paused = true)]
async fn kubelet_that_does_not_work_detaches_nothing() {
    let mut host = FakeCluster::new();
    host.volumes = vec![["node1", "csi-1", "pv-3"]];
    host.ready = "Unknown";
    assert_eq!(
        leaving().check(&host).await.unwrap(),
        Check::needed("the cluster has the node")
    );
    host.calls();
    apply(&leaving(), &host).await.unwrap();
    let calls = host.calls();
    let evict = "evict node1 --timeout=5s --force --skip-wait-for-delete-timeout=1".to_owned();
    assert!(
        calls.contains(&evict) && !calls.contains(&"get volumeattachments".to_owned()),
        "{calls:?}"
    );
    // This one may detach volumes, but need not.
    host.ready = "False";
    apply(&leaving(), &host).await.unwrap();
    assert!(host.attachments_asked() > 1);
}

/// An API server that does not answer says nothing about the kubelet.
#[tokio::test(start_paused = true)]
async fn node_of_which_nothing_is_known_does_not_leave() {
    let mut host = FakeCluster::new();
    host.is_silent = true;
    assert!(leaving().check(&host).await.is_err());
    assert!(apply(&leaving(), &host).await.is_err());
    assert!(host.calls().iter().all(|call| call.starts_with("get node")));
}

#[tokio::test(start_paused = true)]
async fn drain_that_does_not_end_names_pods_and_budgets_and_returns_the_node() {
    let mut host = FakeCluster::new();
    let refusal = "error when evicting pods/\"web-1\" -n \"default\" (will retry after 5s): Cannot evict pod as it would \
                   violate the pod's disruption budget.\n";
    // This one leaves it later.
    let other = refusal.replace("web-1", "web-2");
    let rest = "There are pending pods in node \"node1\" when an error occurred: [error when evicting pods/\"web-1\" -n \
                \"default\": global timeout reached: 5s]\npod/web-1\nerror: unable to drain node \"node1\" due to error: \
                error when evicting pods/\"web-1\" -n \"default\": global timeout reached: 5s, continuing command...\n\
                There are pending nodes to be drained:\n node1\nerror when evicting pods/\"web-1\" -n \"default\": \
                global timeout reached: 5s\nerror: unable to drain node\n";
    host.stuck = Some(format!(
        "evicting pod default/web-1\n{other}{refusal}pod/web-2 evicted\n{refusal}{rest}"
    ));
    let said = apply(&changed(), &host).await.unwrap_err();
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        [
            "the pods of node1 did not leave it within 5 seconds",
            "default/web-1: Cannot evict pod as it would violate the pod's disruption budget.",
            "error: unable to drain node",
            "the PodDisruptionBudget default/web permits no eviction: 1 pods are healthy, and it requires 1",
            "the scheduler may use node1 again",
            "hint: add replicas or change the budget, then run the same command again; --drain-disable-eviction deletes \
             the pods without regard to budgets",
        ]
    );
    assert_eq!(host.is_cordoned(), (false, false));
    host.stuck = Some(
        "cannot delete cannot delete Pods that declare no controller (use --force to override): default/alone\n".to_owned(),
    );
    let said = apply(&changed(), &host).await.unwrap_err();
    assert!(
        said.contains("default/alone") && said.contains("permit it with --drain-force"),
        "{said}"
    );
    // Ten lines of a program are too many.
    host.stuck = Some("error: x\n".repeat(10));
    let said = apply(&changed(), &host).await.unwrap_err();
    assert_eq!(said.matches("error: x").count(), 8);
}
