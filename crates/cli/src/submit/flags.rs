//! The flags of `submit` as they were written.

use std::path::PathBuf;

use clap::Args;

const MASTER: &str = "Where it runs: local[*], local-cluster[2,1,1024], spark://host:7077, k8s://https://host:6443 [default: local[*]]";

#[derive(Args, Debug, Default)]
#[command(override_usage = "firesteel submit [FLAGS] EXECUTABLE [ARGUMENTS]")]
pub(crate) struct SubmitFlags {
    /// Where it runs.
    #[arg(long, value_name = "URL", help = MASTER)]
    pub(super) master: Option<String>,
    /// Where the driver runs: client, which is here, or cluster, which is on a worker [default: client].
    #[arg(long, value_name = "MODE")]
    pub(super) deploy_mode: Option<String>,
    /// The application's name [default: its executable's].
    #[arg(long)]
    pub(super) name: Option<String>,
    /// A setting; can be repeated.
    #[arg(long = "conf", short = 'c', value_name = "KEY=VALUE")]
    pub(super) settings: Vec<String>,
    /// A file of settings, instead of spark-defaults.conf.
    #[arg(long, value_name = "FILE")]
    pub(super) properties_file: Option<PathBuf>,
    /// Files that the driver and every executor get, separated by commas: paths or URLs.
    #[arg(long, value_name = "FILES")]
    pub(super) files: Option<String>,
    /// Memory of the driver, such as 2g.
    #[arg(long, value_name = "MEM")]
    pub(super) driver_memory: Option<String>,
    /// Cores of a driver that the cluster runs [default: 1].
    #[arg(long, value_name = "NUM")]
    pub(super) driver_cores: Option<String>,
    /// Has the cluster start the driver again when it fails.
    #[arg(long)]
    pub(super) supervise: bool,
    /// Ends a driver that the cluster runs.
    #[arg(long, value_name = "ID")]
    pub(super) kill: Option<String>,
    /// Tells how far a driver is that the cluster runs; the exit code is 1 if it ended without success.
    #[arg(long, value_name = "ID")]
    pub(super) status: Option<String>,
    /// Memory of each executor, such as 2g.
    #[arg(long, value_name = "MEM")]
    pub(super) executor_memory: Option<String>,
    /// Cores of each executor.
    #[arg(long, value_name = "NUM")]
    pub(super) executor_cores: Option<String>,
    /// Cores of all executors together.
    #[arg(long, value_name = "NUM")]
    pub(super) total_executor_cores: Option<String>,
    /// How many executors.
    #[arg(long, value_name = "NUM")]
    pub(super) num_executors: Option<String>,
    /// Says what is run, and with which settings.
    #[arg(long, short)]
    pub(super) verbose: bool,
    /// The executable and its own arguments.
    #[arg(value_name = "EXECUTABLE", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) command: Vec<String>,
}
