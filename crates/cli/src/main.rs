//! The command `firesteel`: `master` and `worker` run a standalone cluster, `submit` runs an application.
//!
//! Flags are read and checked here; what they are for is in `firesteel-standalone`.

mod daemons;
mod launch;
mod machine;
mod master;
mod submit;
mod worker;

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
}

/// What a command failed with: a sentence for people.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    if let Some(code) = launch::requested(std::env::args_os()) {
        return code;
    }
    let (name, outcome) = match Cli::parse().command {
        Command::Master(flags) => ("master", master::run(flags)),
        Command::Worker(flags) => ("worker", worker::run(flags)),
        Command::Submit(flags) => ("submit", submit::run(flags)),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("firesteel {name}: {failure}");
        ExitCode::FAILURE
    })
}
