//! A master that is killed in the middle of a job: real processes, a real application.
//!
//! The application is this very executable: its executors are started from it.

#[path = "cluster/daemon.rs"]
#[allow(dead_code)]
mod daemon;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use daemon::{Daemon, Master, Worker, firesteel, wait_until};
use firesteel::prelude::*;
use firesteel::types::Event;
use firesteel::{Builder, Listener};
use rustix::process::Signal;

/// What a driver saw of its executors and tasks.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Counts>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    added: usize,
    removed: usize,
    tasks: usize,
}

impl Listener for Seen {
    fn on_event(&mut self, event: &Event) {
        let counts = &mut *self.0.lock().unwrap();
        match event {
            Event::ExecutorAdded { .. } => counts.added += 1,
            Event::ExecutorRemoved { .. } => counts.removed += 1,
            Event::TaskEnd { .. } => counts.tasks += 1,
            _ => {}
        }
    }
}

impl Seen {
    fn counts(&self) -> Counts {
        self.0.lock().unwrap().clone()
    }
}

fn builder(master: &str) -> Builder {
    Context::builder()
        .master(master)
        .app_name("recovery test")
        .arguments([] as [&str; 0])
        .config("spark.ui.showConsoleProgress", false)
        .config("spark.authenticate", false)
        .config("spark.executor.memory", "128m")
        .config("spark.executor.cores", 1)
}

/// Partitions of the cached RDD, and of the shuffle.
const MAPS: usize = 6;
const REDUCES: usize = 4;
/// Tasks of the first job, which caches, and of the second, which reads that and shuffles.
const TASKS: usize = MAPS + MAPS + REDUCES;

/// Runs a job over cached records and a shuffle; `meanwhile` happens in the middle of it.
fn job(ctx: &Context, seen: &Seen, meanwhile: impl FnOnce() + Send) -> Vec<(u64, u64)> {
    let cached = ctx.parallelize_in(MAPS, 0..6000u64).map(|x| x * 3).cache();
    assert_eq!(cached.count().unwrap(), 6000);
    let shuffled = cached
        .map_partitions(|records| {
            std::thread::sleep(Duration::from_millis(300));
            records
        })
        .map(|x| (x % 7, x))
        .reduce_by_key_into(REDUCES, |a, b| a + b);
    let mut result = std::thread::scope(|scope| {
        let job = scope.spawn(|| shuffled.collect().unwrap());
        wait_until("a part of the job", || seen.counts().tasks > MAPS);
        meanwhile();
        job.join().unwrap()
    });
    result.sort_unstable();
    result
}

fn expected() -> Vec<(u64, u64)> {
    let sum = |key| (0..6000u64).map(|x| x * 3).filter(|x| x % 7 == key).sum();
    (0..7).map(|key| (key, sum(key))).collect()
}

/// Whether the master has taken in both workers and the application with both of its executors.
fn is_whole(master: &Master) -> bool {
    let page = master.json();
    let cores = page["activeapps"].as_array().unwrap().first().map(|app| app["cores"].clone());
    page["status"] == "ALIVE" && page["aliveworkers"] == 2 && cores == Some(2.into())
}

/// Kills the only master in the middle of a job and starts it again: nobody loses anything.
fn killed_and_restarted(flags: &[&str]) {
    let mut master = Master::start(flags);
    let workers = [(); 2].map(|()| Worker::start(&master, &["--cores", "1"]));
    let seen = Seen::default();
    let ctx = builder(&master.url).listener(seen.clone()).build().unwrap();
    wait_until("two executors", || seen.counts().added == 2);
    let port = master.port().to_owned();
    let (mut faults, mut again) = (0, None);
    let result = job(&ctx, &seen, || {
        master.daemon.kill();
        faults += 1;
        again = Some(Master::start_at(&port, flags));
    });
    assert_eq!((result, faults), (expected(), 1));
    let again = again.expect("it was started again");
    wait_until("a master that knows all", || is_whole(&again));
    ctx.wait_for_listeners();
    assert_eq!(seen.counts(), Counts { added: 2, removed: 0, tasks: TASKS });
    // The new master is one: it gives out cores when they are free, and knows the end.
    assert_eq!(ctx.parallelize_in(4, 0..40u32).count().unwrap(), 40);
    ctx.stop();
    wait_until("the application's end", || again.json()["coresused"] == 0);
    assert_eq!(seen.counts().removed, 0);
    drop(workers);
}

fn file_system(directory: &Path) -> [String; 4] {
    let directory = format!("spark.deploy.recoveryDirectory={}", directory.display());
    ["--conf".into(), "spark.deploy.recoveryMode=FILESYSTEM".into(), "--conf".into(), directory]
}

#[test]
fn a_master_with_a_directory_is_killed_in_the_middle_of_a_job_and_nobody_notices() {
    let directory = tempfile::tempdir().unwrap();
    let flags = file_system(&directory.path().join("state"));
    killed_and_restarted(&flags.each_ref().map(String::as_str));
}

#[test]
fn a_master_without_a_directory_adopts_what_runs_when_it_is_started_again() {
    killed_and_restarted(&[]);
}

#[test]
fn a_master_that_stands_still_for_long_kills_nothing_when_it_goes_on() {
    let flags = ["--conf", "spark.worker.timeout=4"];
    let master = Master::start(&flags);
    let workers = [(); 2].map(|()| Worker::start(&master, &["--cores", "1"]));
    let seen = Seen::default();
    let ctx = builder(&master.url).listener(seen.clone()).build().unwrap();
    wait_until("two executors", || seen.counts().added == 2);
    let result = job(&ctx, &seen, || {
        master.daemon.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(6));
        master.daemon.signal(Signal::CONT);
    });
    assert_eq!(result, expected());
    wait_until("a master that knows all", || is_whole(&master));
    ctx.wait_for_listeners();
    assert_eq!(seen.counts(), Counts { added: 2, removed: 0, tasks: TASKS });
    ctx.stop();
    drop(workers);
}

/// Any failure that counted against a task would end the job.
#[test]
fn a_worker_that_is_decommissioned_in_the_middle_of_a_job_costs_it_no_failure() {
    let master = Master::start(&[]);
    let workers = [(); 2].map(|()| Worker::start(&master, &["--cores", "1"]));
    let seen = Seen::default();
    let ctx = builder(&master.url)
        .config("spark.executor.heartbeatInterval", "500ms")
        .config("spark.task.maxFailures", 1)
        .listener(seen.clone())
        .build()
        .unwrap();
    wait_until("two executors", || seen.counts().added == 2);
    let id = master.json()["workers"][0]["id"].as_str().unwrap().to_owned();
    let decommission = |name: &str| {
        let open = ["decommission", "--conf", "spark.authenticate=false", "--master", &master.url];
        firesteel(&open).args(["--wait", name]).output().unwrap()
    };
    let result = job(&ctx, &seen, || {
        let output = decommission(&id);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && told.contains("nothing runs there any more"), "{told}");
    });
    assert_eq!(result, expected());
    ctx.wait_for_listeners();
    assert_eq!((seen.counts().added, seen.counts().removed), (2, 1), "there is no third worker");
    assert_eq!((master.workers("DECOMMISSIONED"), master.workers("ALIVE")), (1, 1));
    let unknown = decommission("nobody");
    let told = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.status.code() == Some(1) && told.contains("There is no worker"), "{told}");
    ctx.stop();
    drop(workers);
}

#[test]
fn two_masters_on_one_directory_and_directories_of_others_are_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let flags = file_system(&state);
    let flags = flags.each_ref().map(String::as_str);
    let start = |flags: &[&str]| {
        let mut command = firesteel(&["master", "--port", "0", "--webui-port", "0"]);
        command.args(["--conf", "spark.master.rest.port=0"]).args(flags);
        let mut daemon = Daemon::start(command);
        assert!(!daemon.end().success());
        daemon.stderr()
    };
    let mut master = Master::start(&flags);
    let refused = start(&flags);
    assert!(refused.contains("used by another master"), "{refused}");
    assert!(master.daemon.terminate().success());

    let journal = state.join("masters.journal");
    let whole = std::fs::read(&journal).unwrap();
    let mut damaged = whole.clone();
    damaged[40] ^= 1;
    std::fs::write(&journal, &damaged).unwrap();
    let refused = start(&flags);
    assert!(refused.contains("masters.journal is damaged at byte"), "{refused}");
    assert_eq!(std::fs::read(&journal).unwrap(), damaged, "nothing was changed");
    std::fs::write(&journal, &whole).unwrap();

    let foreign = file_system(Path::new("/etc"));
    let refused = start(&foreign.each_ref().map(String::as_str));
    assert!(refused.contains("is no file of a master's"), "{refused}");
    let refused = start(&["--conf", "spark.deploy.recoveryMode=FILESYSTEM"]);
    assert!(refused.contains("set spark.deploy.recoveryDirectory"), "{refused}");
    let refused = start(&["--conf", "spark.deploy.recoveryMode=CUSTOM"]);
    assert!(refused.contains("a store of their own"), "{refused}");
    Master::start(&flags);
}

/// A master whose files cannot grow beyond so many KiB: what a full disk is.
fn on_a_full_disk(kib: u32, flags: &[&str]) -> Master {
    let plain = firesteel(&["master", "--port", "0"]);
    let limit = format!("ulimit -f {kib}; trap '' XFSZ; exec \"$0\" \"$@\"");
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &limit]).arg(plain.get_program()).args(plain.get_args());
    command.stdin(std::process::Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Master::start_with(command, flags)
}

#[test]
fn a_full_disk_is_an_error_to_who_submits_and_no_driver_that_was_accepted_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let flags = file_system(&directory.path().join("state"));
    let mut flags = flags.each_ref().map(String::as_str).to_vec();
    flags.extend(["--conf", "spark.authenticate=false"]);
    let mut master = on_a_full_disk(16, &flags);
    let submit = |master: &Master, long: &str| {
        let mut submit =
            firesteel(&["submit", "--master", &master.url, "--deploy-mode", "cluster"]);
        submit.args(["--conf", "spark.authenticate=false", "local:///bin/true", long]);
        let output = submit.output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(told).unwrap())
    };
    let long = "x".repeat(3000);
    let mut accepted = 0;
    let refused = loop {
        match submit(&master, &long) {
            (true, _) if accepted < 16 => accepted += 1,
            (true, told) => panic!("more than there is room for: {told}"),
            (false, told) => break told,
        }
    };
    assert!(accepted > 0 && refused.contains("STANDBY"), "{accepted}, {refused}");
    master.daemon.wait_for_stderr("this master leads no longer: could not write to ");
    let drivers = |master: &Master| {
        let page = master.json();
        let waiting = page["activedrivers"].as_array().unwrap();
        (page["status"] == "ALIVE").then_some(waiting.len())
    };
    // It leads again with what it has.
    wait_until("a leader", || drivers(&master).is_some());
    assert_eq!(drivers(&master), Some(accepted));
    master.daemon.kill();
    let master = Master::start(&flags);
    wait_until("a leader", || drivers(&master).is_some());
    assert_eq!(drivers(&master), Some(accepted));
    assert!(submit(&master, &long).0, "there is room again");
}

#[test]
fn a_master_whose_ensemble_cannot_be_reached_is_a_standby_and_says_why() {
    for (mode, url) in [
        ("ZOOKEEPER", "spark.deploy.zookeeper.url=127.0.0.1:"),
        ("ETCD", "spark.firesteel.deploy.etcd.url=http://127.0.0.1:"),
    ] {
        let port = free_port();
        let (mode, url) = (format!("spark.deploy.recoveryMode={mode}"), format!("{url}{port}"));
        let master = Master::start(&["--conf", &mode, "--conf", &url]);
        master.daemon.wait_for_stderr("this master cannot lead");
        master.daemon.wait_for_stderr(&port.to_string());
        assert_eq!(master.json()["status"], "STANDBY");
        let rest = format!("spark://{}", master.rest);
        let mut submit = firesteel(&["submit", "--master", &rest, "--deploy-mode", "cluster"]);
        let refused = submit.arg("local:/bin/true").output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains("does not lead"), "{told}");
    }
}

/// What elects masters and has their state.
#[derive(Clone, Copy)]
enum Service {
    ZooKeeper,
    Etcd,
}

/// A server of its own, from Debian's package.
struct Ensemble {
    service: Service,
    server: Daemon,
    directory: tempfile::TempDir,
    port: u16,
    /// Of a server for others of its kind, of which there are none.
    peer_port: u16,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Ensemble {
    fn start(service: Service) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (port, peer_port) = (free_port(), free_port());
        let settings = format!(
            "tickTime=400\nminSessionTimeout=1000\ndataDir={}\nclientPort={port}\nadmin.enableServer=false\n",
            directory.path().join("data").display()
        );
        std::fs::write(directory.path().join("zoo.cfg"), settings).unwrap();
        let server = Self::run(service, directory.path(), port, peer_port);
        Self { service, server, directory, port, peer_port }
    }

    fn run(service: Service, directory: &Path, port: u16, peer_port: u16) -> Daemon {
        let mut command = match service {
            Service::ZooKeeper => {
                let mut java = std::process::Command::new("java");
                java.args(["-Xmx128m", "-cp", "/usr/share/java/zookeeper.jar"]);
                java.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg("zoo.cfg");
                java
            }
            Service::Etcd => {
                let (clients, peers) =
                    (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
                let mut etcd = std::process::Command::new("etcd");
                etcd.args(["--data-dir", "data", "--initial-cluster", &format!("default={peers}")]);
                etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
                etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
                etcd
            }
        };
        command.current_dir(directory);
        let server = Daemon::start(command);
        wait_until("a server", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    fn restart(&mut self) {
        self.server = Self::run(self.service, self.directory.path(), self.port, self.peer_port);
    }

    fn flags(&self) -> [String; 6] {
        let conf = || "--conf".to_owned();
        let (mode, url) = match self.service {
            Service::ZooKeeper => ("ZOOKEEPER", "spark.deploy.zookeeper.url=127.0.0.1:"),
            Service::Etcd => ("ETCD", "spark.firesteel.deploy.etcd.url=http://127.0.0.1:"),
        };
        let (url, session) =
            (format!("{url}{}", self.port), "spark.firesteel.deploy.sessionTimeout=3s");
        [conf(), format!("spark.deploy.recoveryMode={mode}"), conf(), url, conf(), session.into()]
    }
}

/// Masters of one cluster, and workers and an application of them.
struct Cluster {
    masters: Vec<Master>,
    workers: [Worker; 2],
    seen: Seen,
    ctx: Context,
}

impl Cluster {
    fn start(ensemble: &Ensemble, masters: usize) -> Self {
        let flags = ensemble.flags();
        let flags = flags.each_ref().map(String::as_str);
        let masters: Vec<Master> = (0..masters).map(|_| Master::start(&flags)).collect();
        let all: Vec<&str> =
            masters.iter().map(|master| master.url.trim_start_matches("spark://")).collect();
        let url = format!("spark://{}", all.join(","));
        wait_until("a leader", || masters.iter().any(|master| master.json()["status"] == "ALIVE"));
        let workers = [(); 2].map(|()| Worker::of(&url, &["--cores", "1"]));
        let seen = Seen::default();
        let ctx = builder(&url).listener(seen.clone()).build().unwrap();
        wait_until("two executors", || seen.counts().added == 2);
        Self { masters, workers, seen, ctx }
    }

    /// The places of those that lead.
    fn leaders(&self, among: &[usize]) -> Vec<usize> {
        let leads = |at: &usize| self.masters[*at].json()["status"] != "STANDBY";
        among.iter().copied().filter(leads).collect()
    }

    fn assert_unharmed(&self) {
        self.ctx.wait_for_listeners();
        assert_eq!(self.seen.counts(), Counts { added: 2, removed: 0, tasks: TASKS });
    }

    fn end(self) {
        let Cluster { ctx, workers, .. } = self;
        ctx.stop();
        drop(workers);
    }
}

fn leader_killed(service: Service) {
    let ensemble = Ensemble::start(service);
    let mut cluster = Cluster::start(&ensemble, 3);
    let leader = cluster.leaders(&[0, 1, 2])[0];
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let (ctx, seen) = (cluster.ctx.clone(), cluster.seen.clone());
    let mut faults = 0;
    let result = job(&ctx, &seen, || {
        cluster.masters[leader].daemon.kill();
        faults += 1;
        let whole = |at: &usize| is_whole(&cluster.masters[*at]);
        wait_until("another leader that knows all", || others.iter().any(whole));
    });
    assert_eq!((result, faults), (expected(), 1));
    let leaders = cluster.leaders(&others);
    assert_eq!(leaders.len(), 1, "one of them leads");
    let standby = others.iter().find(|at| **at != leaders[0]).unwrap();
    let url = &cluster.masters[leaders[0]].url;
    wait_until("the other one names the leader", || {
        cluster.masters[*standby].json()["leader"] == url.as_str()
    });
    cluster.assert_unharmed();
    cluster.end();
}

#[test]
#[ignore = "needs a ZooKeeper server: apt-get install zookeeper"]
fn the_leader_of_three_is_killed_in_the_middle_of_a_job_and_nobody_notices() {
    leader_killed(Service::ZooKeeper);
}

#[test]
#[ignore = "needs an etcd server: apt-get install etcd-server"]
fn the_leader_of_three_is_killed_in_the_middle_of_a_job_and_nobody_notices_with_etcd() {
    leader_killed(Service::Etcd);
}

fn leader_stopped(service: Service) {
    let ensemble = Ensemble::start(service);
    let cluster = Cluster::start(&ensemble, 2);
    let leader = cluster.leaders(&[0, 1])[0];
    let other = 1 - leader;
    let result = job(&cluster.ctx, &cluster.seen, || {
        cluster.masters[leader].daemon.signal(Signal::STOP);
        wait_until("another leader that knows all", || is_whole(&cluster.masters[other]));
        cluster.masters[leader].daemon.signal(Signal::CONT);
        wait_until("the old one is a standby", || {
            cluster.masters[leader].json()["status"] == "STANDBY"
        });
    });
    assert_eq!(result, expected());
    cluster.masters[leader].daemon.wait_for_stderr("leads no longer");
    assert!(is_whole(&cluster.masters[other]));
    cluster.assert_unharmed();
    cluster.end();
}

#[test]
#[ignore = "needs a ZooKeeper server: apt-get install zookeeper"]
fn a_leader_that_stood_still_past_its_session_launches_and_kills_nothing_when_it_goes_on() {
    leader_stopped(Service::ZooKeeper);
}

#[test]
#[ignore = "needs an etcd server: apt-get install etcd-server"]
fn a_leader_that_stood_still_past_its_session_launches_and_kills_nothing_when_it_goes_on_with_etcd()
{
    leader_stopped(Service::Etcd);
}

fn store_gone(service: Service) {
    let mut ensemble = Ensemble::start(service);
    let cluster = Cluster::start(&ensemble, 2);
    let all = [0, 1];
    let result = job(&cluster.ctx, &cluster.seen, || {
        ensemble.server.kill();
        wait_until("masters without a leader", || cluster.leaders(&all).is_empty());
        ensemble.restart();
        let whole = |at: &usize| is_whole(&cluster.masters[*at]);
        wait_until("a leader that knows all", || all.iter().any(whole));
    });
    assert_eq!(result, expected());
    cluster.assert_unharmed();
    cluster.end();
}

#[test]
#[ignore = "needs a ZooKeeper server: apt-get install zookeeper"]
fn an_ensemble_that_is_gone_for_a_while_harms_no_application() {
    store_gone(Service::ZooKeeper);
}

#[test]
#[ignore = "needs an etcd server: apt-get install etcd-server"]
fn an_ensemble_that_is_gone_for_a_while_harms_no_application_with_etcd() {
    store_gone(Service::Etcd);
}

/// The leader dies that a driver was uploaded to, before any worker has it; a submit waits for the driver.
fn uploaded_to_a_leader_that_dies(service: Service) {
    let (ensemble, here) = (Ensemble::start(service), tempfile::tempdir().unwrap());
    let flags = ensemble.flags();
    let mut masters: Vec<Master> = (0..2)
        .map(|at| {
            let store = here.path().join(format!("store-{at}"));
            let store = format!("spark.firesteel.master.store.dir={}", store.display());
            let own = ["--conf", &store];
            let flags: Vec<&str> = flags.iter().map(String::as_str).chain(own).collect();
            Master::start(&flags)
        })
        .collect();
    let all: Vec<&str> =
        masters.iter().map(|master| master.url.trim_start_matches("spark://")).collect();
    let url = format!("spark://{}", all.join(","));
    wait_until("a leader", || masters.iter().any(|master| master.json()["status"] == "ALIVE"));
    let program = here.path().join("app");
    std::fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let mut submit = firesteel(&["submit", "--conf", "spark.authenticate=false", "--master", &url]);
    submit.args(["--deploy-mode", "cluster", "--driver-memory", "100m", "--conf"]);
    submit.args(["spark.standalone.submit.waitAppCompletion=true", program.to_str().unwrap()]);
    let mut submit = Daemon::start(submit);
    wait_until("a submission", || submit.stdout().contains("SUBMITTED"));
    let leader = masters.iter().position(|master| master.json()["status"] == "ALIVE").unwrap();
    masters[leader].daemon.kill();
    let worker = Worker::of(&url, &["--cores", "1"]);
    let status = submit.end();
    assert!(status.success(), "{}{}", submit.stdout(), submit.stderr());
    assert!(submit.stdout().contains("FINISHED"), "{}", submit.stdout());
    drop(worker);
}

#[test]
#[ignore = "needs a ZooKeeper server: apt-get install zookeeper"]
fn what_was_uploaded_to_a_leader_that_dies_runs_and_a_submit_waits_for_it() {
    uploaded_to_a_leader_that_dies(Service::ZooKeeper);
}

#[test]
#[ignore = "needs an etcd server: apt-get install etcd-server"]
fn what_was_uploaded_to_a_leader_that_dies_runs_and_a_submit_waits_for_it_with_etcd() {
    uploaded_to_a_leader_that_dies(Service::Etcd);
}

/// A master with this secret, or none; the ensemble has the state of another one.
#[test]
#[ignore = "needs a ZooKeeper server: apt-get install zookeeper"]
fn masters_with_another_secret_can_neither_read_nor_take_what_a_cluster_has_in_an_ensemble() {
    let (ensemble, here) = (Ensemble::start(Service::ZooKeeper), tempfile::tempdir().unwrap());
    let flags = ensemble.flags();
    let start = |secret: Option<&str>| {
        let mut all: Vec<String> = flags.to_vec();
        if let Some(secret) = secret {
            let path = here.path().join(secret);
            std::fs::write(&path, format!("the secret of {secret}, and long")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .unwrap();
            let file = format!("spark.authenticate.secret.file={}", path.display());
            all.extend(["--conf".into(), "spark.authenticate=true".into()]);
            all.extend(["--conf".into(), "spark.firesteel.master.rest.authenticate=true".into()]);
            all.extend(["--conf".into(), file]);
        }
        Master::start(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let own = start(Some("ours"));
    wait_until("a leader", || own.json()["status"] == "ALIVE");
    for stranger in [start(Some("theirs")), start(None)] {
        stranger.daemon.wait_for_stderr("masters with another secret");
        assert_eq!(stranger.json()["status"], "STANDBY");
    }
    let second = start(Some("ours"));
    wait_until("a standby", || second.json()["leader"] == own.url.as_str());
}

/// An authority, and a certificate of it for this machine, in PEM.
fn certificates(directory: &Path) -> [String; 3] {
    let openssl = |arguments: &[&str]| {
        let mut command = std::process::Command::new("openssl");
        let output = command.args(arguments).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let request = ["req", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let own =
        ["-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"];
    openssl(&[&request[..], &own].concat());
    let asked = ["-subj", "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1"];
    let asked = [&asked[..], &["-keyout", "etcd.key", "-out", "etcd.csr"]].concat();
    openssl(&[&request[..], &asked].concat());
    let signed =
        ["x509", "-req", "-in", "etcd.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"];
    openssl(&[&signed[..], &["-copy_extensions", "copyall", "-out", "etcd.pem"]].concat());
    ["ca.pem", "etcd.pem", "etcd.key"].map(|name| directory.join(name).to_str().unwrap().to_owned())
}

#[test]
#[ignore = "needs an etcd server: apt-get install etcd-server"]
fn etcd_is_spoken_to_over_tls_and_only_if_its_certificate_is_of_the_authority_that_was_named() {
    let directory = tempfile::tempdir().unwrap();
    let [authority, chain, key] = certificates(directory.path());
    let (port, peer_port) = (free_port(), free_port());
    let clients = format!("https://127.0.0.1:{port}");
    let peers = format!("http://127.0.0.1:{peer_port}");
    let mut etcd = std::process::Command::new("etcd");
    etcd.args(["--data-dir", "data", "--initial-cluster", &format!("default={peers}")]);
    etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    etcd.args(["--cert-file", &chain, "--key-file", &key]);
    etcd.args(["--client-cert-auth", "--trusted-ca-file", &authority]);
    etcd.current_dir(directory.path());
    let _server = Daemon::start(etcd);
    wait_until("a server", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let other = tempfile::tempdir().unwrap();
    let [stranger, ..] = certificates(other.path());
    let start = |trusted: &str| {
        let settings = [
            "spark.deploy.recoveryMode=ETCD".to_owned(),
            format!("spark.firesteel.deploy.etcd.url={clients}"),
            format!("spark.firesteel.deploy.etcd.trustStore={trusted}"),
            format!("spark.firesteel.deploy.etcd.certChain={chain}"),
            format!("spark.firesteel.deploy.etcd.privateKey={key}"),
        ];
        let flags = settings.iter().flat_map(|setting| ["--conf", setting]);
        Master::start(&flags.collect::<Vec<_>>())
    };
    let deceived = start(&stranger);
    deceived.daemon.wait_for_stderr("this master cannot lead");
    let master = start(&authority);
    wait_until("a leader", || master.json()["status"] == "ALIVE");
    assert_eq!(deceived.json()["status"], "STANDBY");
}
