//! The command `firesteel`: `master` and `worker` run a standalone cluster, `submit` runs an application, `cluster` starts and
//! stops daemons on several machines, `decommission` takes workers out of a cluster, `history` tells of applications that are over,
//! `report` puts one of them into a file, `logs` prints what executors print, `top` shows an application that runs in a terminal,
//! `image` packs one for Kubernetes. Under the name `spark-submit` it is
//! `firesteel submit`.
//!
//! Flags are read and checked here; what they are for is in `firesteel-standalone`.

mod background;
mod cluster;
mod daemons;
mod decommission;
mod fetch;
mod history;
mod image;
mod launch;
mod logs;
mod machine;
mod master;
mod proof;
mod report;
mod shell;
mod submit;
mod top;
mod worker;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Distributed computing in Rust, with Spark's interface.
#[derive(Parser)]
#[command(name = "firesteel", version, disable_help_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Prints help.
    #[arg(long, global = true, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the master of a standalone cluster.
    Master(master::MasterFlags),
    /// Runs a worker of a standalone cluster.
    Worker(worker::WorkerFlags),
    /// Runs an application.
    Submit(submit::SubmitFlags),
    /// Shows applications from their event logs: pages and Spark's REST API.
    History(history::HistoryFlags),
    /// Packs an application into an image for Kubernetes.
    Image(image::ImageFlags),
    /// Prints what the executors of an application, or a driver of the cluster, have printed.
    Logs(logs::LogsFlags),
    /// Copies files that submit uploaded into a directory: what init containers of pods run.
    Fetch(fetch::FetchFlags),
    /// Writes one file with everything of an application, to be mailed or archived.
    Report(report::ReportFlags),
    /// Shows how an application stands, live in a terminal.
    Top(top::TopFlags),
    /// Starts, stops and looks after a master and the workers of a file.
    Cluster(cluster::ClusterFlags),
    /// Takes workers out of a standalone cluster: they get nothing more to do.
    Decommission(decommission::DecommissionFlags),
    /// Runs a master or a worker in the background.
    Daemon(background::DaemonFlags),
    /// Prints the script that completes this command in a shell.
    Completions(shell::CompletionFlags),
    /// Writes the pages of the manual.
    Man(shell::ManFlags),
}

/// What a command failed with: a sentence for people.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    if let Some(code) = launch::requested(std::env::args_os()) {
        return code;
    }
    let (name, outcome) = match Cli::parse_from(arguments(std::env::args_os())).command {
        Command::Master(flags) => ("master", master::run(flags)),
        Command::Worker(flags) => ("worker", worker::run(flags)),
        Command::Submit(flags) => ("submit", submit::run(flags)),
        Command::History(flags) => ("history", history::run(flags)),
        Command::Image(flags) => ("image", image::run(&flags)),
        Command::Logs(flags) => ("logs", logs::run(&flags)),
        Command::Fetch(flags) => ("fetch", fetch::run(&flags)),
        Command::Report(flags) => ("report", report::run(flags)),
        Command::Top(flags) => ("top", top::run(flags)),
        Command::Cluster(flags) => ("cluster", cluster::run(flags)),
        Command::Decommission(flags) => ("decommission", decommission::run(flags)),
        Command::Daemon(flags) => ("daemon", background::run(flags)),
        Command::Completions(flags) => ("completions", shell::completions(&flags)),
        Command::Man(flags) => ("man", shell::man(&flags)),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("firesteel {name}: {failure}");
        ExitCode::FAILURE
    })
}

/// A link by the name of Spark's command is that command.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = given.collect();
    let name = all.first().and_then(|program| Path::new(program).file_name());
    if name.is_some_and(|name| name == "spark-submit") {
        all.insert(1, "submit".into());
    }
    all
}
