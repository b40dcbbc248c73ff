//! Ends: told to, killed, alone. Nothing is left of a worker, and a master's end costs nothing.

use std::time::{Duration, Instant};

use firesteel_backend::AppId;
use firesteel_standalone_core::messages::ToMaster;
use firesteel_types::ExecutorId;
use rustix::process::{Signal, kill_process};

use crate::application::{Application, idle, pid_in, script};
use crate::daemon::{Daemon, Master, Worker, is_running, wait_until};

/// An executor that does not want to end, with a child of its own.
fn stubborn() -> firesteel_backend::command::Command {
    script(
        "trap '' TERM; sleep 1000 & echo $! > new; mv new child; echo $$ > new; mv new pid; while :; do sleep 1000; done",
    )
}

#[test]
fn a_worker_that_is_told_to_end_takes_even_stubborn_processes_with_it() {
    let master = Master::start(&[]);
    let grace = ["--conf", "spark.worker.driverTerminateTimeout=200ms"];
    for signal in [Signal::TERM, Signal::INT] {
        let mut worker = Worker::start(&master, &grace);
        let application = Application::register(&master, stubborn());
        let pid = application.pid(&worker, 0);
        let child = pid_in(&worker.directory(&application.id(), 0).join("child"));
        assert!(is_running(pid) && is_running(child));
        worker.daemon.signal(signal);
        assert_eq!(worker.daemon.end().code(), Some(0));
        // They were killed before; the kernel may take a moment with them.
        assert!(!is_running(pid), "it was to go first");
        wait_until("the end of its child", || !is_running(child));
        // It has said so: one whose connection only broke would have a quarter of a minute to come back.
        let gone = Instant::now();
        wait_until("a dead worker", || master.workers("ALIVE") == 0);
        assert!(gone.elapsed() < Duration::from_secs(10), "{:?}", gone.elapsed());
    }
}

#[test]
fn executors_of_a_worker_that_is_killed_end_with_it_and_run_elsewhere() {
    let master = Master::start(&[]);
    let mut one = Worker::start(&master, &[]);
    let application = Application::register(&master, stubborn());
    let pid = application.pid(&one, 0);
    let child = pid_in(&one.directory(&application.id(), 0).join("child"));
    let other = Worker::start(&master, &[]);
    one.daemon.kill();
    wait_until("the executor's end", || !is_running(pid) && !is_running(child));
    assert!(is_running(application.pid(&other, 1)));
}

#[test]
fn an_executor_that_is_stopped_hears_that_it_shall_end() {
    let master = Master::start(&[]);
    // Longer than anybody waits: it must not take SIGKILL.
    let worker = Worker::start(&master, &["--conf", "spark.worker.driverTerminateTimeout=600s"]);
    let application = Application::register(&master, idle());
    let pid = application.pid(&worker, 0);
    kill_process(pid, Signal::STOP).unwrap();
    let (app, executors) = (AppId::new(&application.id()), vec![ExecutorId(0)]);
    application.say(ToMaster::KillExecutors { app, executors });
    wait_until("the executor's end", || !is_running(pid));
}

#[test]
fn a_driver_that_is_gone_is_forgotten_with_its_executors() {
    let master = Master::start(&["--conf", "spark.worker.timeout=1s"]);
    let worker = Worker::start(&master, &["--conf", "spark.worker.timeout=1s"]);
    let application = Application::register(&master, idle());
    let pid = application.pid(&worker, 0);
    drop(application);
    wait_until("the executor's end", || !is_running(pid));
    wait_until("free cores", || master.json()["coresused"] == 0);
    assert_eq!(master.json()["activeapps"].as_array().unwrap().len(), 0);
}

#[test]
fn a_worker_goes_on_without_its_master_and_joins_the_next_one_with_what_it_runs() {
    let mut master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let application = Application::register(&master, idle());
    let pid = application.pid(&worker, 0);
    let port = master.port().to_owned();
    master.daemon.kill();
    // An application that did not come to it before it is dropped is waited for that long.
    let next = Master::start_at(&port, &["--conf", "spark.deploy.recoveryTimeout=1s"]);
    assert_eq!(next.url, master.url);
    wait_until("the worker at the next master", || next.workers("ALIVE") == 1);
    drop(application);
    // The next master knows no such application: what runs for it is ended, and its cores and memory are free.
    wait_until("the executor's end", || !is_running(pid));
    wait_until("free cores", || next.json()["coresused"] == 0);
}

#[test]
fn a_master_that_is_told_to_end_does_and_so_does_a_worker_that_waits_for_one() {
    let mut master = Master::start(&[]);
    assert_eq!(master.daemon.terminate().code(), Some(0));
    let directory = tempfile::tempdir().unwrap();
    let mut worker = Daemon::start(Worker::command(&master.url, directory.path(), &[]));
    worker.wait_for_stderr("could not connect");
    assert_eq!(worker.terminate().code(), Some(0));
}

#[test]
fn a_worker_that_finds_no_master_gives_up_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let once = ["--conf", "spark.worker.maxRegistrationRetries=1"];
    let mut worker = Daemon::start(Worker::command("spark://127.0.0.1:1", directory.path(), &once));
    assert_eq!(worker.end().code(), Some(1));
    assert!(worker.stderr().contains("no master answered"), "{}", worker.stderr());
}
