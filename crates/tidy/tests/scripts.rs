//! What the workspace's scripts say by their exit codes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Programs that stand in for others: each prints a line and ends with a code.
fn stand_in(directory: &Path, programs: &[(&str, &str, u8)]) {
    std::fs::create_dir_all(directory).unwrap();
    for (name, line, code) in programs {
        let path = directory.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho {line}\nexit {code}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn who_asks_for_a_cluster_where_none_can_run_is_told_so_by_the_exit_code() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scripts");
    // Nobody in particular, without network namespaces; what needs no cluster passes.
    stand_in(&directory, &[("id", "1000", 0), ("ip", "", 1), ("cargo", "", 0)]);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test");
    let output = Command::new(script).arg("k8s").env("PATH", path).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("NOT RUN  kubernetes") && told.contains("root: run it as root"),
        "{told}"
    );
    assert!(told.contains("ok       kubernetes, without a cluster"), "{told}");
}
