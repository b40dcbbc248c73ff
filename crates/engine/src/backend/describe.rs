//! What an application asks of its cluster manager: executors of this very executable, and what these are told.

use std::collections::BTreeMap;

use firesteel_backend::command::{Command, Served};
use firesteel_closure::ExecutableHash;
use firesteel_conf::{ByteSize, Conf, REDACTED, entries};
use firesteel_executor::child::ROLE;
use firesteel_executor::node::{DRIVER_URL, SETTINGS};
use firesteel_rpc::{RpcAddress, SECRET_VARIABLE, Secret};

use super::join::start_error;
use super::provider::ApplicationSpec;
use crate::start::user;
use crate::{Result, executable_name};

/// The environment variables of executors, under any cluster manager. Executors have no other settings: authentication,
/// encryption and ports are those of the driver, not those of the machine they run on.
pub fn executor_environment(
    conf: &Conf,
    driver: &RpcAddress,
    secret: Option<&Secret>,
) -> Result<BTreeMap<String, String>> {
    let mut environment = conf.executor_environment()?;
    environment.extend([
        (ROLE.to_owned(), "executor".to_owned()),
        (DRIVER_URL.to_owned(), driver.endpoint("driver").to_string()),
        (SETTINGS.to_owned(), without_secrets(conf).to_properties()),
    ]);
    if let Some(secret) = secret {
        environment.insert(SECRET_VARIABLE.to_owned(), secret.expose().to_owned());
    }
    Ok(environment)
}

/// What a provider has executors started for: processes of this very executable.
pub(super) fn describe(
    conf: Conf,
    driver: &RpcAddress,
    secret: Option<&Secret>,
    hash: ExecutableHash,
    served: Served,
) -> Result<ApplicationSpec> {
    let program = std::env::current_exe().map_err(|source| start_error("executors", source))?;
    Ok(ApplicationSpec {
        name: conf.get(&entries::APP_NAME)?.unwrap_or_else(executable_name),
        user: user(),
        command: Command {
            program: program.to_string_lossy().into_owned(),
            arguments: Vec::new(),
            environment: executor_environment(&conf, driver, secret)?,
            hash: Some(hash.bytes()),
            served: Some(served),
        },
        conf,
    })
}

/// The settings that executors read. They go through master and worker, so that everything which may not be
/// shown stays here: credentials of stores travel with the tasks that need them, and `spark.executorEnv.*` is among the
/// variables.
fn without_secrets(conf: &Conf) -> Conf {
    let hidden = conf.redacted().filter(|(_, value)| *value == REDACTED).map(|(key, _)| key);
    let always = [entries::AUTHENTICATE_SECRET.key(), entries::AUTHENTICATE_SECRET_FILE.key()];
    let hidden: Vec<String> = hidden.chain(always).map(str::to_owned).collect();
    let mut settings = conf.clone();
    for key in hidden {
        settings.remove(&key);
    }
    settings
}

/// For the warning that nothing of it can be had.
pub(super) fn wanted(conf: &Conf) -> Result<String> {
    let cores = conf.get(&entries::EXECUTOR_CORES)?.map_or_else(
        || "at least one core".to_owned(),
        |cores| format!("{cores} core(s) (spark.executor.cores)"),
    );
    let ByteSize(memory) = conf.get(&entries::EXECUTOR_MEMORY)?;
    let memory = (memory >> 20).max(1);
    Ok(format!("executors with {cores} and {memory} MiB (spark.executor.memory)"))
}

#[cfg(test)]
mod tests {
    use firesteel_backend::Address;
    use firesteel_types::Host;

    use super::*;

    #[test]
    fn executors_are_told_the_applications_secret_and_none_of_the_settings_that_may_not_be_shown() {
        let mut conf = Conf::new();
        for (key, value) in [
            ("spark.authenticate", "true"),
            ("spark.authenticate.secret", "of-the-cluster"),
            ("spark.authenticate.secret.file", "/etc/of-the-cluster"),
            ("spark.ssl.keyPassword", "of-the-cluster"),
            ("spark.hadoop.fs.s3a.secret.key", "of-the-cluster"),
            ("spark.mine.apiToken", "of-the-cluster"),
            ("spark.executor.cores", "3"),
            ("spark.executor.instances", "2"),
            ("spark.executorEnv.GREETING", "hello you"),
            ("spark.executorEnv.API_TOKEN", "for tasks"),
        ] {
            conf.set(key, value);
        }
        let address = Address { host: Host::new("h"), port: 1 };
        let served = Served { address, program_bytes: 1, files: Vec::new() };
        let hash = ExecutableHash::current().unwrap();
        let secret = Secret::generate();
        for redaction in [None, Some("nothing")] {
            if let Some(redaction) = redaction {
                conf.set("spark.redaction.regex", redaction);
                conf.remove("spark.ssl.keyPassword");
                conf.remove("spark.hadoop.fs.s3a.secret.key");
                conf.remove("spark.mine.apiToken");
            }
            let driver = RpcAddress::new("h", 1);
            let served = served.clone();
            let told = describe(conf.clone(), &driver, Some(&secret), hash, served).unwrap();
            let variables = &told.command.environment;
            assert_eq!(variables[SECRET_VARIABLE], secret.expose());
            assert_eq!(variables["GREETING"], "hello you");
            assert_eq!(variables["API_TOKEN"], "for tasks", "the user wants executors to know it");
            let all: String = variables.values().map(String::as_str).collect();
            assert!(!all.contains("of-the-cluster"), "{all}");
            assert!(
                all.contains("spark.executor.cores=3") && all.contains("spark.authenticate=true")
            );
            let shown = format!("{:?}", told.command);
            assert!(!shown.contains(secret.expose()) && !shown.contains("for tasks"), "{shown}");
        }
    }

    #[test]
    fn a_variable_that_executors_are_told_otherwise_is_refused() {
        let address = Address { host: Host::new("h"), port: 1 };
        for name in [ROLE, DRIVER_URL, SETTINGS, SECRET_VARIABLE] {
            let mut conf = Conf::new();
            conf.set(format!("spark.executorEnv.{name}"), "mine");
            let served = Served { address: address.clone(), program_bytes: 1, files: Vec::new() };
            let hash = ExecutableHash::current().unwrap();
            let error = describe(conf, &RpcAddress::new("h", 1), None, hash, served).err().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
