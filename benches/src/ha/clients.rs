//! Who may drive a cluster, and who may not: Spark's own client, another user of this machine, somebody who listens.

use std::{
    env, fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{Bench, masters::scratch};
use crate::{
    bars::Target,
    cluster::{
        Site, Spot,
        network::Networks,
        processes,
        site::{Kind, Plan, Programs, daemon, free_port, start},
        wait::until,
    },
    spark::{self, Spark},
};

const LIMIT: Duration = Duration::from_secs(90);
const NETWORK: &str = "10.203.78";
/// Nobody's user.
const NOBODY: &str = "65534";

pub(super) fn measure(bench: &mut Bench, spark: Option<&Spark>, programs: &Programs) {
    let submitted =
        spark.context("there is no Spark").and_then(|spark| spark_submit(spark, programs));
    let submitted = bench.tried("spark-submit", submitted);
    bench.bar("spark_submit_works", submitted.map(|()| 1.0), Target::AtLeast(1.0));
    let entered = bench.tried("another user", other_user(programs));
    bench.bar("other_user_entered", entered, Target::AtMost(0.0));
    let found = bench.tried("somebody who listens", sniffed(programs));
    bench.bar("sniffer_found", found, Target::AtMost(0.0));
}

/// A master that takes submissions of everybody over HTTP, as Spark's does, and a worker.
fn open_to_all(programs: &Programs) -> Result<(Ending, String)> {
    let (directory, kind) = (scratch("open")?, Kind::Firesteel(programs));
    let [port, web, rest] = [free_port()?, free_port()?, free_port()?].map(|it| it.to_string());
    let mut master = daemon(kind, &Spot::loopback(), "master", true);
    master.args(["--host", "127.0.0.1", "--port", &port, "--webui-port", &web]);
    for setting in [
        "spark.master.rest.enabled=true",
        "spark.firesteel.master.rest.authenticate=false",
        &*format!("spark.master.rest.port={rest}"),
    ] {
        master.args(["--conf", setting]);
    }
    let mut daemons = Ending(vec![start(master, "ha", &directory, "master")?]);
    let mut worker = daemon(kind, &Spot::loopback(), "worker", true);
    worker.args(["--host", "127.0.0.1", "--webui-port", "0", "--cores", "2", "--memory", "3g"]);
    worker.arg("--work-dir").arg(directory.join("work")).arg(format!("spark://127.0.0.1:{port}"));
    daemons.0.push(start(worker, "ha", &directory, "worker")?);
    Ok((daemons, format!("spark://127.0.0.1:{rest}")))
}

/// The real client has one of our programs run, asks for it and ends it.
fn spark_submit(spark: &Spark, programs: &Programs) -> Result<()> {
    let (_daemons, url) = open_to_all(programs)?;
    until("a REST server", LIMIT, || TcpStream::connect(url.trim_start_matches("spark://")).ok())?;
    let submit = |words: &[&str]| -> Result<String> {
        let mut command = Command::new(spark.program("spark-submit"));
        spark::remove_settings(&mut command);
        spark.prepare_command(&mut command);
        command.env("SPARK_LOCAL_IP", "127.0.0.1").args(["--master", &url]).args(words);
        let output = command.output()?;
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let app = programs.app.display().to_string();
    // Its input is empty: one that lives until its input ends would be over before it is asked for.
    let words =
        ["--deploy-mode", "cluster", "--class", "App", "--driver-memory", "512m", &app, "idle"];
    let said = submit(&words)?;
    let id = said.split_whitespace().find_map(|word| {
        let word = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        word.starts_with("driver-").then(|| word.to_owned())
    });
    let id = id.with_context(|| format!("spark-submit names no driver: {said}"))?;
    until("a driver that runs", LIMIT, || {
        submit(&["--status", &id]).ok()?.contains("RUNNING").then_some(())
    })?;
    submit(&["--kill", &id])?;
    until("its end", LIMIT, || submit(&["--status", &id]).ok()?.contains("KILLED").then_some(()))
}

/// How many of the doors of a cluster open for another user: the REST server, the master, a driver, an executor.
fn other_user(programs: &Programs) -> Result<f64> {
    let site = Site::start(Kind::Firesteel(programs), &Plan::here(&[1, 1]))?;
    let mut driver = crate::cluster::driver::Driver::start(site.submit(
        &Spot::loopback(),
        2,
        &[],
        &["hold".into()],
    ))?;
    driver.hear("RESULT", 1, LIMIT)?;
    let executor = site.executors().pop().context("no executor runs")?.pid;
    let master = site.master.as_ref().context("it has a master")?.id() as i32;
    let mut doors = Vec::new();
    for (name, pid) in [("master", master), ("driver", driver.pid()), ("executor", executor)] {
        let ports = listening(pid)?;
        ensure!(!ports.is_empty(), "the {name} listens nowhere");
        doors.extend(ports.into_iter().map(|port| (name, port)));
    }
    let everybody = env::temp_dir().join(format!("firesteel-bench-{}", std::process::id()));
    fs::create_dir_all(&everybody)?;
    fs::set_permissions(&everybody, fs::Permissions::from_mode(0o755))?;
    let program = everybody.join("firesteel");
    fs::copy(&programs.firesteel, &program)?;
    let mut entered = 0;
    for (name, port) in doors {
        for (secret, rest) in [(false, true), (true, true), (false, false), (true, false)] {
            if let Some(said) = opens(&program, port, secret, rest)? {
                eprintln!("another user gets in at port {port} of the {name}: {said}");
                entered += 1;
            }
        }
    }
    driver.finish(LIMIT)?;
    fs::remove_dir_all(&everybody)?;
    Ok(f64::from(entered))
}

/// What those hear who are refused: by the REST server, by a port for messages, at a page, which takes no messages.
const REFUSALS: [&str; 4] = [
    "takes requests of those only who have its secret or key",
    "asks for a secret and none is set here",
    "refused the secret or the identity",
    "does not speak this protocol",
];

/// What a process of another user is told, without a secret or with one of its own, unless that is a refusal.
fn opens(program: &Path, port: u16, secret: bool, rest: bool) -> Result<Option<String>> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(program);
    spark::remove_settings(&mut command);
    let url = format!("spark://127.0.0.1:{port}");
    command.args(["submit", "--master", &url, "--kill", "driver-1"]);
    command.args(["--conf", &format!("spark.master.rest.enabled={rest}")]);
    command.args(["--conf", &format!("spark.authenticate={secret}")]);
    command.env_remove("_SPARK_AUTH_SECRET");
    if secret {
        command.env("_SPARK_AUTH_SECRET", "a secret of another user, and long enough");
    }
    command.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME").current_dir("/");
    let output = command.stdin(Stdio::null()).output().context("no setpriv")?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let is_refused = REFUSALS.iter().any(|words| said.contains(words));
    Ok((output.status.success() || !is_refused).then_some(said))
}

/// Ports at which a process listens, by `/proc`.
fn listening(pid: i32) -> Result<Vec<u16>> {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut table = fs::read_to_string("/proc/net/tcp")?;
    table.push_str(&fs::read_to_string("/proc/net/tcp6").unwrap_or_default());
    let port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let own =
            words.get(3) == Some(&"0A") && sockets.iter().any(|it| words.get(9) == Some(&&**it));
        u16::from_str_radix(words.get(1)?.rsplit(':').next()?, 16).ok().filter(|_| own)
    };
    Ok(table.lines().filter_map(port).collect())
}

/// What the records of an application hold, what every message between a driver and a worker has, and the secret, which no message has.
const RECORDS: &str = "these-records-are-not-for-others";
const MESSAGES: &str = "FIRESTEEL_";
const SECRET: &str = "a-secret-that-must-not-be-seen-0123456789";

/// How many of the things that nobody may see are seen on the way between two machines. Where nothing is encrypted, records and messages
/// are seen, so that what finds nothing looks at the right place.
fn sniffed(programs: &Programs) -> Result<f64> {
    let plain = seen(programs, false)?;
    for word in [RECORDS, MESSAGES] {
        ensure!(plain.contains(&word), "`{word}` is not seen where nothing is encrypted");
    }
    ensure!(!plain.contains(&SECRET), "the secret itself is sent where nothing is encrypted");
    let found = seen(programs, true)?;
    if !found.is_empty() {
        eprintln!("seen on the way between two machines: {}", found.join(", "));
    }
    Ok(found.len() as f64)
}

fn seen(programs: &Programs, encrypted: bool) -> Result<Vec<&'static str>> {
    let networks = Networks::make(NETWORK, &["worker"])?;
    let directory = scratch("sniffed")?;
    let (secret, capture) = (directory.join("secret"), directory.join("capture"));
    fs::write(&secret, SECRET)?;
    let mut sniffer = Command::new("tcpdump");
    sniffer.args(["-i", networks.bridge(), "-U", "-s", "0", "-w"]).arg(&capture);
    let sniffer = start(sniffer, "ha", &directory, "sniffer").context("no tcpdump")?;
    let sniffer = Ending(vec![sniffer]);
    until("a sniffer", LIMIT, || capture.exists().then_some(()))?;
    let ran = between_machines(programs, &networks, &directory, &secret, encrypted);
    drop(sniffer);
    ran?;
    let seen = fs::read(&capture)?;
    ensure!(seen.len() > 10_000, "only {} bytes crossed the network", seen.len());
    let finds = |word: &str| seen.windows(word.len()).any(|at| at == word.as_bytes());
    Ok([SECRET, RECORDS, MESSAGES].into_iter().filter(|word| finds(word)).collect())
}

/// A master here and a worker elsewhere, with a secret, and an application.
fn between_machines(
    programs: &Programs,
    networks: &Networks,
    directory: &Path,
    secret: &Path,
    encrypted: bool,
) -> Result<()> {
    let kind = Kind::Firesteel(programs);
    let (here, there) = (networks.here(), networks.host(0));
    let secret = format!("spark.authenticate.secret.file={}", secret.display());
    let with = |command: &mut Command| {
        command.args(["--conf", "spark.authenticate=true", "--conf", &secret]);
        command.args(["--conf", &format!("spark.network.crypto.enabled={encrypted}")]);
    };
    let (port, web) = (free_port()?.to_string(), free_port()?.to_string());
    let mut master = daemon(kind, &here, "master", true);
    with(master.args(["--host", &here.host, "--port", &port, "--webui-port", &web]));
    let url = format!("spark://{}:{port}", here.host);
    let mut daemons = Ending(vec![start(master, "ha", directory, "master")?]);
    let mut worker = daemon(kind, &there, "worker", true);
    with(worker.args([
        "--host",
        &there.host,
        "--webui-port",
        "0",
        "--cores",
        "1",
        "--memory",
        "1g",
    ]));
    worker.arg("--work-dir").arg(directory.join("work")).arg(&url);
    daemons.0.push(start(worker, "ha", directory, "worker")?);
    let mut submit = Command::new(&programs.firesteel);
    spark::remove_settings(&mut submit);
    submit.args(["submit", "--master", &url, "--executor-memory", "512m"]);
    with(&mut submit);
    submit.args(["--conf", &format!("spark.driver.host={}", here.host)]);
    let output = submit.arg(&programs.app).args(["collect", RECORDS]).output()?;
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "the application failed: {why}");
    Ok(())
}

/// Processes that end with this.
struct Ending(Vec<Child>);

impl Drop for Ending {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = processes::signal(child.id() as i32, Signal::TERM);
            if until("its end", Duration::from_secs(10), || child.try_wait().ok().flatten())
                .is_err()
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
