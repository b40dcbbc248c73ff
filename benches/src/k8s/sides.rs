//! How an application is submitted to the cluster, ours and Spark's, with the same pods: two executors of one core.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::{
    image,
    site::{IMAGE, Site, URL},
};
use crate::{
    process,
    spark::{Spark, remove_settings},
};

const LIMIT: Duration = Duration::from_secs(300);

/// One of the two.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side<'a> {
    Ours,
    Spark(&'a Spark),
}

impl Side<'_> {
    pub(super) fn namespace(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Spark(_) => "spark",
        }
    }

    /// Submits an application in cluster mode, and does not wait for its end.
    pub(super) fn submit(self, site: &Site, settings: &[String], words: &[&str]) -> Result<()> {
        let mut command = match self {
            Side::Ours => Command::new(&site.firesteel),
            Side::Spark(spark) => Command::new(spark.program("spark-submit")),
        };
        remove_settings(&mut command);
        match self {
            Side::Ours => {
                command.arg("submit");
            }
            Side::Spark(spark) => spark.prepare_command(&mut command),
        }
        command.args(["--master", &format!("k8s://{URL}"), "--deploy-mode", "cluster"]);
        command.args(["--name", "knock"]).env("KUBECONFIG", site.file("kubeconfig"));
        for setting in self.pods(site).iter().chain(settings) {
            command.args(["--conf", setting]);
        }
        match self {
            Side::Ours => {
                command.arg("local:///opt/app/firesteel-bench-app");
            }
            Side::Spark(_) => {
                command.args(["--class", "lab.Knock", "local:///opt/spark/lab.jar"]);
            }
        }
        process::run(command.args(words), LIMIT).map(drop)
    }

    fn pods(self, site: &Site) -> Vec<String> {
        let image = match self {
            Side::Ours => IMAGE,
            Side::Spark(_) => image::IMAGE,
        };
        let memory = match self {
            Side::Ours => "128m",
            Side::Spark(_) => "512m",
        };
        let authority = site.file("pki/ca.crt");
        let said = [
            ("spark.kubernetes.container.image", image),
            ("spark.kubernetes.container.image.pullPolicy", "Never"),
            ("spark.kubernetes.namespace", self.namespace()),
            ("spark.kubernetes.authenticate.submission.caCertFile", authority.as_str()),
            ("spark.kubernetes.authenticate.submission.oauthToken", "admin-token"),
            ("spark.kubernetes.authenticate.driver.serviceAccountName", "default"),
            // There is no DNS, and Spark's driver asks `kubernetes.default.svc` unless told otherwise. Ours takes no notice of it.
            ("spark.kubernetes.driver.master", URL),
            ("spark.kubernetes.driver.request.cores", "100m"),
            ("spark.kubernetes.executor.request.cores", "100m"),
            ("spark.kubernetes.submission.waitAppCompletion", "false"),
            ("spark.executor.instances", "2"),
            ("spark.executor.cores", "1"),
            ("spark.executor.memory", memory),
            ("spark.driver.memory", memory),
            ("spark.ui.enabled", "false"),
        ];
        said.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}
