//! Submissions over HTTP: drivers that the cluster runs.

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::daemon::{Master, Worker, file, get, is_running, request, wait_until};
use crate::submitting::web;

fn post(master: &Master, path: &str, body: &str) -> (String, Value) {
    let rest = &master.rest;
    let length = body.len();
    let text = format!(
        "POST /v1/submissions/{path} HTTP/1.1\r\nHost: {rest}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let (status, answer) = request(rest, &text);
    (status, serde_json::from_str(&answer).unwrap())
}

/// Submits a script of a shell; its id.
pub(crate) fn submit(master: &Master, script: &str) -> String {
    let submission = json!({
        "action": "CreateSubmissionRequest",
        "appResource": "file:/bin/sh",
        "appArgs": ["-c", script],
        "clientSparkVersion": "4.3.0",
        "environmentVariables": { "SPARK_COLOUR": "red" },
        "mainClass": "script",
        "sparkProperties": { "spark.app.name": "script", "spark.driver.memory": "100m" },
    });
    let (status, answer) = post(master, "create", &submission.to_string());
    assert!(status.contains("200") && answer["success"] == true, "{status} {answer}");
    answer["submissionId"].as_str().unwrap().to_owned()
}

/// Submits an executable behind a URL, supervised; its id.
fn submit_url(master: &Master, url: &str) -> String {
    let submission = json!({
        "action": "CreateSubmissionRequest",
        "appResource": url,
        "appArgs": ["one"],
        "clientSparkVersion": "4.3.0",
        "mainClass": "app",
        "sparkProperties": {
            "spark.app.name": "app",
            "spark.driver.memory": "100m",
            "spark.driver.supervise": "true",
            "spark.jars": url,
        },
    });
    let (status, answer) = post(master, "create", &submission.to_string());
    assert!(status.contains("200") && answer["success"] == true, "{status} {answer}");
    answer["submissionId"].as_str().unwrap().to_owned()
}

fn status(master: &Master, driver: &str) -> Value {
    let (line, answer) = get(&master.rest, &format!("/v1/submissions/status/{driver}"));
    assert!(line.contains("200"), "{line}");
    serde_json::from_str(&answer).unwrap()
}

fn wait_for_state(master: &Master, driver: &str, state: &str) {
    wait_until(&format!("{driver} is {state}"), || status(master, driver)["driverState"] == state);
}

#[test]
fn a_submitted_driver_runs_on_a_worker_and_is_told_its_master() {
    let master = Master::start(&[]);
    let waiting = submit(&master, "echo \"$FIRESTEEL_CONF $SPARK_COLOUR\" > new; mv new told");
    assert_eq!(status(&master, &waiting)["driverState"], "SUBMITTED", "there is no worker yet");
    let worker = Worker::start(&master, &[]);
    wait_for_state(&master, &waiting, "FINISHED");
    let told = file(&worker.driver_directory(&waiting).join("told"));
    let port = master.port();
    assert!(told.contains(port) && told.contains("script") && told.contains("red"), "{told}");
    let answer = status(&master, &waiting);
    assert!(answer["workerId"].as_str().unwrap().starts_with("worker-"), "{answer}");
    let failed = submit(&master, "exit 3");
    wait_for_state(&master, &failed, "FAILED");
    assert_eq!(status(&master, &failed)["message"], "its process ended with exit code 3");
    assert_eq!(master.json()["completeddrivers"].as_array().unwrap().len(), 2);
    assert_eq!(post(&master, "clear", "").1["success"], true);
    assert_eq!(status(&master, &failed)["success"], false, "it is forgotten");
}

#[test]
fn an_executable_behind_a_url_is_fetched_by_the_worker_once_for_a_driver() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    // Fails once: the second run has what the first one had, and the server answers no second request for it.
    let script = "#!/bin/sh\necho \"$1\" >> told; [ \"$(wc -l < told)\" = 2 ]\n";
    let web = web([("/app?token=hush", script), ("/x", "")], 2);
    let driver = submit_url(&master, &format!("{web}/app?token=hush"));
    wait_for_state(&master, &driver, "FINISHED");
    let directory = worker.driver_directory(&driver);
    assert_eq!(file(&directory.join("told")), "one\none\n");
    let stderr = file(&directory.join("stderr"));
    assert!(stderr.contains("/executable/app\" \"one\"") && !stderr.contains("hush"), "{stderr}");

    let absent = submit_url(&master, &format!("{web}/none?token=hush"));
    wait_for_state(&master, &absent, "ERROR");
    let why = status(&master, &absent)["message"].as_str().unwrap().to_owned();
    let answer = format!("could not fetch {web}/none: the server answers 404 (Not Found)");
    assert!(why.contains(&answer) && !why.contains("hush"), "{why}");
    assert!(!worker.daemon.stderr().contains("hush"), "{}", worker.daemon.stderr());
    assert!(!master.daemon.stderr().contains("hush"), "{}", master.daemon.stderr());
}

#[test]
fn a_driver_is_killed_while_its_executable_comes() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    // It accepts, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/app", silent.local_addr().unwrap());
    let driver = submit_url(&master, &url);
    let (connection, _) = silent.accept().unwrap();
    let (_, answer) = post(&master, &format!("kill/{driver}"), "");
    assert_eq!(answer["success"], true, "{answer}");
    wait_for_state(&master, &driver, "KILLED");
    connection.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let read = std::io::Read::read_to_end(&mut &connection, &mut Vec::new());
    assert!(read.is_ok(), "who fetched is gone: {read:?}");
    assert!(!worker.driver_directory(&driver).join("executable/app").exists());
}

#[test]
fn drivers_are_killed_one_by_one_and_all_together() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let sleep = "echo $$ > new; mv new pid; exec sleep 1000";
    let [first, second, third] = [(); 3].map(|()| submit(&master, sleep));
    let pid = |driver: &str| {
        let number = file(&worker.driver_directory(driver).join("pid"));
        Pid::from_raw(number.trim().parse().unwrap()).unwrap()
    };
    let pids = [pid(&first), pid(&second)];
    assert_eq!(status(&master, &third)["driverState"], "SUBMITTED", "the worker has two cores");
    let (_, answer) = post(&master, &format!("kill/{first}"), "");
    assert_eq!(answer["success"], true, "{answer}");
    wait_until("the end of the first", || !is_running(pids[0]));
    wait_for_state(&master, &first, "KILLED");
    wait_for_state(&master, &third, "RUNNING");
    assert_eq!(post(&master, &format!("kill/{first}"), "").1["success"], false, "it is over");
    let third_pid = pid(&third);
    assert_eq!(post(&master, "killall", "").1["success"], true);
    wait_until("the end of all", || !is_running(pids[1]) && !is_running(third_pid));
    assert_eq!(status(&master, &second)["driverState"], "KILLED");
}

#[test]
fn what_is_no_submission_changes_nothing() {
    let master = Master::start(&[]);
    let ready = get(&master.rest, "/v1/submissions/readyz");
    assert!(ready.0.contains("200") && ready.1.contains("ReadyzResponse"), "{ready:?}");
    assert!(get(&master.rest, "/v7/submissions/readyz").0.contains("468"));
    let (line, answer) = post(&master, "create", "{");
    assert!(line.contains("400") && answer["action"] == "ErrorResponse", "{line} {answer}");
    let (line, _) = post(&master, "create", &" ".repeat(2 << 20));
    assert!(line.contains("413"), "{line}");
    let page = "POST /v1/submissions/killall HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 0\r\n\r\n";
    assert!(request(&master.rest, page).0.contains("403"));
    assert!(master.json()["activedrivers"].as_array().unwrap().is_empty());
}
