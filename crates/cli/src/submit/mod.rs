//! `firesteel submit [FLAGS] EXECUTABLE [ARGUMENTS]`: runs an application, here or on a cluster's worker.
//!
//! `flags` is what was written, `plan` what that means, checked against the machine. An application that runs here (client mode)
//! replaces this process, so that signals and the exit code are its own. One that runs on a worker (cluster mode) is uploaded and
//! submitted to a master by `cluster`, after `remote` has downloaded what is behind URLs, or runs in a pod that `kubernetes` has
//! created.

mod cluster;
mod flags;
mod kubernetes;
mod plan;
mod remote;
mod upload;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::Failure;
pub(crate) use cluster::connect;
pub(crate) use flags::SubmitFlags;
use plan::{Action, Application};
pub(crate) use plan::{Cluster, cluster as cluster_of};

pub(crate) fn run(flags: SubmitFlags) -> Result<ExitCode, Failure> {
    let verbose = flags.verbose;
    let action = Action::new(flags)?;
    for warning in action.conf().warnings() {
        eprintln!("firesteel submit: {warning}");
    }
    if verbose {
        eprint!("{action}");
    }
    match action {
        Action::RunHere(application) => become_it(application),
        Action::RunThere(cluster, application) => cluster::submit(&cluster, application),
        Action::Kill(cluster, id) => cluster::kill(&cluster, &id),
        Action::Status(cluster, id) => cluster::status(&cluster, &id),
        Action::OnKubernetes(request) => request.carry_out(),
    }
}

/// Does not return if all goes well.
fn become_it(
    Application { executable, arguments, conf, .. }: Application,
) -> Result<ExitCode, Failure> {
    let error = Command::new(executable.path())
        .args(&arguments)
        .env("FIRESTEEL_CONF", conf.to_properties())
        .exec();
    Err(format!("could not run {}: {error}", executable.path().display()).into())
}
