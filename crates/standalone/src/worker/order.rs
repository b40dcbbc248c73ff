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
use firesteel_conf::process_variables;
use firesteel_standalone_core::description::{ApplicationDescription, DriverDescription};
use firesteel_standalone_core::{DriverId, ExecutorKey};

use super::directories::{Directories, Place};

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

    /// Makes its directories.
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

    /// Where its output can be read: in files of this machine.
    pub(super) fn log_urls(&self, host: &str, work: &Path) -> [(String, String); 2] {
        let work = absolute(work).unwrap_or_else(|_| work.to_owned());
        let prefix = match self {
            Order::Executor { .. } => process_variables::EXECUTOR_LOG_URL,
            Order::Driver { .. } => process_variables::DRIVER_LOG_URL,
        };
        ["stdout", "stderr"].map(|stream| {
            (format!("{prefix}{}", stream.to_uppercase()), file_url(host, &work.join(stream)))
        })
    }
}

/// The URL of a file of a machine.
fn file_url(host: &str, path: &Path) -> String {
    let mut url = format!("file://{host}");
    for &byte in path.as_os_str().as_bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        match is_plain {
            true => url.push(char::from(byte)),
            false => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_file_names_its_machine_and_has_nothing_in_it_that_means_something_else() {
        let path = Path::new("/srv/a work/app-1/0/stdout");
        assert_eq!(file_url("h", path), "file://h/srv/a%20work/app-1/0/stdout");
    }
}
