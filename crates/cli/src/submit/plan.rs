//! What `submit` will run, and with which settings: the flags, checked.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use firesteel_conf::{Conf, DeployMode, Origin, entries, shared_files};

use super::flags::SubmitFlags;
use crate::{Failure, daemons};

/// Ready to be carried out.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) executable: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) conf: Conf,
}

impl Plan {
    pub(super) fn new(flags: SubmitFlags) -> Result<Self, Failure> {
        let mut command = flags.command.clone().into_iter();
        let resource = command.next().ok_or(
            "there is no application: write firesteel submit [FLAGS] EXECUTABLE [ARGUMENTS]",
        )?;
        let executable = executable(&resource)?;
        let conf = settings(&flags, &executable)?;
        Ok(Self { executable, arguments: command.collect(), conf })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "executable: {}", self.executable.display())?;
        writeln!(f, "arguments: {:?}", self.arguments)?;
        self.conf.redacted().try_for_each(|(key, value)| writeln!(f, "{key}={value}"))
    }
}

/// Files, settings and variables first, the flags over them.
fn settings(flags: &SubmitFlags, executable: &Path) -> Result<Conf, Failure> {
    let mut conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    let files = flags.files.as_deref().map(absolute_files).transpose()?;
    for (flag, key, value) in [
        ("--master", entries::MASTER.key(), &flags.master),
        ("--deploy-mode", entries::SUBMIT_DEPLOY_MODE.key(), &flags.deploy_mode),
        ("--name", entries::APP_NAME.key(), &flags.name),
        ("--files", entries::FILES.key(), &files),
        ("--driver-memory", entries::DRIVER_MEMORY.key(), &flags.driver_memory),
        ("--executor-memory", entries::EXECUTOR_MEMORY.key(), &flags.executor_memory),
        ("--executor-cores", entries::EXECUTOR_CORES.key(), &flags.executor_cores),
        ("--total-executor-cores", entries::CORES_MAX.key(), &flags.total_executor_cores),
        ("--num-executors", entries::EXECUTOR_INSTANCES.key(), &flags.num_executors),
    ] {
        if let Some(value) = value {
            conf.insert(key, value, Origin::Flag { flag });
        }
    }
    if conf.get_raw(entries::MASTER.key()).is_none() {
        conf.set(entries::MASTER.key(), "local[*]");
    }
    if conf.get_raw(entries::APP_NAME.key()).is_none() {
        let name = executable.file_name().unwrap_or_default();
        conf.set(entries::APP_NAME.key(), name.to_string_lossy());
    }
    conf.validate()?;
    shared_files(&conf.get(&entries::FILES)?).map_err(|error| format!("spark.files {error}"))?;
    if conf.get(&entries::SUBMIT_DEPLOY_MODE)? == DeployMode::Cluster {
        return Err("submit runs drivers here only: leave --deploy-mode out, or write --deploy-mode client; a worker runs the \
                    driver if the master is asked over HTTP (port 6066, POST /v1/submissions/create)"
            .into());
    }
    Ok(conf)
}

/// The driver may run elsewhere than it was submitted: paths are made whole.
fn absolute_files(list: &str) -> Result<String, Failure> {
    let files: Vec<&str> = list.split(',').collect();
    let found = shared_files(&files).map_err(|error| format!("--files {error}"))?;
    let paths = found.iter().map(|file| file.path.to_string_lossy().into_owned());
    Ok(paths.collect::<Vec<_>>().join(","))
}

/// What of Spark's is not here, and what to do instead.
fn refusal(resource: &str) -> Option<String> {
    if let Some(flag) = resource.strip_prefix("--") {
        let flag = flag.split('=').next().unwrap_or_default();
        let instead = match flag {
            "class"
            | "jars"
            | "packages"
            | "repositories"
            | "exclude-packages"
            | "driver-class-path"
            | "driver-java-options"
            | "driver-library-path"
            | "py-files"
            | "archives" => {
                "an application is one executable with everything in it, and needs no such thing"
            }
            "kill" | "status" | "supervise" | "driver-cores" => {
                "it is for drivers that the cluster runs, which it cannot yet"
            }
            "queue" | "principal" | "keytab" | "proxy-user" => {
                "it is for YARN and Kerberos, which are not supported"
            }
            _ => "see firesteel submit --help; flags of the application come after its executable",
        };
        return Some(format!("--{flag} is not a flag of submit: {instead}"));
    }
    if resource.starts_with('-') {
        let see = "see firesteel submit --help";
        return Some(format!("{resource} is not a flag of submit: {see}"));
    }
    let extension = Path::new(resource).extension()?.to_str()?.to_ascii_lowercase();
    let what = match extension.as_str() {
        "py" => "Python programs",
        "r" => "R programs",
        "sql" => "files of SQL",
        "jar" => "programs of the JVM",
        _ => return None,
    };
    Some(format!(
        "{resource}: {what} cannot be submitted; what can be is an executable that uses the firesteel crate, such as \
         target/release/myapp"
    ))
}

fn executable(resource: &str) -> Result<PathBuf, Failure> {
    if let Some(refusal) = refusal(resource) {
        return Err(refusal.into());
    }
    if let Some((scheme, _)) = resource.split_once("://").filter(|(scheme, _)| *scheme != "file") {
        return Err(format!(
            "{resource}: an executable cannot be fetched by {scheme}: copy it here and give its path"
        )
        .into());
    }
    let path = Path::new(resource.strip_prefix("file://").unwrap_or(resource));
    let about = std::fs::metadata(path).map_err(|error| {
        format!("there is no executable {resource}: {error}; build it with cargo build --release")
    })?;
    if !about.is_file() {
        return Err(format!("{resource} is not an executable: give the path of a file").into());
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err(format!("{resource} may not be executed: chmod +x it").into());
    }
    Ok(std::path::absolute(path)?)
}
