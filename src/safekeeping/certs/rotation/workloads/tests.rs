use std::io::Write;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_host::{HostError, Output};
use kubexm_types::HostName;
use kubexm_types::event::{Event, Listener};
use serde_json::{Value, json};

use super::*;

fn time(text: &str) -> UtcTime {
    UtcTime::parse(text).unwrap()
}

/// Returns an object with the owner `KIND/NAME`, if any.
fn object(namespace: &str, name: &str, owner: &str) -> Value {
    let owner = owner.split_once('/');
    let owner = owner.map(|(kind, name)| json!({"kind": kind, "name": name, "controller": true}));
    let owners: Vec<Value> = owner.into_iter().collect();
    json!({"metadata": {"namespace": namespace, "name": name, "ownerReferences": owners}})
}

/// Returns a pod whose containers started at these hours.
fn pod(namespace: &str, name: &str, owner: &str, hours: &[&str], spec: Value) -> Value {
    let running = hours
        .iter()
        .map(|hour| json!({"state": {"running": {"startedAt": format!("2027-01-31T{hour}:00Z")}}}));
    let mut statuses: Vec<Value> = running.collect();
    statuses.push(json!({"state": {"waiting": {}}}));
    let (init, own) = statuses.split_at(1);
    let mut pod = object(namespace, name, owner);
    pod["status"] = json!({"initContainerStatuses": init, "containerStatuses": own});
    pod["spec"] = spec;
    pod
}

/// Returns the specification of a pod that reads the ConfigMap of its namespace.
fn reader() -> Value {
    let token = json!({"serviceAccountToken": {"path": "token"}});
    let map = json!({"configMap": {"name": "kube-root-ca.crt"}});
    let sources = json!([token, map]);
    json!({"volumes": [{"name": "api", "projected": {"sources": sources}}], "containers": [{}]})
}

/// Returns a Secret with a token, with the time of its day.
fn token(namespace: &str, name: &str, created: &str) -> Object {
    let mut token = object(namespace, name, "");
    if !created.is_empty() {
        token["metadata"]["creationTimestamp"] = json!(format!("2027-01-31T{created}Z"));
    }
    serde_json::from_value(token).unwrap()
}

fn of_secret(name: &str) -> Value {
    json!({"volumes": [{"secret": {"secretName": name}}]})
}

fn workloads(pods: Vec<Value>) -> Workloads {
    let sets = [object("web", "front-5d", "Deployment/front")];
    let sets = sets.map(|set| serde_json::from_value(set).unwrap());
    let tokens = [("web", "robot"), ("db", "other")]
        .map(|(namespace, name)| token(namespace, name, "08:00:00"));
    let pods = pods
        .into_iter()
        .map(|pod| serde_json::from_value(pod).unwrap());
    let pods: Vec<Pod> = pods.collect();
    Workloads::of(time("2027-01-31T12:00:00Z"), &sets, &tokens, &pods)
}

#[test]
fn pods_from_before_a_time_that_read_a_ca_are_found_with_their_workload() {
    let mut ends = pod("web", "ends", "", &["09:00"], reader());
    ends["metadata"]["deletionTimestamp"] = json!("2027-01-31T12:00:00Z");
    let front = "ReplicaSet/front-5d";
    let pods = workloads(vec![
        pod("web", "front-5d-x", front, &["11:30", "10:00"], reader()),
        pod("web", "front-5d-y", front, &["11:40"], reader()),
        pod("web", "lone", "", &["09:00"], of_secret("robot")),
        pod("web", "other", "", &["09:00"], of_secret("other")),
        pod("web", "plain", "", &["09:00"], json!({})),
        pod(
            "kube-system",
            "kube-proxy-a",
            "DaemonSet/kube-proxy",
            &["11:50"],
            reader(),
        ),
        pod("web", "waits", "ReplicaSet/other", &[], reader()),
        ends,
    ]);
    let old: Vec<String> = pods
        .before(&time("2027-01-31T11:00:00Z"))
        .iter()
        .map(|one| format!("{one} {} {}", one.is_own(), one.can_restart()))
        .collect();
    // The Secret `other` with a token is of another namespace, and `plain` reads no CA.
    assert_eq!(
        old,
        [
            "web/Deployment/front false true",
            "web/Pod/lone false false"
        ]
    );
    assert_eq!(pods.before(&time("2027-01-31T11:55:00Z")).len(), 3);
}

#[test]
fn every_way_to_read_a_ca_is_found() {
    let map = |field: &str| json!({field: {"name": "kube-root-ca.crt"}});
    let secret = |field: &str| json!({field: {"name": "robot"}});
    let projected = |source: Value| json!({"volumes": [{"projected": {"sources": [source]}}]});
    let variable = |source: Value| json!({"containers": [{"env": [{"name": "A", "value": "b"}, {"valueFrom": source}]}]});
    let of_init =
        |source: Value| json!({"initContainers": [{"envFrom": [{"prefix": "A"}, source]}]});
    let ways = [
        reader(),
        of_secret("robot"),
        json!({"volumes": [{"emptyDir": {}}, map("configMap")]}),
        projected(secret("secret")),
        variable(map("configMapKeyRef")),
        variable(secret("secretKeyRef")),
        of_init(map("configMapRef")),
        of_init(secret("secretRef")),
    ];
    for spec in ways {
        let found = |spec| {
            workloads(vec![pod("web", "a", "", &["09:00"], spec)])
                .oldest
                .len()
        };
        assert_eq!(found(spec.clone()), 1, "{spec}");
        let other = spec
            .to_string()
            .replace("kube-root-ca.crt", "b")
            .replace("robot", "b");
        assert_eq!(found(serde_json::from_str(&other).unwrap()), 0, "{spec}");
    }
}

#[test]
fn secrets_from_after_the_switch_are_not_of_the_former_key() {
    let tokens = [
        ("before", "11:59:59"),
        ("same", "12:00:00"),
        ("after", "12:00:01"),
        ("unknown", ""),
    ];
    let tokens = tokens.map(|(name, created)| token("web", name, created));
    let switched = time("2027-01-31T12:00:00Z");
    assert_eq!(
        secrets_until(&tokens, Some(&switched)),
        ["web/before", "web/same", "web/unknown"]
    );
    assert_eq!(secrets_until(&tokens, None).len(), 4);
}

/// A control plane. It keeps the arguments of the scripts that change the cluster, and the events.
#[derive(Default)]
struct ControlPlane {
    objects: BTreeMap<&'static str, Value>,
    calls: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Host for ControlPlane {
    fn name(&self) -> &HostName {
        unreachable!()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let words = command.into_parts().0;
        let mut stdout = Vec::new();
        match words.get(4..).unwrap_or_default() {
            _ if words[0] == "date" => stdout.extend(b"2027-01-31T12:00:00Z\n"),
            [server, object, ..] if server.is_empty() => {
                let mut encoder = GzEncoder::new(&mut stdout, Compression::fast());
                write!(encoder, "{}", self.objects[object.as_str()]).unwrap();
                encoder.finish().unwrap();
            }
            call => self.calls.lock().unwrap().push(call.join(" ")),
        }
        Ok(Output {
            status: 0,
            stdout,
            stderr: Vec::new(),
            log: None,
        })
    }
}

#[tokio::test]
async fn pods_are_read_with_the_time_of_the_host() {
    let list = |items: &[Value]| json!({"items": items});
    let lone = pod("web", "lone", "", &["09:00"], of_secret("robot"));
    let host = ControlPlane {
        objects: [
            ("replicasets", list(&[])),
            ("secrets", list(&[object("web", "robot", "")])),
            ("pods", list(&[lone])),
        ]
        .into(),
        ..ControlPlane::default()
    };
    let pods = Workloads::read(&host).await.unwrap();
    assert_eq!(pods.now, time("2027-01-31T12:00:00Z"));
    assert_eq!(pods.before(&pods.now).len(), 1);
    assert_eq!(lasting_tokens(&host, None).await.unwrap(), ["web/robot"]);
}

#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Listener for Warnings {
    fn on(&self, event: &Event) {
        if let Event::Warning { message, .. } = event {
            self.0.lock().unwrap().push(message.clone());
        }
    }
}

#[tokio::test]
async fn workloads_restart_once_in_their_namespace_and_are_waited_for() {
    let restarted = |at: &str| {
        let annotations = json!({"kubectl.kubernetes.io/restartedAt": at});
        json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})
    };
    let strategy = |kind: &str| json!({"spec": {"updateStrategy": {"type": kind}, "template": {}}});
    let host = ControlPlane {
        objects: [
            ("Deployment/a", restarted("2027-01-31T10:00:00Z")),
            // kubectl states the time in its own zone.
            ("Deployment/done", restarted("2027-01-31T14:00:00+02:00")),
            ("Deployment/paused", json!({"spec": {"paused": true}})),
            ("DaemonSet/manual", strategy("OnDelete")),
            ("StatefulSet/b", strategy("RollingUpdate")),
        ]
        .into(),
        ..ControlPlane::default()
    };
    let names = [
        "db/DaemonSet/manual",
        "db/StatefulSet/b",
        "web/Deployment/a",
        "web/Deployment/done",
        "web/Deployment/paused",
        "web/Pod/lone",
    ];
    let workloads = names.iter().map(|path| {
        let (namespace, name) = path.split_once('/').unwrap();
        Workload {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    });
    let warnings = Arc::new(Warnings::default());
    let since = time("2027-01-31T11:30:00Z");
    let events = Events::new(warnings.clone());
    restart(&host, &since, &workloads.collect(), &events)
        .await
        .unwrap();
    let limits = "--timeout=1800s --request-timeout=0";
    let calls = [
        "restart StatefulSet/b -n db".to_owned(),
        "restart Deployment/a -n web".to_owned(),
        format!("status StatefulSet/b -n db {limits}"),
        format!("status Deployment/a -n web {limits}"),
        format!("status Deployment/done -n web {limits}"),
    ];
    assert_eq!(*host.calls.lock().unwrap(), calls);
    let warned = warnings.0.lock().unwrap();
    let manual = ["db/DaemonSet/manual: ", "web/Deployment/paused: "];
    assert_eq!(warned.len(), 2, "{warned:?}");
    assert!(
        manual
            .iter()
            .zip(&*warned)
            .all(|(start, text)| text.starts_with(start)),
        "{warned:?}"
    );
}
