//! Workers whose directories cannot be written, beside others and alone: who is avoided, and what an application
//! hears that none of them can serve (L06).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel_rpc::{RpcAddress, RpcOptions};
use firesteel_standalone::master::{self, MasterArgs, RunningMaster};
use firesteel_standalone::worker::{self, RunningWorker, WorkerArgs};

struct Cluster {
    runtime: tokio::runtime::Runtime,
    master: RunningMaster,
    workers: Vec<RunningWorker>,
    directory: tempfile::TempDir,
}

/// A directory that nobody can make, not even root: it lies below a file.
fn bad(root: &Path) -> PathBuf {
    let file = root.join("file");
    std::fs::write(&file, "not a directory").unwrap();
    file.join("below")
}

impl Cluster {
    /// With one worker for each entry, whose temporary files go to `good` or `bad` directories.
    fn new(workers: &[&[bool]]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (conf, rpc) = (firesteel::conf::Conf::new(), RpcOptions::default());
        let args = MasterArgs::loopback(conf.clone(), rpc.clone());
        let master = runtime.block_on(master::start(args)).unwrap();
        let bad = bad(directory.path());
        let started = workers.iter().enumerate().map(|(index, good)| {
            let work = directory.path().join(format!("work-{index}"));
            let masters: Vec<RpcAddress> = vec![master.address.clone()];
            let mut args = WorkerArgs::loopback(masters, work, conf.clone(), rpc.clone());
            let local = directory.path().join(format!("local-{index}"));
            let of = |good: &bool| if *good { local.clone() } else { bad.clone() };
            args.local_dirs = good.iter().map(of).collect();
            runtime.block_on(async {
                let worker = worker::start(args).await.unwrap();
                worker.registered().await;
                worker
            })
        });
        let workers = started.collect();
        Cluster { runtime, master, workers, directory }
    }

    fn context(&self) -> firesteel::Result<Context> {
        let builder = Context::builder()
            .master(&self.master.url())
            .config("spark.authenticate", false)
            .app_name("disks");
        let builder = builder.arguments([] as [&str; 0]).config("spark.executor.memory", "256m");
        builder.config("spark.ui.showConsoleProgress", false).build()
    }

    fn stop(self) {
        self.runtime.block_on(async {
            for worker in self.workers {
                worker.stop().await;
            }
            self.master.stop().await;
        });
        drop(self.directory);
    }
}

#[test]
fn one_worker_with_a_bad_disk_ends_no_application_of_another_one() {
    let cluster = Cluster::new(&[&[false], &[true]]);
    for _ in 0..3 {
        let ctx = cluster.context().unwrap();
        let pairs = ctx.range_in(4, 0..1000u64, 1).map(|i| (i % 7, i)).reduce_by_key(|a, b| a + b);
        assert_eq!(pairs.map(|(_, sum)| sum).sum().unwrap(), 499_500);
        ctx.stop();
    }
    cluster.stop();
}

#[test]
fn one_bad_directory_of_two_is_skipped() {
    let cluster = Cluster::new(&[&[false, true]]);
    let ctx = cluster.context().unwrap();
    assert_eq!(ctx.range_in(4, 0..1000u64, 1).sum().unwrap(), 499_500);
    ctx.stop();
    cluster.stop();
}

#[test]
fn an_application_that_no_worker_can_serve_ends_with_the_path_and_so_does_every_job_after_it() {
    let cluster = Cluster::new(&[&[false], &[false]]);
    let ctx = cluster.context().unwrap();
    let begun = Instant::now();
    // Jobs of many threads, some of them in the moment in which the application ends.
    let jobs: Vec<_> = (0..8)
        .map(|_| {
            let ctx = ctx.clone();
            std::thread::spawn(move || {
                loop {
                    let error = ctx.range_in(2, 0..10u64, 1).count().unwrap_err().to_string();
                    if error.contains("no more jobs can be run") {
                        return error;
                    }
                }
            })
        })
        .collect();
    let watched = std::thread::spawn(|| jobs.into_iter().map(|job| job.join().unwrap()).collect());
    while !watched.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(60), "a job waits for ever");
        std::thread::sleep(Duration::from_millis(5));
    }
    let errors: Vec<String> = watched.join().unwrap();
    for error in errors {
        assert!(error.contains("in a row") && error.contains("file/below"), "{error}");
    }
    ctx.stop();
    cluster.stop();
}

#[test]
fn short_runs_on_a_local_cluster_leave_no_directory() {
    let root = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let builder = Context::builder().master("local-cluster[2,1,256]").app_name("short");
        let builder =
            builder.arguments([] as [&str; 0]).config("spark.ui.showConsoleProgress", false);
        let ctx = builder.config("spark.local.dir", root.path().display()).build().unwrap();
        // Its executors are still being prepared.
        ctx.stop();
        assert_eq!(names(root.path()), [""; 0], "round {round}");
    }
}

#[test]
fn temporary_files_of_an_application_and_of_a_worker_go_with_them() {
    let cluster = Cluster::new(&[&[true]]);
    let local = cluster.directory.path().join("local-0");
    let ctx = cluster.context().unwrap();
    assert_eq!(
        ctx.range_in(4, 0..1000u64, 1).map(|i| (i % 7, i)).group_by_key().count().unwrap(),
        7
    );
    let own = local.join(&names(&local)[0]);
    assert!(names(&own).iter().any(|name| name.starts_with("app-")), "{:?}", names(&own));
    ctx.stop();
    let begun = Instant::now();
    while names(&own) != ["owner.lock"] {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", names(&own));
        std::thread::sleep(Duration::from_millis(5));
    }
    let root = cluster.directory.path().to_owned();
    let Cluster { runtime, master, workers, directory } = cluster;
    runtime.block_on(async {
        for worker in workers {
            worker.stop().await;
        }
        master.stop().await;
    });
    assert_eq!(names(&root.join("local-0")), [""; 0]);
    drop(directory);
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
