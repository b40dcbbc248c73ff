//! The applications of `./chaos`: what Firesteel computes is what loops compute, and an answer that was spoilt on purpose is not.

use std::{collections::BTreeSet, path::Path, process::Command};

/// The answers that an application prints, without those that come twice.
fn answers(directory: &Path, words: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel-bench-app"));
    command.current_dir(directory).env_remove("FIRESTEEL_CONF").arg("chaos").args(words);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().filter_map(|line| line.strip_prefix("RESULT ")).map(str::to_owned).collect()
}

/// An empty directory, as the test's name says.
fn directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("firesteel-{name}-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("own")).unwrap();
    directory
}

#[test]
fn every_job_computes_what_loops_compute_and_leaves_nothing() {
    let directory = directory("chaos-jobs");
    for job in ["wordcount", "terasort", "pagerank", "repartition", "iterate"] {
        let expected = answers(&directory, &["expect", job, "1", "."]);
        assert_eq!(expected.len(), 1);
        assert_eq!(answers(&directory, &["run", job, "1", ".", "own"]), expected);
        let left: Vec<_> = std::fs::read_dir(directory.join("own")).unwrap().collect();
        assert!(left.is_empty(), "{job} left {left:?}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_spoilt_answer_differs() {
    let directory = directory("chaos-spoilt");
    let expected = answers(&directory, &["expect", "repartition", "2", "."]);
    let spoilt = answers(&directory, &["run", "repartition", "2", ".", "own", "spoil"]);
    assert!(spoilt.len() == 2 && spoilt.is_superset(&expected), "{spoilt:?}, {expected:?}");
    std::fs::remove_dir_all(directory).unwrap();
}
