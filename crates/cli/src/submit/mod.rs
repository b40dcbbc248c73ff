//! `firesteel submit [FLAGS] EXECUTABLE [ARGUMENTS]`, client mode: becomes the application.
//!
//! `flags` is what was written, `plan` what that means, checked against the machine. The plan is carried
//! out by replacing this process, so that signals and the exit code are the application's own.

mod flags;
mod plan;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::Failure;
pub(crate) use flags::SubmitFlags;
use plan::Plan;

/// Does not return if all goes well.
pub(crate) fn run(flags: SubmitFlags) -> Result<ExitCode, Failure> {
    let verbose = flags.verbose;
    let plan = Plan::new(flags)?;
    for warning in plan.conf.warnings() {
        eprintln!("firesteel submit: {warning}");
    }
    if verbose {
        eprint!("{plan}");
    }
    let error = Command::new(&plan.executable)
        .args(&plan.arguments)
        .env("FIRESTEEL_CONF", plan.conf.to_properties())
        .exec();
    Err(format!("could not run {}: {error}", plan.executable.display()).into())
}
