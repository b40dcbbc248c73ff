//! `firesteel completions SHELL` and `firesteel man DIRECTORY`: what packages install beside the command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{Cli, Failure};

#[derive(Args)]
pub(crate) struct CompletionFlags {
    /// bash, zsh, fish, elvish or powershell.
    shell: Shell,
}

/// Prints the script that has a shell complete commands and flags.
pub(crate) fn completions(flags: &CompletionFlags) -> Result<ExitCode, Failure> {
    clap_complete::generate(flags.shell, &mut Cli::command(), "firesteel", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub(crate) struct ManFlags {
    /// Where to put the pages, such as /usr/local/share/man/man1.
    directory: PathBuf,
}

/// Writes a page of the manual for each command.
pub(crate) fn man(flags: &ManFlags) -> Result<ExitCode, Failure> {
    let failed = |error| format!("could not write pages to {}: {error}", flags.directory.display());
    std::fs::create_dir_all(&flags.directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &flags.directory).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
