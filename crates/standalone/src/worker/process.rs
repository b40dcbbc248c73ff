//! One child process from its start to its end, with everything it started.
//!
//! A process is a group of its own. Told to end, the group gets SIGTERM, with SIGCONT so that one that is
//! stopped hears it, and, when the time is over, SIGKILL; whatever the first process leaves behind in its
//! group is killed after it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use firesteel_backend::blame::ExitStatus;
use firesteel_conf::Redaction;
use firesteel_rpc::{Keyring, RpcAddress, SECRET_VARIABLE};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::args::Launcher;
use super::cache::{Cache, FetchError};
use super::directories::Directories;
use super::logs::{self, Output};
use super::order::{NOT_INHERITED, Order};
use super::prepare::{Prepared, Progress};
use super::reaper::Reaper;
use crate::executable::{ExecutableError, Hashes};

/// The role of the program that a launcher becomes. The launcher may contain an executor itself, and is none.
pub const LAUNCHED_ROLE: &str = "FIRESTEEL_LAUNCHED_ROLE";

/// How often, and after which time, to try again a program that is still open for writing.
const BUSY_TRIES: u32 = 100;
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    #[error(transparent)]
    Executable(#[from] ExecutableError),
    #[error("{here}; and it could not be fetched: {source}")]
    Program { here: ExecutableError, source: Arc<FetchError> },
    #[error("its executable could not be fetched: {reason}")]
    Download { reason: String, may_pass: bool },
    #[error("its executable could not be kept: {0}")]
    Keep(#[source] FetchError),
    #[error("its file {name} could not be fetched: {source}")]
    File { name: String, source: Arc<FetchError> },
    #[error("could not put its file {name} into its work directory: {source}")]
    CopyFile { name: String, source: io::Error },
    #[error("could not make a directory to work in: {0}")]
    Directory(#[source] io::Error),
    #[error("could not open the files of its output in {directory}: {source}")]
    Output { directory: String, source: io::Error },
    #[error("could not run {program}: {source}")]
    Spawn { program: String, source: io::Error },
    #[error("the worker ends")]
    Ending,
}

impl LaunchError {
    /// Whether trying again may help: those who have what it needs did not give it just now.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            LaunchError::Program { source, .. } | LaunchError::File { source, .. } => {
                source.may_pass()
            }
            LaunchError::Download { may_pass, .. } => *may_pass,
            _ => false,
        }
    }
}

/// What all processes of a worker have in common.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) cache: Arc<Cache>,
    pub(super) directories: Directories,
    pub(super) hashes: Hashes,
    pub(super) launcher: Option<Launcher>,
    pub(super) reaper: Option<Reaper>,
    pub(super) output: Output,
    pub(super) grace: Duration,
    /// The host that executors are told is theirs.
    pub(super) host: String,
    /// Where they listen, if that is another.
    pub(super) bind: Option<String>,
    /// The worker's own name.
    pub(super) url: String,
    /// Its masters, which keep what was uploaded for drivers.
    pub(super) masters: Vec<RpcAddress>,
    /// Where its pages are, if it has some.
    pub(super) web: Option<String>,
    /// What is not shown of commands.
    pub(super) secrets: Redaction,
    /// Who may dial the worker, if they have to prove it.
    pub(super) keyring: Option<Keyring>,
    /// What the worker waits for before it ends.
    pub(super) tasks: TaskTracker,
}

impl Launch {
    /// Runs a process until it ends or `kill` is cancelled.
    pub(super) async fn run(
        self: Arc<Self>,
        order: Order,
        kill: CancellationToken,
        progress: &Progress,
    ) -> Result<ExitStatus, LaunchError> {
        let stopped = Ok(ExitStatus::Signal(Signal::TERM.as_raw()));
        let order = Arc::new(order);
        let checked = tokio::select! {
            checked = self.check(&order) => checked?,
            () = kill.cancelled() => return stopped,
        };
        if kill.is_cancelled() {
            return stopped;
        }
        // To its end, once begun: no directory is made after the end of this process was told.
        let place = self.place(&order).await?;
        let prepared = tokio::select! {
            prepared = self.prepare(&order, checked, place, progress) => prepared?,
            () = kill.cancelled() => return stopped,
        };
        if kill.is_cancelled() {
            return stopped;
        }
        let child = self.spawn(&order, &prepared).await?;
        Ok(self.watch(child, kill, order.is_supervised()).await)
    }

    async fn spawn(&self, order: &Order, prepared: &Prepared) -> Result<Child, LaunchError> {
        let (told, place) = (order.command(), &prepared.place);
        let mut command = self.command(prepared.program(told));
        command.args(&told.arguments);
        let sink = |stream: &str| {
            let directory = || place.work.display().to_string();
            let failed = |source| LaunchError::Output { directory: directory(), source };
            let header = match stream {
                "stderr" => order.header(prepared.program(told), &self.secrets),
                _ => String::new(),
            };
            logs::sink(&place.work, stream, self.output, &header).map_err(failed)
        };
        let mut variables = order.environment(place, (&self.host, self.bind.as_deref()), &self.url);
        if self.launcher.is_some()
            && let Some(role) = variables.remove("FIRESTEEL_ROLE")
        {
            variables.insert(LAUNCHED_ROLE.to_owned(), role);
        }
        command
            .envs(variables)
            .envs(self.log_urls(order, &place.work))
            .envs(self.secret_of(order))
            .current_dir(&place.work)
            .stdin(Stdio::null())
            .stdout(sink("stdout")?)
            .stderr(sink("stderr")?)
            .process_group(0)
            .kill_on_drop(true);
        let program = prepared.program(told).display().to_string();
        let failed = |source| LaunchError::Spawn { program, source };
        spawn_when_idle(&mut command).await.map_err(failed)
    }

    /// A driver of the cluster joins it as an application; executors are given the secret of theirs.
    fn secret_of(&self, order: &Order) -> Option<(&'static str, String)> {
        let is_driver = matches!(order, Order::Driver { .. });
        self.secret().filter(|_| is_driver).map(|secret| (SECRET_VARIABLE, secret))
    }

    /// Where its output can be read, if that is in files.
    fn log_urls(&self, order: &Order, work: &Path) -> Vec<(String, String)> {
        match self.output {
            Output::Inherited => Vec::new(),
            Output::Files | Output::RollingFiles(_) => {
                order.log_urls((&self.host, self.web.as_deref()), work).into()
            }
        }
    }

    /// A process that ends with this one, where there is a launcher. It is told nothing that is the worker's own.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = match &self.launcher {
            Some(launcher) => {
                let mut command = Command::new(&launcher.program);
                command.args(&launcher.launch).arg(std::process::id().to_string());
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        for variable in NOT_INHERITED {
            command.env_remove(variable);
        }
        command
    }

    async fn watch(&self, mut child: Child, kill: CancellationToken, guarded: bool) -> ExitStatus {
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        let kept = self.reaper.as_ref().zip(group);
        kept.inspect(|(reaper, group)| reaper.began(*group));
        kept.filter(|_| guarded).inspect(|(reaper, group)| reaper.guard(*group));
        tokio::select! {
            _ = child.wait() => {}
            () = kill.cancelled() => {
                signal(group, Signal::TERM);
                signal(group, Signal::CONT);
                if timeout(self.grace, child.wait()).await.is_err() {
                    signal(group, Signal::KILL);
                }
            }
        }
        let status = child.wait().await; // once known, it is only repeated
        // Its number is not given out again while anything is left of the group.
        signal(group, Signal::KILL);
        kept.inspect(|(reaper, group)| reaper.ended(*group));
        match status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, signal) => ExitStatus::Signal(signal.unwrap_or_default()),
            },
            Err(error) => {
                tracing::error!(%error, "could not learn how a process ended");
                ExitStatus::Code(-1)
            }
        }
    }
}

/// A program that was just written cannot be run while a process that is being started has inherited the
/// open file, which is not for long.
async fn spawn_when_idle(command: &mut Command) -> io::Result<Child> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                tokio::time::sleep(BUSY_WAIT).await;
            }
            spawned => return spawned,
        }
    }
    command.spawn()
}

/// Nobody left in the group is no mistake.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use firesteel_backend::AppId;
    use firesteel_backend::command::Command as Told;
    use firesteel_rpc::RpcOptions;
    use firesteel_standalone_core::ExecutorKey;
    use firesteel_standalone_core::description::ApplicationDescription;
    use firesteel_standalone_core::worker::DownloadOptions;
    use firesteel_types::ExecutorId;

    use super::super::cache::CacheOptions;
    use super::*;

    /// A worker below this directory.
    pub(in super::super) fn launch(root: &Path) -> Arc<Launch> {
        let directories = Directories::make(&root.join("work"), &[root.join("local")]).unwrap();
        let (download, rpc) = (DownloadOptions::default(), RpcOptions::default());
        let cache = CacheOptions { max_bytes: 1 << 20, max_downloads: 1, download, rpc };
        let tasks = TaskTracker::new();
        Arc::new(Launch {
            cache: Arc::new(Cache::new(directories.cache(), cache, tasks.clone())),
            directories,
            hashes: Hashes::default(),
            launcher: None,
            reaper: None,
            output: Output::Files,
            grace: Duration::from_secs(10),
            host: "localhost".to_owned(),
            bind: None,
            url: String::new(),
            masters: Vec::new(),
            web: None,
            secrets: firesteel_conf::Conf::default()
                .get(&firesteel_conf::entries::REDACTION_REGEX)
                .unwrap(),
            keyring: None,
            tasks,
        })
    }

    fn executor_of(app: &AppId) -> Order {
        let command = Told {
            program: "true".to_owned(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            hash: None,
            served: None,
        };
        let description = ApplicationDescription {
            name: String::new(),
            user: String::new(),
            max_cores: None,
            memory_per_executor_mb: 1,
            cores_per_executor: None,
            initial_executor_limit: None,
            command,
            web_ui: String::new(),
        };
        let key = ExecutorKey { app: app.clone(), executor: ExecutorId(0) };
        let (description, peers) = (Arc::new(description), Vec::new());
        Order::Executor { key, description, cores: 1, memory_mb: 1, peers }
    }

    #[test]
    fn a_process_that_is_killed_before_it_starts_makes_nothing_after_its_end() {
        let root = tempfile::tempdir().unwrap();
        let (launch, app, kill) =
            (launch(root.path()), AppId::new("app-1"), CancellationToken::new());
        kill.cancel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let other = ExecutorKey { app: AppId::new("app-0"), executor: ExecutorId(0) };
        let place = launch.directories.for_executor(&other).unwrap();
        let local = place.local[0].with_file_name("app-1");
        let status = {
            let (launch, progress) = (launch.clone(), Progress::default());
            runtime.block_on(launch.run(executor_of(&app), kill, &progress)).unwrap()
        };
        assert_eq!(status, ExitStatus::Signal(Signal::TERM.as_raw()));
        let detached = launch.directories.temporary.detach("app-1");
        detached.iter().for_each(|path| std::fs::remove_dir_all(path).unwrap());
        drop(runtime); // waits for its threads that block
        assert!(!local.exists());
    }
}
