//! `firesteel fetch`: what the init container of a pod runs, and a worker for a driver whose executable is behind a URL. Copies an
//! executable and files from where they are into a directory.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use firesteel_conf::{ByteSize, Conf, SharedFile, entries, shared_file, url_scheme};
use firesteel_io::{DownloadLimits, Location, StoreOptions};

use firesteel_standalone::worker::FETCH_AGAIN;

use crate::{Failure, daemons};

#[derive(Args, Debug)]
pub(crate) struct FetchFlags {
    /// The directory for them; the first one can be executed.
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// Where they are: URLs, or paths; `-`: they are on the lines of standard input, where nobody else sees them.
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
}

pub(crate) fn run(flags: &FetchFlags) -> Result<ExitCode, Failure> {
    let conf = daemons::load(None, &[])?;
    let (options, limits) = (store_options(&conf), limits(&conf)?);
    for (at, url) in urls(&flags.urls)?.iter().enumerate() {
        let (name, shown) = names(url)?;
        let to = flags.to.join(name);
        let bytes = match fetch(&Location::parse(url, &options), &shown, &to, at == 0, &limits) {
            Err(failure) if failure.downcast_ref::<Unfetched>().is_some_and(Unfetched::passes) => {
                eprintln!("firesteel fetch: {failure}");
                return Ok(ExitCode::from(FETCH_AGAIN));
            }
            fetched => fetched?,
        };
        println!("fetched {} ({bytes} bytes)", to.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn urls(given: &[String]) -> Result<Vec<String>, Failure> {
    match given {
        [input] if input == "-" => Ok(std::io::stdin().lines().collect::<Result<_, _>>()?),
        given => Ok(given.to_vec()),
    }
}

/// The name of its copy, and its URL without what may not be printed.
fn names(url: &str) -> Result<(String, String), Failure> {
    if url_scheme(url).is_none_or(|scheme| scheme.eq_ignore_ascii_case("file")) {
        return Ok((url.rsplit('/').next().unwrap_or_default().to_owned(), url.to_owned()));
    }
    let SharedFile { name, source } = shared_file(url)?;
    Ok((name, source.to_string()))
}

/// A file that could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("could not fetch {shown}: {source}")]
struct Unfetched {
    shown: String,
    source: std::io::Error,
}

impl Unfetched {
    /// Whether trying again later may help.
    fn passes(&self) -> bool {
        firesteel_io::may_pass(&self.source)
    }
}

/// Copies one file to this path; so many bytes. `shown` is its URL without what may not be printed.
pub(crate) fn fetch(
    from: &Location,
    shown: &str,
    to: &Path,
    is_program: bool,
    limits: &DownloadLimits,
) -> Result<u64, Failure> {
    let bytes = firesteel_io::download(from, to, limits)
        .map_err(|source| Unfetched { shown: shown.to_owned(), source })?;
    let mode = if is_program { 0o755 } else { 0o644 };
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode))
        .map_err(|error| format!("could not change {}: {error}", to.display()))?;
    Ok(bytes)
}

/// What a download may take.
pub(crate) fn limits(conf: &Conf) -> Result<DownloadLimits, Failure> {
    let ByteSize(max_bytes) = conf.get(&entries::FILES_MAX_SIZE)?;
    Ok(DownloadLimits { max_bytes, silence: conf.get(&entries::FILES_FETCH_TIMEOUT)? })
}

/// The settings of object stores: Hadoop's, with Spark's prefix.
pub(crate) fn store_options(conf: &Conf) -> Arc<StoreOptions> {
    let settings = conf.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix("spark.hadoop.")?;
        key.starts_with("fs.").then(|| (key.to_owned(), value.to_owned()))
    });
    Arc::new(StoreOptions::new(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_can_be_executed_and_one_that_is_not_there_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let source = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, name).unwrap();
            format!("file://{}", path.display())
        };
        let to = directory.path().join("to");
        let flags = FetchFlags { to: to.clone(), urls: vec![source("pi"), source("words")] };
        run(&flags).unwrap();
        let mode = |name: &str| to.join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("pi"), mode("words")), (0o755, 0o644));
        let absent = FetchFlags { to, urls: vec!["file:///nowhere/pi".to_owned()] };
        let refused = run(&absent).unwrap_err().to_string();
        assert!(refused.contains("file:///nowhere/pi"), "{refused}");
    }
}
