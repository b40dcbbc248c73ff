//! `firesteel daemon`: masters and workers in the background of one machine, each with a file of its process and one of its log.
//!
//! A daemon holds a lock on the file with its number for as long as it lives, as its standard input: a number that stands in a
//! file nobody has locked is of a process that is gone, also if another process has that number now.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use rustix::process::{Pid, Signal, kill_process};

use crate::Failure;
use crate::daemons::given;

/// How long a daemon may take until it is ready.
const READY: Duration = Duration::from_secs(60);
/// How long it may take to end by itself.
const END: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(crate) struct DaemonFlags {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Starts a master or a worker in the background, and returns when it is ready.
    Start {
        /// What it is called here, such as worker-1.
        name: String,
        /// master or worker, with its flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Ends it.
    Stop { name: String },
    /// Tells whether it runs; the exit code is 1 if not.
    Status { name: String },
}

pub(crate) fn run(flags: DaemonFlags) -> Result<ExitCode, Failure> {
    match flags.action {
        Action::Start { name, command } => start(&Daemon::named(&name)?, &command),
        Action::Stop { name } => stop(&Daemon::named(&name)?),
        Action::Status { name } => status(&Daemon::named(&name)?),
    }
}

/// The files of a daemon.
struct Daemon {
    name: String,
    pid: PathBuf,
    log: PathBuf,
}

impl Daemon {
    fn named(name: &str) -> Result<Self, Failure> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_word) {
            return Err(format!("{name:?} is no name: use letters, digits, - and _").into());
        }
        let file = format!("firesteel-{name}");
        let pid = directory("SPARK_PID_DIR", "run")?.join(format!("{file}.pid"));
        let log = directory("SPARK_LOG_DIR", "logs")?.join(format!("{file}.out"));
        Ok(Self { name: name.to_owned(), pid, log })
    }

    /// The number of its process, if it runs.
    fn running(&self) -> io::Result<Option<Pid>> {
        let mut file = match File::open(&self.pid) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if file.try_lock().is_ok() {
            return Ok(None);
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text.trim().parse().ok().and_then(Pid::from_raw))
    }
}

/// Told by a variable of Spark's, or in the user's directory for such things.
fn directory(variable: &str, name: &str) -> Result<PathBuf, Failure> {
    let told = given(variable).map(PathBuf::from);
    let cache = || given("XDG_CACHE_HOME").or_else(|| Some(format!("{}/.cache", given("HOME")?)));
    let found = told.or_else(|| Some(PathBuf::from(cache()?).join("firesteel").join(name)));
    let found =
        found.ok_or_else(|| format!("there is no place for its files: set {variable} or HOME"))?;
    fs::create_dir_all(&found)
        .map_err(|error| format!("could not make {}: {error}", found.display()))?;
    Ok(found)
}

fn start(daemon: &Daemon, command: &[OsString]) -> Result<ExitCode, Failure> {
    let own = std::env::current_exe()?;
    let mut lock = open(&daemon.pid)?;
    if lock.try_lock().is_err() {
        return Err(format!("{} runs already: see {}", daemon.name, daemon.log.display()).into());
    }
    let mut log = open(&daemon.log)?;
    let before = log.seek(io::SeekFrom::End(0))?;
    let mut child = Command::new(own)
        .args(command)
        .stdin(Stdio::from(lock.try_clone()?))
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .process_group(0)
        .spawn()?;
    lock.set_len(0)?;
    lock.write_all(format!("{}\n", child.id()).as_bytes())?;
    println!("{}", ready(daemon, &mut child, before)?);
    Ok(ExitCode::SUCCESS)
}

/// Only its user may read and write it.
fn open(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true).mode(0o600);
    options.open(path).map_err(|error| format!("could not open {}: {error}", path.display()).into())
}

/// The line that a daemon prints when it is ready.
fn ready(daemon: &Daemon, child: &mut Child, before: u64) -> Result<String, Failure> {
    let since = Instant::now();
    loop {
        let mut log = File::open(&daemon.log)?;
        log.seek(io::SeekFrom::Start(before))?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        // Whole lines only.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let said = lines.map(str::trim_end).find(|line| line.contains(": spark://"));
        if let Some(line) = said {
            return Ok(line.to_owned());
        }
        if let Some(status) = child.try_wait()? {
            let last = text.lines().last().unwrap_or("it said nothing");
            return Err(format!("{} ended with {status}: {last}", daemon.name).into());
        }
        if since.elapsed() > READY {
            let log = daemon.log.display();
            return Err(format!(
                "{} is not ready after {} s: see {log}",
                daemon.name,
                READY.as_secs()
            )
            .into());
        }
        sleep(POLL);
    }
}

fn stop(daemon: &Daemon) -> Result<ExitCode, Failure> {
    let Some(pid) = daemon.running()? else {
        println!("{} does not run", daemon.name);
        return Ok(ExitCode::SUCCESS);
    };
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = kill_process(pid, signal); // gone is what it shall be
        let since = Instant::now();
        while since.elapsed() < END {
            if daemon.running()?.is_none() {
                println!("{} is stopped", daemon.name);
                return Ok(ExitCode::SUCCESS);
            }
            sleep(POLL);
        }
    }
    Err(format!("{} does not end: its process is {pid}", daemon.name).into())
}

fn status(daemon: &Daemon) -> Result<ExitCode, Failure> {
    match daemon.running()? {
        Some(pid) => {
            println!("{} runs as process {pid}, its log is {}", daemon.name, daemon.log.display());
            Ok(ExitCode::SUCCESS)
        }
        None => {
            println!("{} does not run", daemon.name);
            Ok(ExitCode::FAILURE)
        }
    }
}
