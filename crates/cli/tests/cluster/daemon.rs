//! Masters and workers as child processes, and waiting for what they do.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that happens at all.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until there is something, and says what was missing if there never is.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "never happened: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// The command with nothing of the surroundings' settings.
pub(crate) fn firesteel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.contains("SPARK") || name.starts_with("FIRESTEEL") || name == "MASTER" {
            command.env_remove(name.as_ref());
        }
    }
    // Nor with the secret of the user who runs the tests.
    command.env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/config"));
    command
}

/// Lets every user of this machine in, for tests of other things. Flags after these win.
const OPEN: [&str; 6] = [
    "--conf",
    "spark.authenticate=false",
    "--conf",
    "spark.master.rest.enabled=true",
    "--conf",
    "spark.firesteel.master.rest.authenticate=false",
];

/// A process with its output in files; killed when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    files: TempDir,
}

impl Daemon {
    pub(crate) fn start(mut command: Command) -> Self {
        let files = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(files.path().join(name)).unwrap();
        command.stdout(file("stdout")).stderr(file("stderr"));
        Self { child: command.spawn().unwrap(), files }
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.files.path().join("stdout")).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.files.path().join("stderr")).unwrap()
    }

    pub(crate) fn wait_for_stderr(&self, text: &str) {
        wait_until(&format!("{text:?} in the log"), || self.stderr().contains(text));
    }

    /// The line it prints when it is ready.
    fn ready(&mut self) -> String {
        wait_for("a ready process", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it ended with {status}: {}", self.stderr());
            }
            self.stdout().split_once('\n').map(|(line, _)| line.to_owned())
        })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        wait_for("the end of a process", || self.child.try_wait().unwrap())
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.end()
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.end();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- a process said:\n{}{}", self.stdout(), self.stderr());
        }
    }
}

/// A master that is ready.
pub(crate) struct Master {
    pub(crate) daemon: Daemon,
    pub(crate) url: String,
    pub(crate) page: String,
    /// Where it takes submissions; empty if it takes none.
    pub(crate) rest: String,
    /// Where it keeps what is uploaded.
    _store: TempDir,
}

impl Master {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_at("0", flags)
    }

    pub(crate) fn start_at(port: &str, flags: &[&str]) -> Self {
        let flags: Vec<&str> = OPEN.iter().chain(flags).copied().collect();
        Self::start_with(firesteel(&["master", "--port", port]), &flags)
    }

    /// With these flags and no others.
    pub(crate) fn start_with(mut command: Command, flags: &[&str]) -> Self {
        let _store = tempfile::tempdir().unwrap();
        let store = _store.path().join("store");
        let store = format!("spark.firesteel.master.store.dir={}", store.display());
        command.args(["--webui-port", "0", "--conf", "spark.master.rest.port=0", "--conf", &store]);
        command.args(flags);
        let mut daemon = Daemon::start(command);
        let line = daemon.ready();
        let url = line.strip_prefix("firesteel master: ").unwrap();
        let (url, page) = url.split_once(", page http://").unwrap();
        let (url, rest) = url.split_once(", REST http://").unwrap_or((url, ""));
        let (url, page) = (url.to_owned(), page.trim_end_matches('/').to_owned());
        Self { daemon, url, page, rest: rest.to_owned(), _store }
    }

    pub(crate) fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&get(&self.page, "/json/").1).unwrap()
    }

    /// How many workers are in this state.
    pub(crate) fn workers(&self, state: &str) -> usize {
        let page = self.json();
        let workers = page["workers"].as_array().unwrap();
        workers.iter().filter(|worker| worker["state"] == state).count()
    }
}

/// A worker that is ready.
pub(crate) struct Worker {
    pub(crate) daemon: Daemon,
    pub(crate) page: String,
    directory: TempDir,
}

impl Worker {
    pub(crate) fn start(master: &Master, flags: &[&str]) -> Self {
        Self::of(&master.url, flags)
    }

    /// Of the masters in a URL.
    pub(crate) fn of(masters: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let command = Self::command(masters, directory.path(), flags);
        Self::start_with(command, directory)
    }

    pub(crate) fn start_with(command: Command, directory: TempDir) -> Self {
        let mut daemon = Daemon::start(command);
        let line = daemon.ready();
        let page = line.rsplit_once("page http://").unwrap().1.trim_end_matches('/').to_owned();
        Self { daemon, page, directory }
    }

    pub(crate) fn command(master: &str, directory: &Path, flags: &[&str]) -> Command {
        let mut command = firesteel(&["worker", master, "--webui-port", "0"]);
        if !flags.contains(&"--cores") {
            command.args(["--cores", "2"]);
        }
        command.args(["--memory", "1g", "--work-dir"]).arg(directory);
        command.args(&OPEN[..2]).args(flags);
        command
    }

    /// The work directory of a driver.
    pub(crate) fn driver_directory(&self, driver: &str) -> PathBuf {
        self.directory.path().join(driver)
    }

    /// The work directory of an executor.
    pub(crate) fn directory(&self, app: &str, executor: u32) -> PathBuf {
        self.directory.path().join(app).join(executor.to_string())
    }
}

/// Status line and body of a page.
pub(crate) fn get(address: &str, path: &str) -> (String, String) {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

pub(crate) fn request(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// Waits for a file that appears whole, and reads it.
pub(crate) fn file(path: &Path) -> String {
    wait_for(&format!("{}", path.display()), || fs::read_to_string(path).ok())
}

/// Whether a process is there and not merely waiting to be asked how it ended.
pub(crate) fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let zombie = stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().trim().starts_with('Z'));
    test_kill_process(pid).is_ok() && !zombie
}
