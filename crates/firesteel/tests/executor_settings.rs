//! How many executors an application has, and which environment variables: `spark.executor.instances` and
//! `spark.executorEnv.*`, on a cluster of the application's own and on one that is there.

mod executors;

use executors::{Seen, builder, processes, signal, started};
use firesteel::prelude::*;
use firesteel::types::Event;
use firesteel_rpc::RpcOptions;
use firesteel_standalone::master::{self, MasterArgs, RunningMaster};
use firesteel_standalone::worker::{self, RunningWorker, WorkerArgs};

/// With two workers of one core.
struct Cluster {
    runtime: tokio::runtime::Runtime,
    master: RunningMaster,
    workers: Vec<RunningWorker>,
    _directory: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (conf, rpc) = (firesteel::conf::Conf::new(), RpcOptions::default());
        let (master, workers) = runtime.block_on(async {
            let args = MasterArgs::loopback(conf.clone(), rpc.clone());
            let master = master::start(args).await.unwrap();
            let mut workers = Vec::new();
            for name in ["a", "b"] {
                let (masters, work) = (vec![master.address.clone()], directory.path().join(name));
                let args = WorkerArgs::loopback(masters, work, conf.clone(), rpc.clone());
                let worker = worker::start(args).await.unwrap();
                worker.registered().await;
                workers.push(worker);
            }
            (master, workers)
        });
        Cluster { runtime, master, workers, _directory: directory }
    }

    /// How many executors the master has given out.
    fn executors(&self) -> usize {
        self.master.view().active_apps.iter().map(|app| app.executors.len()).sum()
    }

    fn stop(self) {
        self.runtime.block_on(async {
            for worker in self.workers {
                worker.stop().await;
            }
            self.master.stop().await;
        });
    }
}

/// Kills the only executor and waits for the next one.
fn replace(ctx: &Context, seen: &Seen, next: u32) {
    let running = processes(ctx);
    assert_eq!(running.len(), 1, "{running:?}");
    signal("-9", running[0]);
    seen.wait(|events| {
        events.iter().any(
            |event| matches!(event, Event::ExecutorAdded { executor, .. } if executor.0 == next),
        )
    });
    let replaced = processes(ctx);
    assert!(replaced.len() == 1 && replaced != running, "{running:?}, then {replaced:?}");
}

#[test]
fn an_application_takes_no_more_executors_of_a_cluster_than_it_is_told_to() {
    let cluster = Cluster::start();
    let one = builder(2)
        .master(&cluster.master.url())
        .config("spark.authenticate", false)
        .config("spark.executor.memory", "256m");
    let (ctx, seen) = started(one.config("spark.executor.instances", 1), 1);
    assert_eq!(cluster.executors(), 1, "the other worker is free");
    replace(&ctx, &seen, 1);
    assert_eq!(cluster.executors(), 1);
    ctx.stop();
    let more = builder(2)
        .master(&cluster.master.url())
        .config("spark.authenticate", false)
        .config("spark.executor.memory", "256m");
    let (ctx, _) = started(more.config("spark.executor.instances", 5), 2);
    assert_eq!(cluster.executors(), 2, "no more than the workers have capacity for");
    ctx.stop();
    cluster.stop();
}

#[test]
fn executors_of_a_cluster_of_its_own_are_as_many_as_wanted_and_have_the_variables_that_are_set() {
    let one = builder(2).config("spark.executor.instances", 1);
    let one = one.config("spark.executorEnv.GREETING", "hello = you");
    let (ctx, seen) = started(one.config("spark.executorEnv.API_TOKEN", "hush"), 1);
    let variables = ctx
        .parallelize_in(2, 0..2u8)
        .map(|_| ["GREETING", "API_TOKEN"].map(|name| std::env::var(name).unwrap_or_default()));
    let expected = ["hello = you", "hush"].map(str::to_owned);
    assert_eq!(variables.collect().unwrap(), [expected.clone(), expected]);
    assert!(std::env::var("GREETING").is_err(), "it is for executors");
    replace(&ctx, &seen, 1);
}

/// What listeners hear of the first executor.
fn first_executor(seen: &Seen) -> firesteel::types::ExecutorInfo {
    let events = seen.0.lock().unwrap();
    let info = events.iter().find_map(|event| match event {
        Event::ExecutorAdded { info, .. } => Some(info.clone()),
        _ => None,
    });
    info.unwrap()
}

#[test]
fn executors_are_told_with_their_attributes_and_their_log_files_if_they_have_some() {
    let attribute = "spark.executorEnv.SPARK_EXECUTOR_ATTRIBUTE_ZONE";
    let (ctx, seen) = started(builder(1).config(attribute, "north"), 1);
    let info = first_executor(&seen);
    assert_eq!(info.attributes.get("ZONE").map(String::as_str), Some("north"));
    assert!(info.log_urls.is_empty(), "it prints where the driver does: {:?}", info.log_urls);
    ctx.stop();

    let cluster = Cluster::start();
    let one = builder(2)
        .master(&cluster.master.url())
        .config("spark.authenticate", false)
        .config("spark.executor.memory", "256m");
    let (ctx, seen) = started(one.config("spark.executor.instances", 1), 1);
    let info = first_executor(&seen);
    for stream in ["stdout", "stderr"] {
        let file = info.log_urls[stream].strip_prefix(&format!("file://{}", info.host)).unwrap();
        assert!(file.ends_with(&format!("/0/{stream}")), "{file}");
        assert!(std::path::Path::new(file).exists(), "{file}");
    }
    ctx.stop();
    cluster.stop();
}

#[test]
fn a_variable_that_is_not_the_users_is_refused_before_anything_starts() {
    let refused = builder(1).config("spark.executorEnv.FIRESTEEL_ROLE", "driver").build();
    let error = refused.err().unwrap().to_string();
    assert!(
        error.contains("spark.executorEnv.FIRESTEEL_ROLE (from the program) is refused"),
        "{error}"
    );
}
