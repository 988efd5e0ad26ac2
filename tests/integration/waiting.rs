//! Work outside of a plan that makes no progress is named.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::cluster::{Holder, HostLocks};
use kubexm_engine::plan::notice::SILENCE;
use kubexm_engine::plan::{Stop, Watch, WatchedHost};
use kubexm_host::{Command, Host, HostError, Output, TunnelError, TunnelStream};
use kubexm_types::event::{Event, Events, Listener};
use kubexm_types::{Digest, HostName, UtcTime};

/// A host that answers after some time.
struct Slow(HostName, Duration);

#[async_trait]
impl Host for Slow {
    fn name(&self) -> &HostName {
        &self.0
    }

    async fn run(&self, _: Command) -> Result<Output, HostError> {
        tokio::time::sleep(self.1).await;
        Ok(Output {
            status: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            log: None,
        })
    }

    async fn open_tunnel(&self, _: &str, _: u16) -> Result<Box<dyn TunnelStream>, TunnelError> {
        tokio::time::sleep(self.1).await;
        Err(TunnelError::TimedOut)
    }
}

#[derive(Default)]
struct Messages(Mutex<Vec<String>>);

impl Listener for Messages {
    fn on(&self, event: &Event) {
        if let Event::Waiting { host, what, .. } = event {
            let host = host.as_ref().map_or("no host", HostName::as_str);
            self.0.lock().unwrap().push(format!("{host}: {what}"));
        }
    }
}

impl Messages {
    fn events(self: &Arc<Self>) -> Events {
        Events::new(Arc::clone(self) as Arc<dyn Listener>)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A host that records what it is asked for.
struct Recorded(HostName, Mutex<Vec<String>>);

#[async_trait]
impl Host for Recorded {
    fn name(&self) -> &HostName {
        &self.0
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        self.1.lock().unwrap().push(command.description());
        Slow(self.0.clone(), Duration::ZERO).run(command).await
    }

    async fn settle(&self) {
        self.1.lock().unwrap().push("settle".to_owned());
    }

    async fn open_tunnel(&self, _: &str, _: u16) -> Result<Box<dyn TunnelStream>, TunnelError> {
        Err(TunnelError::Refused)
    }
}

/// Before, only plans waited for this: a reset that the user stopped could leave its commands running.
#[tokio::test]
async fn cancelled_commands_end_before_the_locks_of_hosts_are_released() {
    let name: HostName = "node1".parse().unwrap();
    let host = Arc::new(Recorded(name.clone(), Mutex::default()));
    let watched: Arc<dyn Host> = Arc::new(WatchedHost::new(
        Arc::clone(&host) as Arc<dyn Host>,
        &Events::silent(),
    ));
    let holder = Holder {
        user: "anna".to_owned(),
        machine: "desk".to_owned(),
        pid: 1,
        command: "reset".to_owned(),
        state: "/state".to_owned(),
        since: UtcTime::now(),
    };
    let hosts = BTreeMap::from([(name, watched)]);
    let (origin, events, stop) = (Digest::of(b"origin"), Events::silent(), Stop::new());
    let locks = HostLocks::take(&hosts, &holder, origin, &events, &stop).await;
    locks.map_err(|_| "refused").unwrap().release().await;
    assert_eq!(
        *host.1.lock().unwrap(),
        [
            "take the lock of the host",
            "settle",
            "release the lock of the host"
        ]
    );
}

/// Before, a host that did not answer stopped the phases connect, facts and preflight without a message.
#[tokio::test(start_paused = true)]
async fn silent_command_is_named_with_its_host() {
    let messages = Arc::new(Messages::default());
    let name: HostName = "node1".parse().unwrap();
    let watched = |time| {
        let host = Arc::new(Slow(name.clone(), time));
        WatchedHost::new(host, &messages.events())
    };
    let command = || Command::new("true").describe("collect facts");
    watched(SILENCE / 2).run(command()).await.unwrap();
    assert!(messages.take().is_empty());
    watched(SILENCE * 5 / 2).run(command()).await.unwrap();
    assert_eq!(messages.take(), ["node1: collect facts"; 2]);
    let tunnel = watched(SILENCE * 3 / 2);
    assert!(tunnel.open_tunnel("registry.example", 5000).await.is_err());
    assert_eq!(messages.take(), ["node1: connect to registry.example:5000"]);
}

#[tokio::test(start_paused = true)]
async fn work_without_a_host_is_named_while_it_makes_no_progress() {
    let messages = Arc::new(Messages::default());
    let watch = Watch::without_host(&messages.events(), "verify the bundle");
    let events = watch.events();
    let transfer = events.transfer("verify", "bundle", None);
    watch
        .during(async {
            for _ in 0..10 {
                tokio::time::sleep(SILENCE / 2).await;
                transfer.advance(1);
            }
        })
        .await;
    assert!(messages.take().is_empty());
    watch.during(tokio::time::sleep(SILENCE * 3 / 2)).await;
    assert_eq!(messages.take(), ["no host: verify the bundle"]);
}
