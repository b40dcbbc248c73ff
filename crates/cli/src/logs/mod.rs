//! `firesteel logs`: what executors and drivers print, read from the workers that started them.
//!
//! | file | owns |
//! |---|---|
//! | `find` | which streams there are, and where they can be read |
//! | `follow` | a stream, read piece by piece |

mod find;
mod follow;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use firesteel_rpc::RpcOptions;
use firesteel_standalone::TokenKey;

use crate::Failure;
use crate::daemons::{self, Ending};
use crate::proof::Proof;
use find::Stream;
use follow::{Broken, Reader};

/// How often a stream is looked at for more.
const EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(crate) struct LogsFlags {
    /// The application's id, or the id of a driver that the cluster runs (driver-...).
    application: String,
    /// The executor: its number, or driver [default: all].
    executor: Option<String>,
    /// Goes on with what is printed from now on, until it is interrupted.
    #[arg(short, long)]
    follow: bool,
    /// What the process prints to.
    #[arg(long, default_value = "stderr", value_parser = ["stdout", "stderr"])]
    stream: String,
    /// How many bytes of the end, all when it is 0.
    #[arg(long, value_name = "NUM", default_value_t = 102_400)]
    bytes: u64,
    /// Prints where the logs are, instead of the logs.
    #[arg(long)]
    urls: bool,
    /// Who knows the application: its own pages, the history server; of a driver, the page of its master [default: what answers on
    /// this machine at 4040 to 4043, 18080; of a driver, at 8080].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A file with the token that says at --url who asks, for a server that wants to know [default: one made with the key of
    /// spark.ui.filters].
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// A file of settings, instead of spark-defaults.conf.
    #[arg(long, value_name = "FILE")]
    properties_file: Option<PathBuf>,
    /// A setting; can be repeated.
    #[arg(long = "conf", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(flags: &LogsFlags) -> Result<ExitCode, Failure> {
    let conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    conf.validate()?;
    let rpc = RpcOptions::from_process(&conf)?;
    let key = TokenKey::from_settings(&conf, &rpc)?.map(|key| key.for_logs());
    let proof = Proof::of(&conf, flags.token_file.as_deref())?;
    daemons::runtime()?.block_on(async {
        let mut ending = Ending::listen()?;
        tokio::select! {
            printed = print(flags, &proof, key.as_ref()) => printed,
            () = ending.told() => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Streams that are printed together.
struct Readers<'a> {
    open: Vec<Reader<'a>>,
    /// Whether they have headings, and one that cannot be read does not end the others.
    many: bool,
    /// Whose output was printed last.
    last: Option<String>,
    /// Whether one could not be read.
    missing: bool,
}

impl<'a> Readers<'a> {
    fn open(streams: Vec<Stream>, bytes: u64, key: Option<&'a TokenKey>) -> Result<Self, Failure> {
        let many = streams.len() > 1;
        let mut readers = Readers { open: Vec::new(), many, last: None, missing: false };
        for stream in streams {
            let name = stream.name.clone();
            match Reader::open(stream, bytes, key) {
                Ok(reader) => readers.open.push(reader),
                Err(error) => readers.miss(&name, error)?,
            }
        }
        Ok(readers)
    }

    /// Names a stream that cannot be read: that costs nobody the output of the others.
    fn miss(&mut self, name: &str, error: Failure) -> Result<(), Failure> {
        if !self.many {
            return Err(error);
        }
        eprintln!("==> {name} <== cannot be read: {error}");
        (self.missing, self.last) = (true, None);
        Ok(())
    }

    /// Prints what there is by now.
    async fn print(&mut self, follows: bool) -> Result<(), Failure> {
        for mut reader in std::mem::take(&mut self.open) {
            let is_new = self.last.as_deref() != Some(reader.name());
            let heading = (self.many && is_new).then(|| reader.name().to_owned());
            match reader.print(heading.as_deref(), follows).await {
                Ok(printed) => {
                    if printed {
                        self.last = Some(reader.name().to_owned());
                    }
                    self.open.push(reader);
                }
                Err(Broken::Stream(error)) => self.miss(reader.name(), error)?,
                Err(Broken::Output(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

async fn print(
    flags: &LogsFlags,
    proof: &Proof,
    key: Option<&TokenKey>,
) -> Result<ExitCode, Failure> {
    let streams = find::streams(
        (flags.url.as_deref(), proof),
        &flags.application,
        flags.executor.as_deref(),
        &flags.stream,
    )
    .await?;
    if flags.urls {
        streams.iter().for_each(|Stream { name, url, .. }| println!("{name}\t{url}"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut readers = Readers::open(streams, flags.bytes, key)?;
    loop {
        readers.print(flags.follow).await?;
        if !flags.follow || readers.open.is_empty() {
            return Ok(if readers.missing { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        tokio::time::sleep(EVERY).await;
    }
}
