//! What reaches executors without a disk that all machines share: the executable, files, the application's
//! secret; and what a local cluster leaves behind when its driver is killed.
//!
//! The program is a copy of this test's own executable, told by a variable which scenario to be.

mod scratch;

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use firesteel::prelude::*;
use firesteel_rpc::{Identity, RpcAddress, RpcEnv, RpcOptions, Secret};
use firesteel_standalone::master::{self, MasterArgs, RunningMaster};
use firesteel_standalone::worker::{self, RunningWorker, WorkerArgs};
use scratch::{Scratch, names_in, wait_until};

const SCENARIO: &str = "FIRESTEEL_TEST_SCENARIO";
const DIRECTORY: &str = "FIRESTEEL_TEST_DIRECTORY";
const SECRET: &str = "_SPARK_AUTH_SECRET";
const OF_THE_CLUSTER: &str = "the secret that all machines have";

#[test]
#[ignore = "not a test: the program that the tests of this file start"]
fn the_program() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let at = |name: &str| format!("{}/{name}", std::env::var(DIRECTORY).unwrap());
    match scenario.as_str() {
        "alone" => {
            // As if the worker were on another machine.
            std::fs::remove_file(at("app")).unwrap();
            let ctx = Context::builder().arguments([""; 0]).build().unwrap();
            std::fs::write(at("late.txt"), "added").unwrap();
            ctx.add_file(&at("late.txt")).unwrap();
            std::fs::remove_file(at("late.txt")).unwrap();
            let late = |_: u8| std::fs::read_to_string(SparkFiles::get("late.txt")).unwrap();
            assert_eq!(ctx.parallelize_in(2, 0..2).map(late).collect().unwrap(), ["added"; 2]);
            assert_eq!(late(0), "added", "the driver finds it too");
            std::fs::write(at("result"), tell(&ctx)).unwrap();
        }
        "endless" => {
            let ctx = Context::builder().arguments([""; 0]).build().unwrap();
            let told = ctx.parallelize_in(1, [at("started")]).map(|started| {
                std::fs::write(started, "").unwrap();
                std::thread::park();
            });
            told.count().unwrap();
        }
        other => panic!("no scenario {other}"),
    }
}

/// What an executor sees, and who can read what the driver serves.
fn tell(ctx: &Context) -> String {
    let variables = ctx.parallelize_in(1, 0..1u8).map(|_| {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let all = std::env::vars().map(|(name, value)| format!("{name}={value}\n"));
        (variable(SECRET), variable("FIRESTEEL_DRIVER_URL"), all.collect::<String>())
    });
    let (secret, driver, all) = variables.collect().unwrap().remove(0);
    let programs = ctx.parallelize_in(4, 0..4u8).map(|_| std::env::current_exe().unwrap());
    let programs: BTreeSet<_> = programs.collect().unwrap().into_iter().collect();
    let program = programs.first().unwrap().to_str().unwrap();
    let text = |_| std::fs::read_to_string(SparkFiles::get("words.txt")).unwrap();
    let there = ctx.parallelize_in(1, 0..1u8).map(text).collect().unwrap().remove(0);
    let driver: RpcAddress = driver.rsplit('@').next().unwrap().parse().unwrap();
    let name = format!("content/{}", Path::new(program).file_name().unwrap().to_str().unwrap());
    let opens =
        [(&*secret, "application"), (OF_THE_CLUSTER, "application"), (OF_THE_CLUSTER, "cluster")]
            .map(|(secret, identity)| reads(&driver, &name, secret, identity));
    format!(
        "{}\n{program}\n{there}\n{}\n{opens:?}\n{}",
        secret == OF_THE_CLUSTER || secret.len() < 32,
        text(0),
        all.contains(OF_THE_CLUSTER) || all.contains("hush"),
    )
}

/// Whether the driver's stream can be read with this secret.
fn reads(driver: &RpcAddress, name: &str, secret: &str, identity: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut options = RpcOptions::default();
    let secret = Secret::new(secret, "of this test").unwrap();
    options.authenticate_as(Identity::new(identity, secret).unwrap());
    runtime.block_on(async {
        let env = RpcEnv::client(options);
        let read = env.streams().read(driver, name, 1 << 30).await.is_ok();
        env.shutdown().await;
        read
    })
}

/// A program that runs a scenario, from a copy of its own.
struct Program(Child);

impl Program {
    fn start(scenario: &str, conf: &str, scratch: &Scratch) -> Self {
        let app = scratch.path("app");
        std::fs::copy(std::env::current_exe().unwrap(), &app).unwrap();
        let mut command = Command::new(app);
        command.args(["--exact", "the_program", "--ignored", "--nocapture"]);
        command.env(SCENARIO, scenario).env(DIRECTORY, scratch.path(""));
        command.env("FIRESTEEL_CONF", conf).env(SECRET, OF_THE_CLUSTER);
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        // A thread that starts another program may hold the copy open for a moment.
        let mut child = None;
        wait_until("the program starts", || match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => false,
            spawned => {
                child = Some(spawned.unwrap());
                true
            }
        });
        Program(child.unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A test that fails does not leave its program behind.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn cluster(work: &str) -> (RunningMaster, RunningWorker) {
    let mut conf = firesteel::conf::Conf::new();
    conf.set("spark.authenticate", true).set("spark.authenticate.secret", OF_THE_CLUSTER);
    let rpc = RpcOptions::from_conf(&conf, |_| None).unwrap();
    let master = master::start(MasterArgs::loopback(conf.clone(), rpc.clone())).await.unwrap();
    let masters = vec![master.address.clone()];
    let worker = worker::start(WorkerArgs::loopback(masters, work.into(), conf, rpc)).await;
    let worker = worker.unwrap();
    worker.registered().await;
    (master, worker)
}

#[test]
fn a_worker_that_shares_no_disk_gets_executable_files_and_a_secret_that_no_other_application_has() {
    let scratch = Scratch::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (master, worker) = runtime.block_on(cluster(&scratch.path("work")));
    std::fs::write(scratch.path("words.txt"), "of the driver").unwrap();
    let conf = format!(
        "spark.master={}\nspark.authenticate=true\nspark.files={}\nspark.my.password=hush\n\
         spark.executor.memory=256m\nspark.local.dir={}\n",
        master.url(),
        scratch.path("words.txt"),
        scratch.path("tmp")
    );
    let mut program = Program::start("alone", &conf, &scratch);
    wait_until("the program ends", || program.0.try_wait().unwrap().is_some());
    let result = std::fs::read_to_string(scratch.path("result")).unwrap();
    let lines: Vec<&str> = result.lines().collect();
    let [clusters, path, there, here, opens, leaks] = lines[..] else { panic!("{result}") };
    assert_eq!((clusters, leaks), ("false", "false"), "the cluster's secret and others stay");
    assert!(path.starts_with(&scratch.path("work/cache/")), "{path}");
    assert_eq!((there, here), ("of the driver", "of the driver"));
    assert_eq!(opens, "[true, false, false]", "only the application's secret opens the driver");
    assert_eq!(names_in(&scratch.path("work/cache")).len(), 2);
    assert_eq!(names_in(&scratch.path("tmp")), [""; 0], "the driver's copies are gone");
    runtime.block_on(async {
        worker.stop().await;
        master.stop().await;
    });
}

#[test]
fn an_application_with_another_secret_or_none_is_told_so_and_does_not_wait_for_better() {
    let scratch = Scratch::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (master, worker) = runtime.block_on(cluster(&scratch.path("work")));
    for secret in [None, Some("one that is not the cluster's")] {
        let mut ctx = Context::builder()
            .arguments([""; 0])
            .master(&master.url())
            .config("spark.authenticate", false);
        if let Some(secret) = secret {
            ctx = ctx.config("spark.authenticate", true);
            ctx = ctx.config("spark.authenticate.secret", secret);
        }
        let error = ctx.build().err().expect("it is refused").to_string();
        assert!(error.contains("spark.authenticate.secret"), "{error}");
        assert!(!error.contains("attempts"), "it was tried once: {error}");
        assert!(secret.is_none_or(|secret| !error.contains(secret)), "{error}");
    }
    runtime.block_on(async {
        worker.stop().await;
        master.stop().await;
    });
}

#[test]
fn what_a_local_cluster_leaves_when_its_driver_is_killed_goes_with_the_next() {
    let scratch = Scratch::new();
    let tmp = scratch.path("tmp");
    let conf = format!("spark.master=local-cluster[1,1,256]\nspark.local.dir={tmp}\n");
    let mut program = Program::start("endless", &conf, &scratch);
    wait_until("its task runs", || Path::new(&scratch.path("started")).exists());
    program.kill();
    let left = names_in(&tmp);
    assert!(!left.is_empty());
    let ctx = Context::builder().arguments([""; 0]).master("local-cluster[1,1,256]");
    let ctx = ctx.config("spark.local.dir", &tmp).build().unwrap();
    assert!(names_in(&tmp).iter().all(|name| !left.contains(name)), "{left:?}");
    assert_eq!(ctx.range(0..10u32).count().unwrap(), 10);
    ctx.stop();
    drop(ctx);
    assert_eq!(names_in(&tmp), [""; 0]);
}

#[test]
fn files_are_found_by_name_in_driver_and_tasks_as_they_were_at_the_start() {
    let scratch = Scratch::new();
    let (words, tmp) = (scratch.path("words.txt"), scratch.path("tmp"));
    for transport in ["direct", "encoded", "process"] {
        std::fs::write(&words, transport).unwrap();
        let ctx = Context::builder().arguments([""; 0]).master("local[2]");
        let ctx = ctx.config("spark.files", &words).config("spark.local.dir", &tmp);
        let ctx = ctx.config("spark.firesteel.local.transport", transport).build().unwrap();
        std::fs::write(&words, "changed").unwrap();
        let read = ctx
            .parallelize_in(4, 0..4u8)
            .map(|_| std::fs::read_to_string(SparkFiles::get("words.txt")).unwrap());
        assert_eq!(read.collect().unwrap(), [transport; 4]);
        drop(read);
        ctx.stop();
        drop(ctx);
        assert_eq!(names_in(&tmp), [""; 0]);
    }
    for (list, needle) in [
        (format!("{words},{tmp}/x"), "give the path of a file"),
        (tmp.clone(), "not a file"),
        (format!("{words},{}", scratch.path("app/words.txt")), "rename one of them"),
    ] {
        std::fs::create_dir_all(scratch.path("app")).unwrap();
        std::fs::write(scratch.path("app/words.txt"), "").unwrap();
        let ctx = Context::builder().arguments([""; 0]).master("local[1]");
        let refused = ctx.config("spark.files", &list).build().err().unwrap().to_string();
        assert!(refused.contains(needle) && refused.contains("spark.files"), "{refused}");
    }
}
