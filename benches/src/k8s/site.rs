//! The cluster of `./test k8s`, for as long as this value lives: two nodes on this machine, with our application's image on both.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    cluster::{site::Programs, wait::until},
    process,
};

pub(super) const URL: &str = "https://10.177.0.1";
/// Where pods reach this machine.
pub(super) const HOST: &str = "10.177.0.1";
pub(super) const IMAGE: &str = "localhost/bench:1";
/// The user whose requests the API server writes down, with all rights.
pub(super) const COUNTED: &str = "bench-token";

const SCRIPT: &str = "deploy/test-cluster/cluster";
/// The server programs are built once, which takes long.
const BUILD: Duration = Duration::from_secs(3600);
const REQUEST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Site {
    pub(super) firesteel: PathBuf,
    pub(super) app: PathBuf,
    directory: PathBuf,
    script: Child,
}

impl Site {
    pub(super) fn start(programs: &Programs) -> Result<Self> {
        let needs = Command::new(SCRIPT).arg("needs").output().context(SCRIPT)?;
        let missing = String::from_utf8_lossy(&needs.stdout).trim().replace('\n', "; ");
        ensure!(needs.status.success(), "there can be no cluster here: {missing}");
        process::run(Command::new(SCRIPT).arg("build"), BUILD)?;
        let directory = std::env::temp_dir().join(format!("fsk-{}", std::process::id()));
        let mut command = Command::new(SCRIPT);
        command.arg("run").arg(&directory).arg(&programs.firesteel);
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = script.stdout.take().context("its output is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let (firesteel, app) = (programs.firesteel.clone(), programs.app.clone());
        let site = Site { firesteel, app, directory, script };
        ensure!(line.trim() == "ready", "no cluster came up: see {}", site.directory.display());
        site.pack(&[], &programs.app, IMAGE)?;
        Ok(site)
    }

    /// Packs a program with files into an image, and has both nodes know it.
    pub(super) fn pack(&self, files: &[String], program: &Path, tag: &str) -> Result<()> {
        let archive =
            self.directory.join("images").join(format!("{}.tar", tag.replace(['/', ':'], "-")));
        let mut pack = Command::new(&self.firesteel);
        pack.args(["image", "--tag", tag, "--app"]).arg(program).arg("--output").arg(&archive);
        for file in files {
            pack.args(["--file", file]);
        }
        process::run(&mut pack, 10 * REQUEST)?;
        let mut load = Command::new(SCRIPT);
        load.arg("load").arg(&self.directory).arg(&archive);
        process::run(&mut load, 20 * REQUEST)?;
        fs::remove_file(&archive).context("the archive of an image")
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// A request, as somebody with all rights.
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut command = Command::new("curl");
        command.args(["-sS", "-X", method, "--cacert", &self.file("pki/ca.crt")]);
        command.args(["-H", "Authorization: Bearer admin-token"]);
        if let Some(body) = body {
            command.args(["-H", "Content-Type: application/json"]);
            command.args(["--data-binary", &body.to_string()]);
        }
        let answer = process::run(command.arg(format!("{URL}{path}")), REQUEST)?.stdout;
        granted(&answer).with_context(|| format!("{method} {path}: {answer}"))
    }

    /// A namespace whose pods may do anything in it.
    pub(super) fn namespace(&self, name: &str) -> Result<()> {
        self.ask("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": name}})))?;
        let subject = json!({"kind": "ServiceAccount", "name": "default", "namespace": name});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"});
        let binding = json!({"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]});
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/rolebindings");
        self.ask("POST", &path, Some(&binding))?;
        until("the namespace's account", REQUEST, || {
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
            let found = self.ask("GET", &path, None).ok()?;
            (found["kind"] == "ServiceAccount").then_some(())
        })
    }

    /// Names of executors' pods that run.
    pub(super) fn executors(&self, namespace: &str) -> Result<Vec<String>> {
        let path =
            format!("/api/v1/namespaces/{namespace}/pods?labelSelector=spark-role%3Dexecutor");
        let list = self.ask("GET", &path, None)?;
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running";
        let pods = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = pods.iter().filter(runs).filter_map(|pod| pod["metadata"]["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// Ends every pod of a namespace, and waits until it has none.
    pub(super) fn clear(&self, namespace: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        until("the end of all pods", 3 * REQUEST, || {
            let _ = self.ask("DELETE", &format!("{path}?gracePeriodSeconds=0"), None);
            let list = self.ask("GET", &format!("{path}?limit=1"), None).ok()?;
            list["items"].as_array()?.is_empty().then_some(())
        })
    }
}

/// What was asked for, unless the answer is a refusal: `curl` takes one for an answer as good as any.
fn granted(answer: &str) -> Result<Value> {
    let answer: Value = serde_json::from_str(answer).context("the answer cannot be read")?;
    let refused = answer["kind"] == "Status" && answer["status"] == "Failure";
    ensure!(!refused, "the API server says no");
    Ok(answer)
}

impl Drop for Site {
    fn drop(&mut self) {
        // The script ends the cluster when its input does.
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::granted;

    #[test]
    fn a_request_that_is_refused_has_failed() {
        assert!(granted(r#"{"kind":"Status","status":"Failure","code":403}"#).is_err());
        assert!(granted("<html>").is_err());
        for granted_one in
            [r#"{"kind":"Status","status":"Success"}"#, r#"{"kind":"Pod","status":{}}"#]
        {
            assert!(granted(granted_one).is_ok(), "{granted_one}");
        }
    }
}
