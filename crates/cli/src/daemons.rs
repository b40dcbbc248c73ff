//! What master and worker have in common: settings, the host they bind, their log, their end.

use std::path::PathBuf;

use clap::Args;
use firesteel_conf::{Conf, ConfError, Loader, LogLevel, Origin, entries};
use firesteel_pages::{
    SheetCell, SheetColumn, SheetKill, SheetLive, SheetOrder, SheetPage, SheetPages, SheetSearch,
    SheetTable,
};
use firesteel_rpc::{RpcOptions, user_secret};
use firesteel_standalone::{Cell, Column, Drawing, Live, Order, Sheet, Table};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::level_filters::LevelFilter;

use crate::Failure;

/// Bound when nobody says anything and nobody has to prove anything.
const ONLY_HERE: &str = "127.0.0.1";
/// Bound when nobody says anything else.
const EVERYWHERE: &str = "0.0.0.0";

/// Flags of both.
#[derive(Args)]
pub(crate) struct Shared {
    /// The host or address to bind [default: all if spark.authenticate is true, else 127.0.0.1]. If the variable SPARK_LOCAL_IP is set, that
    /// is bound, and this is the name by which others reach it.
    #[arg(short = 'h', long)]
    pub(crate) host: Option<String>,
    /// A file of settings, instead of spark-defaults.conf.
    #[arg(long, value_name = "FILE")]
    properties_file: Option<PathBuf>,
    /// A setting; can be repeated.
    #[arg(long = "conf", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Lets anybody who reaches the port in, without a secret.
    #[arg(long)]
    insecure: bool,
}

impl Shared {
    /// The settings of flags, variables and files, and what RPC makes of them. From then on this process logs.
    pub(crate) fn settings(&self) -> Result<(Conf, RpcOptions), Failure> {
        let mut conf = load(self.properties_file.as_deref(), &self.settings)?;
        if self.insecure {
            conf.insert(entries::INSECURE.key(), true, Origin::Flag { flag: "--insecure" });
        }
        log(&conf)?;
        conf.validate()?;
        for warning in conf.warnings() {
            tracing::warn!("{warning}");
        }
        make_secret(&conf)?;
        let rpc = RpcOptions::from_process(&conf)?;
        Ok((conf, rpc))
    }

    /// What to bind, and the name for others where that is another: with `SPARK_LOCAL_IP`, which is bound then. Without a
    /// secret that other machines may have, nothing is bound that they reach, unless that was asked for.
    pub(crate) fn host(
        &self,
        variable: &str,
        conf: &Conf,
        rpc: &RpcOptions,
    ) -> (String, Option<String>) {
        let named = self.host.clone().or_else(|| given(variable));
        if let Some(local) = given("SPARK_LOCAL_IP") {
            return (local, named);
        }
        let bind = named.unwrap_or_else(|| {
            let guarded = rpc.admits_other_machines(conf);
            if !guarded {
                tracing::info!(
                    "only this machine can reach it: to have others join, make a secret with `openssl rand -hex 32 > secret; chmod 600 \
                     secret` and set spark.authenticate=true and spark.authenticate.secret.file=secret on every machine"
                );
            }
            if guarded { EVERYWHERE } else { ONLY_HERE }.to_owned()
        });
        (bind, None)
    }
}

/// Has the pages of this process drawn with the style sheet of all pages.
pub(crate) fn draw_pages() {
    fn page(sheet: &Sheet) -> String {
        let tables: Vec<_> = sheet.tables.iter().map(table).collect();
        firesteel_pages::sheet(&SheetPage {
            title: &sheet.title,
            root: &sheet.root,
            lines: &sheet.lines,
            links: &sheet.links,
            text: sheet.text.as_deref(),
            tables: &tables,
            live: sheet.live.map(|Live { state, process, now }| SheetLive { state, process, now }),
        })
    }
    fn table(table: &Table) -> SheetTable<'_> {
        let Table { heading, columns, rows, pages, search } = table;
        let search = search.as_ref().map(|it| SheetSearch {
            action: &it.action,
            name: &it.name,
            value: &it.value,
            others: &it.others,
        });
        let columns = columns.iter().map(column).collect();
        let pages = pages.as_ref().map(|it| SheetPages {
            total: it.total,
            page: it.page,
            last: it.last,
            link: &it.link,
        });
        let rows = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        SheetTable { heading, columns, rows, pages, search }
    }
    fn column(column: &Column) -> SheetColumn {
        let order = column.order.map(|order| match order {
            Order::Ascending => SheetOrder::Ascending,
            Order::Descending => SheetOrder::Descending,
        });
        SheetColumn { title: column.title.clone(), link: column.link.clone(), order }
    }
    fn cell(cell: &Cell) -> SheetCell<'_> {
        let kill = cell.kill.as_ref().map(|it| SheetKill {
            verb: it.verb,
            what: it.what,
            id: &it.id,
            action: &it.action,
            token: &it.token,
        });
        SheetCell { text: &cell.text, link: cell.link.as_deref(), links: &cell.links, kill }
    }
    firesteel_standalone::draw_with(Drawing { page, asset: firesteel_pages::asset });
}

/// Where nobody says whether there is a secret, there is one of this user's, which all processes of the user find.
fn make_secret(conf: &Conf) -> Result<(), Failure> {
    let said =
        conf.setting(entries::AUTHENTICATE.key()).is_some() || conf.get(&entries::INSECURE)?;
    if said {
        return Ok(());
    }
    let path = user_secret::path().ok_or(
        "there is no place for a secret, as the variable HOME is not set: set it, or spark.authenticate=true with \
         spark.authenticate.secret.file, or spark.authenticate=false to let every user of this machine in",
    )?;
    user_secret::ensure(&path)?;
    Ok(())
}

/// A variable of this process that says something.
pub(crate) fn given(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.trim().is_empty())
}

/// A number in a flag, else in a variable, else its default.
pub(crate) fn number<T: std::str::FromStr>(
    flag: Option<T>,
    variable: &str,
    default: T,
) -> Result<T, Failure> {
    match (flag, given(variable)) {
        (Some(number), _) => Ok(number),
        (None, None) => Ok(default),
        (None, Some(text)) => text.trim().parse().map_err(|_| {
            let example = "write a number such as 7077";
            format!("{variable}={text:?} is not a number it could be: {example}").into()
        }),
    }
}

/// Settings of `--conf`s, the variables of this process and a file.
pub(crate) fn load(file: Option<&std::path::Path>, settings: &[String]) -> Result<Conf, ConfError> {
    let mut arguments: Vec<String> = Vec::new();
    for setting in settings {
        arguments.extend(["--conf".to_owned(), setting.clone()]);
    }
    if let Some(file) = file {
        arguments.extend(["--properties-file".to_owned(), file.display().to_string()]);
    }
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Loader::new().arguments(arguments).environment(variables).load()?.conf)
}

fn tracing_level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Lines on standard error, warnings of all crates among them, as `spark.log.level` says.
pub(crate) fn log(conf: &Conf) -> Result<(), ConfError> {
    let level = conf.get(&entries::LOG_LEVEL)?.unwrap_or(LogLevel::Info);
    tracing_subscriber::fmt()
        .with_max_level(tracing_level(level))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    // A core whose books do not add up must not go on: the service manager starts the process anew.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::abort();
    }));
    Ok(())
}

/// One thread is enough for what master and worker do, and small.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// SIGTERM and SIGINT, from now on.
pub(crate) struct Ending {
    terminate: Signal,
    interrupt: Signal,
}

impl Ending {
    pub(crate) fn listen() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits until this process is told to end.
    pub(crate) async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
