//! Executors as processes: what they are told, how they end, what happens then.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use firesteel_backend::command::Command;
use firesteel_standalone_core::description::ExecutorState;
use firesteel_standalone_core::messages::{ToApplication, ToMaster};
use firesteel_types::ExecutorId;
use rustix::process::{Signal, kill_process};

use crate::application::{Application, idle, script, variables};
use crate::daemon::{Daemon, Master, Worker, file, firesteel, is_running, wait_until};

fn program(path: &str) -> Command {
    Command { program: path.to_owned(), ..Command::default() }
}

/// The state of the only application that is over.
fn completed(master: &Master) -> String {
    let page = master.json();
    assert_eq!(page["activeapps"].as_array().unwrap().len(), 0, "{page}");
    page["completedapps"][0]["state"].as_str().unwrap().to_owned()
}

#[test]
fn executors_that_exit_at_once_end_their_application_with_the_cause() {
    let master = Master::start(&["--conf", "spark.deploy.maxExecutorRetries=3"]);
    let _worker = Worker::start(&master, &[]);
    let application = Application::register(&master, program("/bin/false"));
    let reason = application.removal();
    assert!(reason.contains("exit code 1"), "{reason}");
    let added = |told: &&ToApplication| matches!(told, ToApplication::ExecutorAdded { .. });
    let tried = application.told().iter().filter(added).count();
    assert!((1..=4).contains(&tried), "{tried} executors were tried");
    assert_eq!(application.end_of(0).0, ExecutorState::Exited);
    wait_until("the application's end on the page", || completed(&master) == "FAILED");
}

#[test]
fn a_program_that_is_missing_or_another_one_ends_its_application_with_what_to_do() {
    let master = Master::start(&["--conf", "spark.deploy.maxExecutorRetries=1"]);
    let _worker = Worker::start(&master, &[]);
    let other = Command { hash: Some([7; 32]), ..program("/bin/sh") };
    for (command, needle) in [
        (program("/nowhere/at/all"), "cannot be found on this worker"),
        (program("app"), "not an absolute path"),
        (program("/etc/passwd"), "chmod +x"),
        (other, "copy the driver's executable"),
    ] {
        let application = Application::register(&master, command);
        let (reason, (state, end)) = (application.removal(), application.end_of(0));
        assert_eq!(state, ExecutorState::Failed);
        assert!(reason.contains(needle) && end.contains(needle), "{reason} {end}");
    }
}

#[test]
fn a_program_with_the_right_hash_is_started() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let hash = *blake3::hash(&fs::read("/bin/sh").unwrap()).as_bytes();
    let application = Application::register(&master, Command { hash: Some(hash), ..idle() });
    assert!(is_running(application.pid(&worker, 0)));
}

#[test]
fn an_executor_that_is_killed_is_noticed_and_replaced() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let application = Application::register(&master, idle());
    let first = application.pid(&worker, 0);
    kill_process(first, Signal::KILL).unwrap();
    let (state, end) = application.end_of(0);
    assert!(state == ExecutorState::Exited && end.contains("Signal(9)"), "{end}");
    let second = application.pid(&worker, 1);
    assert!(is_running(second) && second != first);
    assert_eq!(master.json()["coresused"], 1);
}

#[test]
fn an_executor_knows_what_it_is_and_nothing_of_its_workers_secret() {
    let directory = tempfile::tempdir().unwrap();
    let master = Master::start(&[]);
    let mut worker = Worker::command(&master.url, directory.path(), &[]);
    worker.env("_SPARK_AUTH_SECRET", "not for executors").env("OTHER", "inherited");
    let _worker = Daemon::start(worker);
    let mut command = script("umask > new; env >> new; mv new environment; exec sleep 1000");
    command.environment.insert("FIRESTEEL_ROLE".to_owned(), "executor".to_owned());
    command.environment.insert("FIRESTEEL_EXECUTOR_ID".to_owned(), "forged".to_owned());
    let application = Application::register(&master, command);
    let app = application.id();
    let work = fs::canonicalize(directory.path()).unwrap().join(&app);
    let text = file(&work.join("0/environment"));
    let found = variables(&text);
    for (name, value) in [
        ("FIRESTEEL_ROLE", "executor"),
        ("FIRESTEEL_APP_ID", app.as_str()),
        ("FIRESTEEL_EXECUTOR_ID", "0"),
        ("FIRESTEEL_EXECUTOR_CORES", "1"),
        ("FIRESTEEL_EXECUTOR_MEMORY_MB", "64"),
        ("FIRESTEEL_EXECUTOR_HOST", "127.0.0.1"),
        ("PWD", work.join("0").to_str().unwrap()),
        ("OTHER", "inherited"),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}");
    }
    assert!(found["FIRESTEEL_WORKER_URL"].starts_with("spark://Worker@127.0.0.1:"), "{text}");
    assert!(!text.contains("not for executors"));
    let local = PathBuf::from(found["SPARK_LOCAL_DIRS"]);
    assert!(local.starts_with(work.with_file_name("local")) && local.ends_with(&app), "{text}");
    for path in [work.clone(), work.join("0"), local] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_workers_own_directories_are_those_of_its_executors() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let both = format!("spark.local.dir={},{}", first.path().display(), second.path().display());
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &["--conf", &both]);
    let command = script("echo $SPARK_LOCAL_DIRS > new; mv new dirs; exec sleep 1000");
    let application = Application::register(&master, command);
    let told = file(&worker.directory(&application.id(), 0).join("dirs"));
    let told: Vec<&str> = told.trim().split(',').collect();
    let below = |told: &str, root: &tempfile::TempDir| {
        std::path::Path::new(told).starts_with(fs::canonicalize(root.path()).unwrap())
    };
    assert!(told.len() == 2 && below(told[0], &first) && below(told[1], &second), "{told:?}");
}

#[test]
fn output_is_kept_in_files_of_limited_size() {
    let master = Master::start(&[]);
    let worker = Worker::start(
        &master,
        &[
            "--conf",
            "spark.executor.logs.rolling.strategy=size",
            "--conf",
            "spark.executor.logs.rolling.maxSize=1000",
            "--conf",
            "spark.executor.logs.rolling.maxRetainedFiles=2",
        ],
    );
    let command = script("echo trouble >&2; seq 100000 109999; echo last; exec sleep 1000");
    let application = Application::register(&master, command);
    let directory = worker.directory(&application.id(), 0);
    let current = directory.join("stdout");
    wait_until("the last line", || {
        fs::read_to_string(&current).is_ok_and(|text| text.ends_with("last\n"))
    });
    let errors = directory.join("stderr");
    wait_until("what went wrong", || {
        fs::read_to_string(&errors).is_ok_and(|text| text.ends_with("trouble\n"))
    });
    let sizes: Vec<u64> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with("stdout"))
        .map(|entry| entry.metadata().unwrap().len())
        .collect();
    assert!(sizes.len() == 3 && sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
}

#[test]
fn an_executor_that_is_not_wanted_any_more_ends_and_an_application_that_is_over_is_cleared_up() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let application = Application::register(&master, idle());
    let first = application.pid(&worker, 0);
    let app = firesteel_backend::AppId::new(&application.id());
    let executors = vec![ExecutorId(0)];
    application.say(ToMaster::KillExecutors { app: app.clone(), executors });
    assert_eq!(application.end_of(0).0, ExecutorState::Killed);
    // Told when it is to be killed, not when it is.
    wait_until("the executor's end", || !is_running(first));

    let local = worker.directory(&application.id(), 0).join("../../local");
    let own = fs::read_dir(local).unwrap().next().unwrap().unwrap().path();
    let left = || fs::read_dir(&own).unwrap().count();
    assert_eq!(left(), 2, "its lock, and a directory of the application");
    application.say(ToMaster::UnregisterApplication { app });
    wait_until("the temporary files' end", || left() == 1);
    wait_until("the application's end", || completed(&master) == "FINISHED");
    wait_until("free cores", || master.json()["coresused"] == 0);
}

#[test]
fn a_program_that_cannot_be_launched_says_so() {
    let output = firesteel(&["launch", "1", "/bin/true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the worker is gone"));
}
