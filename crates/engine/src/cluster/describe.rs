//! What an application asks of a master: executors of this very executable, and what these are told.

use std::collections::BTreeMap;

use firesteel_closure::ExecutableHash;
use firesteel_cluster::description::{ApplicationDescription, Command, Served};
use firesteel_conf::{ByteSize, Conf, REDACTED, entries};
use firesteel_executor::child::ROLE;
use firesteel_executor::cluster::{DRIVER_URL, SETTINGS};
use firesteel_rpc::{RpcAddress, SECRET_VARIABLE, Secret};

use super::join::start_error;
use crate::{Result, executable_name};

/// What is asked of a master.
pub(super) fn describe(
    conf: &Conf,
    driver: &RpcAddress,
    secret: Option<Secret>,
    hash: ExecutableHash,
    served: Served,
) -> Result<ApplicationDescription> {
    let program = std::env::current_exe().map_err(|source| start_error("executors", source))?;
    let mut environment = BTreeMap::from([
        (ROLE.to_owned(), "executor".to_owned()),
        (DRIVER_URL.to_owned(), driver.endpoint("driver").to_string()),
        (SETTINGS.to_owned(), without_secrets(conf).to_properties()),
    ]);
    if let Some(secret) = secret {
        environment.insert(SECRET_VARIABLE.to_owned(), secret.expose().to_owned());
    }
    let ByteSize(memory) = conf.get(&entries::EXECUTOR_MEMORY)?;
    Ok(ApplicationDescription {
        name: conf.get(&entries::APP_NAME)?.unwrap_or_else(executable_name),
        user: std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()),
        max_cores: conf.get(&entries::CORES_MAX)?,
        memory_per_executor_mb: (memory >> 20).max(1),
        cores_per_executor: conf.get(&entries::EXECUTOR_CORES)?,
        initial_executor_limit: None,
        command: Command {
            program: program.to_string_lossy().into_owned(),
            arguments: Vec::new(),
            environment,
            hash: Some(hash.bytes()),
            served: Some(served),
        },
        web_ui: String::new(),
    })
}

/// The settings that executors read. They go through master and worker, so that everything which may not be
/// shown stays here: credentials of stores travel with the tasks that need them.
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
pub(super) fn wanted(description: &ApplicationDescription) -> String {
    let cores = description.cores_per_executor.map_or_else(
        || "at least one core".to_owned(),
        |cores| format!("{cores} core(s) (spark.executor.cores)"),
    );
    let memory = description.memory_per_executor_mb;
    format!("executors with {cores} and {memory} MiB (spark.executor.memory)")
}

#[cfg(test)]
mod tests {
    use firesteel_cluster::Address;
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
            let (secret, served) = (secret.clone(), served.clone());
            let told = describe(&conf, &driver, Some(secret.clone()), hash, served).unwrap();
            let variables = &told.command.environment;
            assert_eq!(variables[SECRET_VARIABLE], secret.expose());
            let all: String = variables.values().map(String::as_str).collect();
            assert!(!all.contains("of-the-cluster"), "{all}");
            assert!(
                all.contains("spark.executor.cores=3") && all.contains("spark.authenticate=true")
            );
            assert!(!format!("{told:?}").contains(secret.expose()));
        }
    }
}
