//! What `submit` will run, and with which settings: the flags, checked.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use firesteel_conf::{
    Conf, DeployMode, FileSource, HostPort, Master, Origin, SharedFile, entries, shared_file,
    shared_files, url_scheme,
};
use firesteel_rpc::RpcAddress;

use super::flags::SubmitFlags;
use super::kubernetes::Request;
use crate::{Failure, daemons};

/// What is to be done, ready to be carried out.
#[derive(Debug)]
pub(super) enum Action {
    /// Client mode.
    RunHere(Application),
    /// Cluster mode.
    RunThere(Cluster, Application),
    Kill(Cluster, String),
    Status(Cluster, String),
    /// The same on Kubernetes.
    OnKubernetes(Request),
}

#[derive(Debug)]
pub(super) struct Application {
    pub(super) executable: Place,
    pub(super) arguments: Vec<String>,
    /// Its settings; in cluster mode without the files that are here.
    pub(super) conf: Conf,
    /// Files that the driver gets from here; in cluster mode only.
    pub(super) files: Files,
}

/// Files with the names under which they are to be found.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Those of this machine.
    pub(super) here: Vec<(String, PathBuf)>,
    /// Those behind URLs, which are not downloaded yet.
    pub(super) remote: Vec<(String, String)>,
}

/// Where a file is.
#[derive(Debug)]
pub(super) enum Place {
    Here(PathBuf),
    /// On every worker, under the same path.
    OnWorkers(PathBuf),
    /// Behind a URL, and not downloaded yet.
    Remote {
        url: String,
        /// What it is called when it is.
        name: PathBuf,
    },
}

impl Place {
    /// Where it is, or what it will be called.
    pub(super) fn path(&self) -> &Path {
        match self {
            Place::Here(path) | Place::OnWorkers(path) | Place::Remote { name: path, .. } => path,
        }
    }
}

/// The masters to ask, and what is to be known for that.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(super) masters: Vec<RpcAddress>,
    pub(super) conf: Conf,
}

impl Action {
    pub(super) fn new(flags: SubmitFlags) -> Result<Self, Failure> {
        match (&flags.kill, &flags.status) {
            (Some(_), Some(_)) => Err("write --kill or --status, not both".into()),
            (Some(id), None) => {
                let conf = asked("--kill", &flags)?;
                Ok(match Request::kill(&conf, id)? {
                    Some(request) => Action::OnKubernetes(request),
                    None => Action::Kill(asked_cluster("--kill", &conf)?, id.clone()),
                })
            }
            (None, Some(id)) => {
                let conf = asked("--status", &flags)?;
                Ok(match Request::status(&conf, id)? {
                    Some(request) => Action::OnKubernetes(request),
                    None => Action::Status(asked_cluster("--status", &conf)?, id.clone()),
                })
            }
            (None, None) => run(flags),
        }
    }

    pub(super) fn conf(&self) -> &Conf {
        match self {
            Action::RunHere(application) | Action::RunThere(_, application) => &application.conf,
            Action::Kill(cluster, _) | Action::Status(cluster, _) => &cluster.conf,
            Action::OnKubernetes(request) => request.conf(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Action::RunHere(application) | Action::RunThere(_, application) = self {
            writeln!(f, "executable: {}", application.executable.path().display())?;
            writeln!(f, "arguments: {:?}", application.arguments)?;
        }
        self.conf().redacted().try_for_each(|(key, value)| writeln!(f, "{key}={value}"))
    }
}

/// The settings with which a driver is asked about.
fn asked(flag: &str, flags: &SubmitFlags) -> Result<Conf, Failure> {
    if let Some(resource) = flags.command.first() {
        return Err(match refusal(resource) {
            Some(refusal) => refusal.into(),
            None => {
                format!("{flag} takes the id of a driver and runs nothing: leave {resource} out")
                    .into()
            }
        });
    }
    let mut conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    if let Some(master) = &flags.master {
        conf.insert(entries::MASTER.key(), master, Origin::Flag { flag: "--master" });
    }
    conf.validate()?;
    Ok(conf)
}

/// The cluster of a driver that is asked about.
fn asked_cluster(flag: &str, conf: &Conf) -> Result<Cluster, Failure> {
    let instead = format!(
        "{flag} asks the master of a standalone cluster, or Kubernetes: write --master \
         k8s://https://host:6443 or --master spark://host:6066"
    );
    cluster(conf, &instead)
}

/// The masters of the settings, which have to be of a standalone cluster.
pub(crate) fn cluster(conf: &Conf, instead: &str) -> Result<Cluster, Failure> {
    let text = conf.get_raw(entries::MASTER.key()).ok_or(instead)?;
    let Master::Standalone { masters } = text.parse()? else {
        return Err(format!("{instead}, not {text}").into());
    };
    let address = |HostPort { host, port }: HostPort| {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        RpcAddress::new(bare.unwrap_or(&host), port)
    };
    let masters = masters.into_iter().map(address).collect();
    Ok(Cluster { masters, conf: conf.clone() })
}

fn run(flags: SubmitFlags) -> Result<Action, Failure> {
    let mut command = flags.command.clone().into_iter();
    let resource = command
        .next()
        .ok_or("there is no application: write firesteel submit [FLAGS] EXECUTABLE [ARGUMENTS]")?;
    let executable = executable(&resource)?;
    let mut conf = settings(&flags, executable.path())?;
    let arguments = command.collect();
    if conf.get(&entries::SUBMIT_DEPLOY_MODE)? == DeployMode::Cluster {
        if matches!(conf.get(&entries::MASTER)?, Some(Master::Kubernetes { .. })) {
            return Ok(Action::OnKubernetes(Request::submit(&conf, executable, arguments)?));
        }
        let instead = "--deploy-mode cluster has a worker of a standalone cluster or a pod run the driver: write --master \
                       k8s://https://host:6443 or --master spark://host:6066";
        let cluster = cluster(&conf, instead)?;
        let files = files_to_upload(&mut conf)?;
        return Ok(Action::RunThere(cluster, Application { executable, arguments, conf, files }));
    }
    for (flag, given) in
        [("--supervise", flags.supervise), ("--driver-cores", flags.driver_cores.is_some())]
    {
        if given {
            return Err(format!("{flag} is for drivers that the cluster runs: write --deploy-mode cluster too, or leave {flag} out").into());
        }
    }
    check_is_here(&executable)?;
    shared_files(&conf.get(&entries::FILES)?).map_err(|error| format!("spark.files {error}"))?;
    Ok(Action::RunHere(Application { executable, arguments, conf, files: Files::default() }))
}

/// In client mode nothing is fetched: this process becomes the driver.
fn check_is_here(executable: &Place) -> Result<(), Failure> {
    match executable {
        Place::Here(_) => Ok(()),
        Place::OnWorkers(path) => {
            let path = path.display();
            Err(format!(
                "local:{path} is on the workers, and this driver runs here: write {path}, or --deploy-mode cluster"
            )
            .into())
        }
        Place::Remote { url, .. } => Err(format!(
            "{} is elsewhere, and this driver runs here: copy it here and give its path, or write --deploy-mode cluster",
            FileSource::Url(url.clone())
        )
        .into()),
    }
}

/// Files, settings and variables first, the flags over them.
fn settings(flags: &SubmitFlags, executable: &Path) -> Result<Conf, Failure> {
    let mut conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    let files = flags.files.as_deref().map(absolute_files).transpose()?;
    let supervise = flags.supervise.then(|| "true".to_owned());
    for (flag, key, value) in [
        ("--master", entries::MASTER.key(), &flags.master),
        ("--deploy-mode", entries::SUBMIT_DEPLOY_MODE.key(), &flags.deploy_mode),
        ("--name", entries::APP_NAME.key(), &flags.name),
        ("--files", entries::FILES.key(), &files),
        ("--driver-memory", entries::DRIVER_MEMORY.key(), &flags.driver_memory),
        ("--driver-cores", entries::DRIVER_CORES.key(), &flags.driver_cores),
        ("--supervise", entries::DRIVER_SUPERVISE.key(), &supervise),
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
    Ok(conf)
}

/// The path of a file that every worker has.
fn on_workers(resource: &str) -> Option<&str> {
    let path = resource.trim().strip_prefix("local:")?;
    Some(path.strip_prefix("//").unwrap_or(path))
}

/// The driver may run elsewhere than it was submitted: paths are made whole.
fn absolute_files(list: &str) -> Result<String, Failure> {
    let (there, here): (Vec<&str>, Vec<&str>) =
        list.split(',').partition(|file| on_workers(file).is_some());
    let found = shared_files(&here).map_err(|error| format!("--files {error}"))?;
    let whole = found.into_iter().map(|file| match file.source {
        FileSource::Local(path) => path.to_string_lossy().into_owned(),
        FileSource::Url(url) => url,
    });
    Ok(there.into_iter().map(str::to_owned).chain(whole).collect::<Vec<_>>().join(","))
}

/// Takes the files that are here or behind URLs out of the settings. Those that the workers have stay in, by their paths.
pub(super) fn files_to_upload(conf: &mut Conf) -> Result<Files, Failure> {
    let all = conf.get(&entries::FILES)?;
    let (there, here): (Vec<_>, Vec<_>) = all.iter().partition(|file| on_workers(file).is_some());
    let found = shared_files(&here).map_err(|error| format!("spark.files {error}"))?;
    if let Some(file) = found.iter().find(|file| file.name.contains(',')) {
        return Err(format!("spark.files {}: rename it, a name has no comma", file.name).into());
    }
    conf.remove(entries::FILES.key());
    let there: Vec<&str> = there.iter().filter_map(|file| on_workers(file)).collect();
    if !there.is_empty() {
        conf.set(entries::FILES.key(), there.join(","));
    }
    let mut files = Files::default();
    for SharedFile { name, source } in found {
        match source {
            FileSource::Local(path) => files.here.push((name, path)),
            FileSource::Url(url) => files.remote.push((name, url)),
        }
    }
    Ok(files)
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

fn executable(resource: &str) -> Result<Place, Failure> {
    if let Some(refusal) = refusal(resource) {
        return Err(refusal.into());
    }
    if let Some(path) = on_workers(resource) {
        return match path.starts_with('/') {
            true => Ok(Place::OnWorkers(path.into())),
            false => {
                Err(format!("{resource}: write the whole path, such as local:///opt/app").into())
            }
        };
    }
    if url_scheme(resource).is_some_and(|scheme| !scheme.eq_ignore_ascii_case("file")) {
        let SharedFile { name, .. } = shared_file(resource)?;
        return Ok(Place::Remote { url: resource.to_owned(), name: name.into() });
    }
    let path = resource.strip_prefix("file:").unwrap_or(resource);
    let path = Path::new(path.strip_prefix("//").unwrap_or(path));
    let about = std::fs::metadata(path).map_err(|error| {
        format!("there is no executable {resource}: {error}; build it with cargo build --release")
    })?;
    if !about.is_file() {
        return Err(format!("{resource} is not an executable: give the path of a file").into());
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err(format!("{resource} may not be executed: chmod +x it").into());
    }
    Ok(Place::Here(std::path::absolute(path)?))
}
