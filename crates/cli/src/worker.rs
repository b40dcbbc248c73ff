//! `firesteel worker MASTER_URL`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use firesteel_conf::{ByteSize, ByteUnit, HostPort, Master, entries};
use firesteel_rpc::RpcAddress;
use firesteel_standalone::worker::{self, Launcher, RunningWorker, WorkerArgs};

use crate::daemons::{self, Ending, Shared, given};
use crate::{Failure, launch, machine};

#[derive(Args)]
pub(crate) struct WorkerFlags {
    /// Its master: spark://host:7077, with standby masters after commas.
    master: String,
    /// Cores to give out [default: SPARK_WORKER_CORES, else all].
    #[arg(short, long)]
    cores: Option<u32>,
    /// Memory to give out, such as 4g [default: SPARK_WORKER_MEMORY, else all but 1g].
    #[arg(short, long)]
    memory: Option<String>,
    /// Where its processes work [default: SPARK_WORKER_DIR, else ./work].
    #[arg(short = 'd', long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    #[command(flatten)]
    shared: Shared,
    /// The port it listens on [default: SPARK_WORKER_PORT, else any].
    #[arg(short, long)]
    port: Option<u16>,
    /// The port of its page [default: SPARK_WORKER_WEBUI_PORT, else 8081].
    #[arg(long)]
    webui_port: Option<u16>,
}

pub(crate) fn run(flags: WorkerFlags) -> Result<ExitCode, Failure> {
    daemons::draw_pages();
    let args = check(flags)?;
    daemons::runtime()?.block_on(async {
        let mut ending = Ending::listen()?;
        let running = worker::start(args).await?;
        tokio::select! {
            ended = announce_and_wait(&running) => {
                eprintln!("firesteel worker: {}", ended.reason);
            }
            () = ending.told() => {}
        }
        let ended = running.stop().await;
        Ok(ExitCode::from(u8::try_from(ended.code).unwrap_or(1)))
    })
}

async fn announce_and_wait(running: &RunningWorker) -> worker::Ended {
    let announced = async {
        let master = running.registered().await;
        let web = running.web_address.as_ref().expect("it has a page");
        println!("firesteel worker: {} at {master}, page http://{web}/", running.url());
        std::future::pending().await
    };
    tokio::select! {
        ended = running.ended() => ended,
        never = announced => never,
    }
}

fn check(flags: WorkerFlags) -> Result<WorkerArgs, Failure> {
    let (conf, rpc) = flags.shared.settings()?;
    let work_dir = flags.work_dir.or_else(|| given("SPARK_WORKER_DIR").map(PathBuf::from));
    let local_dirs = match conf.setting(entries::LOCAL_DIR.key()) {
        Some(_) => conf.get(&entries::LOCAL_DIR)?, // of SPARK_LOCAL_DIRS, too
        None => Vec::new(),
    };
    let launcher = Launcher {
        program: own_program()?,
        launch: vec![launch::LAUNCH.to_owned()],
        keep: vec![launch::KEEP.to_owned()],
        fetch: ["fetch", "-", "--to"].map(str::to_owned).into(),
    };
    let (host, advertise) = flags.shared.host("SPARK_WORKER_HOST", &conf, &rpc);
    Ok(WorkerArgs {
        masters: masters(&flags.master)?,
        host,
        advertise,
        port: daemons::number(flags.port, "SPARK_WORKER_PORT", 0)?,
        web_port: Some(daemons::number(flags.webui_port, "SPARK_WORKER_WEBUI_PORT", 8081)?),
        cores: positive(daemons::number(flags.cores, "SPARK_WORKER_CORES", machine::cores())?)?,
        memory_mb: memory_mb(flags.memory.or_else(|| given("SPARK_WORKER_MEMORY")))?,
        work_dir: work_dir.unwrap_or_else(|| "work".into()),
        local_dirs: local_dirs.into_iter().map(PathBuf::from).collect(),
        inherit_output: false,
        launcher: Some(launcher),
        conf,
        rpc,
    })
}

/// Also after its file was replaced by a newer one.
fn own_program() -> Result<PathBuf, Failure> {
    let this = PathBuf::from("/proc/self/exe");
    if this.exists() { Ok(this) } else { Ok(std::env::current_exe()?) }
}

fn masters(text: &str) -> Result<Vec<RpcAddress>, Failure> {
    let Master::Standalone { masters } = text.parse()? else {
        return Err(format!("{text} has no workers: write spark://host:7077").into());
    };
    let address = |HostPort { host, port }: HostPort| {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        RpcAddress::new(bare.unwrap_or(&host), port)
    };
    Ok(masters.into_iter().map(address).collect())
}

fn positive(cores: u32) -> Result<u32, Failure> {
    if cores == 0 {
        return Err("a worker without cores can run nothing: write --cores 1 or more".into());
    }
    Ok(cores)
}

/// Spark's notation; a number alone is megabytes.
fn memory_mb(text: Option<String>) -> Result<u64, Failure> {
    let Some(text) = text else { return Ok(machine::memory_mb()) };
    let size = ByteSize::parse(text.trim(), ByteUnit::Mebi);
    match size.map(|ByteSize(bytes)| bytes >> 20) {
        Some(mb) if mb > 0 => Ok(mb),
        _ => Err(format!("{text:?} is not an amount of memory: write --memory 4g or 512m").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_sparks_notation_and_nonsense_is_refused() {
        for (text, mb) in [("4g", 4096), ("512m", 512), ("700", 700), ("1048576k", 1024)] {
            assert_eq!(memory_mb(Some(text.to_owned())).unwrap(), mb, "{text}");
        }
        for text in ["0", "1k", "-1g", "lots", ""] {
            assert!(memory_mb(Some(text.to_owned())).is_err(), "{text}");
        }
    }

    #[test]
    fn a_worker_takes_standalone_masters_only() {
        let found = masters("spark://a:1,[::1]:2").unwrap();
        assert_eq!(found, [RpcAddress::new("a", 1), RpcAddress::new("::1", 2)]);
        for text in ["local[2]", "yarn", "a:1", "spark://a", "k8s://https://a:1", ""] {
            assert!(masters(text).is_err(), "{text}");
        }
    }
}
