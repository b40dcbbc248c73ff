//! Daemons in the background, clusters of a file, and what packages install.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command with nothing of the surroundings' settings, at home in this directory.
fn firesteel(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.contains("SPARK")
            || name.contains("XDG")
            || name.starts_with("FIRESTEEL")
            || name == "MASTER"
        {
            command.env_remove(name.as_ref());
        }
    }
    command.env("HOME", home).current_dir(home);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_daemon_runs_once_and_is_found_and_ended() {
    let home = tempfile::tempdir().unwrap();
    let ask = |arguments: &[&str]| {
        let output = firesteel(home.path(), &["daemon"]).args(arguments).output().unwrap();
        (output.status.code(), said(&output))
    };
    assert_eq!(ask(&["status", "m"]), (Some(1), "m does not run\n".to_owned()));
    let start = [
        "start",
        "m",
        "master",
        "--port",
        "0",
        "--webui-port",
        "0",
        "--conf",
        "spark.master.rest.port=0",
    ];
    let (code, told) = ask(&start);
    assert!(code == Some(0) && told.contains("firesteel master: spark://127.0.0.1:"), "{told}");
    let (code, told) = ask(&start);
    assert!(code == Some(1) && told.contains("m runs already"), "{told}");
    let (code, told) = ask(&["status", "m"]);
    assert!(code == Some(0) && told.contains("m runs as process"), "{told}");
    assert_eq!(ask(&["stop", "m"]), (Some(0), "m is stopped\n".to_owned()));
    assert_eq!(ask(&["stop", "m"]), (Some(0), "m does not run\n".to_owned()));
    let (code, told) = ask(&["start", "m", "master", "--port", "nonsense"]);
    assert!(code == Some(1) && told.contains("m ended with"), "{told}");
    assert_eq!(ask(&["status", "../x"]).0, Some(1));
}

#[test]
fn a_cluster_is_started_on_the_hosts_of_a_file_by_ssh_and_ended() {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    // Another machine that is this one, with another home: it runs the last of its arguments.
    let ssh = "#!/bin/sh\necho \"$@\" >> \"$HOME/ssh.log\"\nfor line; do :; done\n\
               export XDG_CONFIG_HOME=\"$HOME/.config\" HOME=\"$HOME/other\"\nexec sh -c \"$line\"\n";
    std::fs::write(bin.join("ssh"), ssh).unwrap();
    std::fs::set_permissions(bin.join("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(home.path().join("conf")).unwrap();
    std::fs::write(home.path().join("conf/workers"), "localhost # here\n127.0.0.2\n").unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        .to_string();
    let ask = |action: &str, flags: &[&str]| {
        let mut command = firesteel(home.path(), &["cluster", action, "--port", &port]);
        let output = command.env("PATH", &path).args(flags).output().unwrap();
        (output.status.code(), said(&output))
    };
    let flags = ["--", "--webui-port", "0", "--conf", "spark.master.rest.port=0"];
    let (code, told) = ask("start", &flags);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(told.matches(": spark://").count(), 3, "a master and two workers: {told}");
    let (code, told) = ask("status", &[]);
    assert!(code == Some(0) && told.matches(" runs as process ").count() == 3, "{told}");
    let (code, told) = ask("stop", &[]);
    assert!(code == Some(0) && told.matches(" is stopped").count() == 3, "{told}");
    let (code, told) = ask("status", &[]);
    assert!(code == Some(1) && told.matches(" does not run").count() == 3, "{told}");
    let asked = std::fs::read_to_string(home.path().join("ssh.log")).unwrap();
    assert!(asked.lines().all(|line| line.contains(" -- 127.0.0.2 '")), "{asked}");
}

#[test]
fn what_cannot_be_asked_of_a_cluster_is_refused_with_what_to_write() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, lines: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, lines).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (far, option) = (file("far", "localhost\nfar\n"), file("option", "-oProxyCommand=x\n"));
    let nobody = "spark://127.0.0.1:1";
    for (arguments, needle) in [
        (&["decommission"][..], "<WORKER>"),
        (
            &["decommission", "w"],
            "asks the master of a standalone cluster: write --master spark://",
        ),
        (&["decommission", "--master", "local[2]", "w"], "spark://host:7077, not local[2]"),
        (&["decommission", "--master", "spark://h", "w"], "spark://host:port"),
        (&["decommission", "--master", nobody, "w"], "no master takes the request: "),
        (&["submit", "--master", nobody, "--kill", "driver-1"], "no master takes the request: "),
        (&["submit", "--master", nobody, "--status", "driver-1"], "127.0.0.1:1 cannot be reached"),
        (&["submit", "--kill"], "--kill"),
        (&["cluster"], "start"),
        (&["cluster", "restart"], "restart"),
        (&["cluster", "start", "--workers", "/nowhere/at/all"], "could not read /nowhere/at/all"),
        (&["cluster", "start", "--workers", option.as_str()], "is no host: write one on each line"),
        (
            &["cluster", "start", "--workers", far.as_str()],
            "a worker on far cannot reach a master at 127.0.0.1",
        ),
        (&["cluster", "start", "--workers", far.as_str(), "--host", "localhost"], "write --host"),
        (&["cluster", "start", "--port", "0"], "the workers have to know it"),
        (&["cluster", "start", "--port", "70000"], "70000"),
        (&["cluster", "start", "--webui-port", "0"], "--webui-port"),
        (&["cluster", "stop", "--", "--webui-port", "0"], "leave out what comes after --"),
        (
            &["cluster", "status", "--", "--cores", "2"],
            "--cores is for master and workers that start",
        ),
        (&["daemon", "start", "no word", "master"], "use letters, digits, - and _"),
        (&["daemon", "start", "m"], "<COMMAND>"),
    ] {
        let output = firesteel(home.path(), arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?} was done: {}", said(&output));
        assert!(error.contains(needle), "{arguments:?}: {error}");
    }
    let mut port = firesteel(home.path(), &["cluster", "status"]);
    let told = said(&port.env("SPARK_MASTER_PORT", "many").output().unwrap());
    assert!(told.contains("SPARK_MASTER_PORT=\"many\" is not a number"), "{told}");
}

#[test]
fn under_the_name_of_sparks_command_it_submits() {
    let home = tempfile::tempdir().unwrap();
    let link = home.path().join("spark-submit");
    symlink(env!("CARGO_BIN_EXE_firesteel"), &link).unwrap();
    let output = Command::new(&link).args(["--name", "x", "/bin/echo", "ran"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{}", said(&output));
}

#[test]
fn completions_and_pages_of_the_manual_name_every_command() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = firesteel(home.path(), &["completions", shell]).output().unwrap();
        let script = said(&output);
        assert!(script.contains("submit") && script.contains("deploy-mode"), "{shell}");
    }
    let output = firesteel(home.path(), &["man", "pages"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let page = std::fs::read_to_string(home.path().join("pages/firesteel-submit.1")).unwrap();
    assert!(page.contains("supervise"), "{page}");
    for name in ["firesteel", "firesteel-master", "firesteel-worker", "firesteel-cluster-start"] {
        assert!(home.path().join(format!("pages/{name}.1")).exists(), "{name}");
    }
}
