//! `firesteel submit`: what it runs, with which settings, and what it refuses.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

/// The command with nothing of the surroundings' settings.
fn submit(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel"));
    command.arg("submit").args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.contains("SPARK") || name.starts_with("FIRESTEEL") || name == "MASTER" {
            command.env_remove(name.as_ref());
        }
    }
    command.env("XDG_CONFIG_HOME", "/dev/null");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The settings an application is given.
fn settings(mut command: Command) -> Vec<String> {
    let Output { stdout, stderr, status } =
        command.args(["/bin/sh", "-c", "printf '%s' \"$FIRESTEEL_CONF\""]).output().unwrap();
    assert!(status.success(), "{}", text(&stderr));
    text(&stdout).lines().map(str::to_owned).collect()
}

#[test]
fn an_application_is_told_its_settings_and_flags_win_over_settings_over_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("my.conf");
    std::fs::write(&file, "spark.app.name of the file\nspark.task.cpus 3\nspark.cores.max 9\n")
        .unwrap();
    let data = directory.path().join("data.csv");
    std::fs::write(&data, "").unwrap();
    let told = settings(submit(&[
        "--properties-file",
        file.to_str().unwrap(),
        "--conf",
        "spark.cores.max=5",
        "-c",
        "spark.executor.memory=7g",
        "--name",
        "of the flag",
        "--master",
        "spark://h:7077",
        "--driver-memory",
        "2g",
        "--executor-memory",
        "3g",
        "--executor-cores",
        "2",
        "--total-executor-cores",
        "8",
        "--num-executors",
        "4",
        "--files",
        data.to_str().unwrap(),
    ]));
    let path = std::path::absolute(&data).unwrap();
    let files = format!("spark.files={}", path.display());
    for line in [
        "spark.app.name=of the flag",
        "spark.task.cpus=3",
        "spark.cores.max=8",
        "spark.executor.memory=3g",
        "spark.executor.cores=2",
        "spark.executor.instances=4",
        "spark.driver.memory=2g",
        files.as_str(),
    ] {
        assert!(told.contains(&line.to_owned()), "{line} is not in {told:#?}");
    }
    assert!(told.iter().any(|line| line.starts_with("spark.master=") && line.contains("h")));
}

#[test]
fn without_flags_it_runs_here_under_its_executables_name() {
    let told = settings(submit(&[]));
    assert!(told.contains(&"spark.master=local[*]".to_owned()), "{told:?}");
    assert!(told.contains(&"spark.app.name=sh".to_owned()), "{told:?}");
}

#[test]
fn arguments_after_the_executable_are_its_own() {
    let output = submit(&["/bin/echo", "--master", "x", "--", "-v", "--help"]).output().unwrap();
    assert_eq!(text(&output.stdout), "--master x -- -v --help\n");
}

#[test]
fn exit_codes_and_signals_are_the_applications_own() {
    let status = submit(&["/bin/sh", "-c", "exit 7"]).status().unwrap();
    assert_eq!(status.code(), Some(7));
    let status = submit(&["/bin/sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(status.signal(), Some(15));
}

#[test]
fn a_verbose_submit_shows_settings_but_no_secrets() {
    let output = submit(&[
        "--verbose",
        "--conf",
        "spark.authenticate.secret=swordfish",
        "--conf",
        "spark.task.cpus=2",
        "/bin/true",
    ]);
    let output = { output }.output().unwrap();
    let shown = text(&output.stderr);
    assert!(shown.contains("spark.task.cpus=2") && shown.contains("/bin/true"), "{shown}");
    assert!(shown.contains("spark.authenticate.secret=") && !shown.contains("swordfish"));
}

#[test]
fn settings_that_do_nothing_are_told_in_one_line_and_settings_that_were_meant_otherwise_in_theirs()
{
    let output = submit(&[
        "--conf",
        "spark.sql.ansi.enabled=true",
        "--conf",
        "spark.deploy.maxDrivers=3",
        "--conf",
        "spark.task.cpu=2",
        "--conf",
        "spark.akka.frameSize=64",
        "--conf",
        "spark.mine=1",
        "/bin/sh",
        "-c",
        "printf '%s' \"$FIRESTEEL_CONF\"",
    ]);
    let output = { output }.output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            "firesteel submit: spark.akka.frameSize (from --conf) is an old name of \
             spark.rpc.message.maxSize: write that",
            "firesteel submit: spark.task.cpu (from --conf) is not a known key: did you mean \
             spark.task.cpus?",
            "firesteel submit: spark.deploy.maxDrivers and spark.sql.ansi.enabled have no effect here, \
             unlike in Spark",
        ]
    );
    let settings = text(&output.stdout);
    assert!(settings.contains("spark.rpc.message.maxSize=64") && !settings.contains("akka"));
    assert!(settings.contains("spark.sql.ansi.enabled=true"), "it is passed on: {settings}");
}

#[test]
fn what_cannot_be_run_is_refused_with_what_is_possible() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let plain = plain.to_str().unwrap();
    for (arguments, needle) in [
        (&[][..], "there is no application"),
        (&["app.py"], "Python programs cannot be submitted; what can be is an executable"),
        (&["query.SQL"], "files of SQL cannot be submitted"),
        (&["app.jar"], "programs of the JVM"),
        (&["--class", "Main", "app.jar"], "--class is not a flag of submit: an application is one"),
        (&["--jars=a.jar", "x"], "--jars is not a flag"),
        (
            &["--kill", "driver-1"],
            "--kill asks the master of a standalone cluster, or Kubernetes: write --master",
        ),
        (&["--kill", "a", "--status", "b"], "not both"),
        (&["--kill", "a", "--master", "local", "/bin/true"], "leave /bin/true out"),
        (&["--status", "driver-1", "--master", "local[2]"], "spark://host:6066, not local[2]"),
        (&["--supervise", "/bin/true"], "--supervise is for drivers that the cluster runs"),
        (&["--driver-cores", "2", "/bin/true"], "--deploy-mode cluster too"),
        (&["--deploy-mode", "cluster", "--driver-cores", "0", "/bin/true"], "--driver-cores"),
        (
            &["--deploy-mode", "cluster", "--master", "local-cluster[1,1,512]", "/bin/true"],
            "not local-cluster",
        ),
        (&["local:///bin/true"], "this driver runs here: write /bin/true"),
        (&["--deploy-mode", "cluster", "local:bin/true"], "write the whole path"),
        (&["--queue", "q", "/bin/true"], "not supported"),
        (&["--executr-cores", "2", "/bin/true"], "see firesteel submit --help"),
        (&["-x", "/bin/true"], "see firesteel submit --help"),
        (&["--master", "yarn", "/bin/true"], "YARN is not supported: write local"),
        (&["--master", "mesos://h:1", "/bin/true"], "not supported: write local"),
        (&["--master", "spark://h", "/bin/true"], "spark://host:port"),
        (&["--deploy-mode", "cluster", "/bin/true"], "or --master spark://host:6066, not local[*]"),
        (&["--deploy-mode", "other", "/bin/true"], "client or cluster"),
        (&["--executor-memory", "lots", "/bin/true"], "--executor-memory"),
        (&["--executor-cores", "0", "/bin/true"], "--executor-cores"),
        (&["--total-executor-cores", "-1", "/bin/true"], "--total-executor-cores"),
        (&["--num-executors", "many", "/bin/true"], "--num-executors"),
        (&["--conf", "nonsense", "/bin/true"], "key=value"),
        (&["--properties-file", "/nowhere/at/all", "/bin/true"], "/nowhere/at/all"),
        (&["--files", "/nowhere/at/all", "/bin/true"], "--files /nowhere/at/all"),
        (&["--files", "/tmp", "/bin/true"], "not a file"),
        (&["--files", "/bin/sh,/usr/bin/../bin/sh", "/bin/true"], "rename one of them"),
        (&["--files", "s3://bucket", "/bin/true"], "no name for a file"),
        (&["--conf", "spark.files=/nowhere/at/all", "/bin/true"], "spark.files /nowhere/at/all"),
        (
            &[
                "--conf",
                "spark.network.crypto.enabled=false",
                "--conf",
                "spark.network.sasl.serverAlwaysEncrypt=true",
                "/bin/true",
            ],
            "which spark.network.crypto.enabled=false turns off",
        ),
        (&["--conf", "spark.ssl.ui.enabled=true", "/bin/true"], "spark.ssl.ui.enabled=false"),
        (&["--conf", "spark.ui.filters=Mine", "/bin/true"], "org.apache.spark.ui.JWSFilter"),
        (&["--conf", "spark.executorEnv.FIRESTEEL_ROLE=x", "/bin/true"], "choose another name"),
        (&["/nowhere/at/all"], "build it with cargo build --release"),
        (&["hdfs://h/app"], "copy it here"),
        (&["/tmp"], "is not an executable"),
        (&[plain], "chmod +x"),
        (&["--master"], "--master"),
    ] {
        let output = submit(arguments).output().unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?} was run");
        assert!(error.contains(needle), "{arguments:?}: {error}");
    }
}
