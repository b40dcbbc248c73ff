//! What a worker is told to start, as a process needs it: arguments, variables, directory.
//!
//! The worker's own secret is taken out of what its processes inherit: they are given the one of their
//! application.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, absolute};
use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_backend::command::{Command, Identity, variable};
use firesteel_conf::{Redaction, process_variables, url_scheme};
use firesteel_standalone_core::description::{ApplicationDescription, DriverDescription};
use firesteel_standalone_core::{DriverId, ExecutorKey};

use super::directories::{Directories, Place};
use super::log_page;
use crate::web::encoded;

/// Variables of the worker's own that are not for its processes.
pub(super) const NOT_INHERITED: [&str; 6] = [
    "_SPARK_AUTH_SECRET",
    "FIRESTEEL_CONF",
    "FIRESTEEL_ROLE",
    "FIRESTEEL_DRIVER_URL",
    "MASTER",
    "SPARK_MASTER",
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProcessKey {
    Executor(ExecutorKey),
    Driver(DriverId),
}

/// What is to be started.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Executor {
        key: ExecutorKey,
        description: Arc<ApplicationDescription>,
        cores: u32,
        memory_mb: u64,
        /// Workers that may serve what it needs.
        peers: Vec<Address>,
    },
    Driver {
        driver: DriverId,
        description: Arc<DriverDescription>,
    },
}

impl Order {
    /// It is started again when it fails, here or elsewhere.
    pub(super) fn is_supervised(&self) -> bool {
        matches!(self, Order::Driver { description, .. } if description.supervise)
    }

    /// Its executable has to be fetched first. Of executors it never is: their driver serves it.
    pub(super) fn is_behind_url(&self) -> bool {
        let url = url_scheme(&self.command().program);
        matches!(self, Order::Driver { .. }) && url.is_some()
    }

    pub(super) fn key(&self) -> ProcessKey {
        match self {
            Order::Executor { key, .. } => ProcessKey::Executor(key.clone()),
            Order::Driver { driver, .. } => ProcessKey::Driver(driver.clone()),
        }
    }

    pub(super) fn command(&self) -> &Command {
        match self {
            Order::Executor { description, .. } => &description.command,
            Order::Driver { description, .. } => &description.command,
        }
    }

    /// Its application, and workers that may have what it needs for that.
    pub(super) fn peers(&self) -> Option<(&str, &[Address])> {
        match self {
            Order::Executor { key, peers, .. } => Some((&key.app.0, peers)),
            Order::Driver { .. } => None,
        }
    }

    pub(super) fn place(&self, directories: &Directories) -> io::Result<Place> {
        match self {
            Order::Executor { key, .. } => directories.for_executor(key),
            Order::Driver { driver, .. } => directories.for_driver(driver),
        }
    }

    /// What its process is told in variables, the worker's word last.
    pub(super) fn environment(
        &self,
        place: &Place,
        (host, bind): (&str, Option<&str>),
        worker_url: &str,
    ) -> BTreeMap<String, String> {
        let local = place.local.iter().map(|path| path.to_string_lossy());
        let mut told = vec![
            (variable::WORKER_URL, worker_url.to_owned()),
            ("SPARK_LOCAL_DIRS", local.collect::<Vec<_>>().join(",")),
        ];
        match self {
            Order::Executor { key, cores, memory_mb, .. } => {
                let identity = Identity {
                    app: key.app.clone(),
                    executor: key.executor,
                    host: host.to_owned(),
                    cores: *cores,
                    memory_mb: *memory_mb,
                };
                told.extend(identity.variables());
                told.extend(bind.map(|bind| (variable::BIND_ADDRESS, bind.to_owned())));
            }
            Order::Driver { driver, .. } => told.extend([
                ("FIRESTEEL_DRIVER_ID", driver.to_string()),
                ("FIRESTEEL_DRIVER_HOST", host.to_owned()),
            ]),
        }
        let mut environment = self.command().environment.clone();
        environment.extend(told.into_iter().map(|(name, value)| (name.to_owned(), value)));
        environment
    }

    /// Where its output can be read: at the worker's port, or, without one, in files of this machine.
    pub(super) fn log_urls(
        &self,
        (host, web): (&str, Option<&str>),
        work: &Path,
    ) -> [(String, String); 2] {
        let work = absolute(work).unwrap_or_else(|_| work.to_owned());
        let url = |stream: &str| match web {
            Some(web) => format!("{web}{}", log_page::location(&self.key(), stream)),
            None => file_url(host, &work.join(stream)),
        };
        let prefix = match self {
            Order::Executor { .. } => process_variables::EXECUTOR_LOG_URL,
            Order::Driver { .. } => process_variables::DRIVER_LOG_URL,
        };
        log_page::STREAMS.map(|stream| (format!("{prefix}{}", stream.to_uppercase()), url(stream)))
    }

    /// What its output on standard error begins with, as Spark has it: the command, without secrets and without variables.
    pub(super) fn header(&self, program: &Path, secrets: &Redaction) -> String {
        let what = match self {
            Order::Executor { .. } => "Spark Executor Command",
            Order::Driver { .. } => "Launch Command",
        };
        let program = program.to_string_lossy().into_owned();
        let command = std::iter::once(program).chain(shown(&self.command().arguments, secrets));
        let command: Vec<String> = command.map(|part| format!("\"{part}\"")).collect();
        format!("{what}: {}\n{}\n\n", command.join(" "), "=".repeat(40))
    }
}

/// Arguments without secrets: of `name=value` the value, of `--name value` what follows, if the name or the value looks like one.
fn shown(arguments: &[String], secrets: &Redaction) -> Vec<String> {
    let before = std::iter::once("").chain(arguments.iter().map(String::as_str));
    let one = |(before, argument): (&str, &String)| {
        // A line of its own would look as if the process had printed it.
        let argument = argument.replace(['\n', '\r'], " ");
        match argument.split_once('=') {
            Some((name, value)) => format!("{name}={}", secrets.apply(name, value)),
            None if argument.starts_with('-') => argument,
            None => {
                let name = if before.starts_with('-') { before } else { "" };
                secrets.apply(name, &argument).to_owned()
            }
        }
    };
    before.zip(arguments).map(one).collect()
}

/// The URL of a file of a machine.
fn file_url(host: &str, path: &Path) -> String {
    format!("file://{host}{}", encoded(path.as_os_str().as_bytes(), "/"))
}

#[cfg(test)]
mod tests {
    use firesteel_conf::{Conf, entries};

    use super::*;

    #[test]
    fn the_command_is_told_without_its_secrets() {
        let secrets = Conf::default().get(&entries::REDACTION_REGEX).unwrap();
        let arguments = [
            "--conf",
            "spark.my.password=hunter2",
            "--api-token",
            "abc",
            "input.txt",
            "two\nlines",
            "spark.ui.port=1",
        ];
        let arguments = arguments.map(str::to_owned);
        let expected = [
            "--conf",
            "spark.my.password=*********(redacted)",
            "--api-token",
            "*********(redacted)",
            "input.txt",
            "two lines",
            "spark.ui.port=1",
        ];
        assert_eq!(shown(&arguments, &secrets), expected);
    }

    #[test]
    fn the_url_of_a_file_names_its_machine_and_has_nothing_in_it_that_means_something_else() {
        let path = Path::new("/srv/a work/app-1/0/stdout");
        assert_eq!(file_url("h", path), "file://h/srv/a%20work/app-1/0/stdout");
    }
}
