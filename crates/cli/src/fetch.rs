//! `firesteel fetch`: what the init container of a pod runs. Copies an executable and files from where `submit` put them into a
//! directory of the pod.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use firesteel_conf::Conf;
use firesteel_io::{Location, StoreOptions};

use crate::{Failure, daemons};

#[derive(Args, Debug)]
pub(crate) struct FetchFlags {
    /// The directory for them; the first one can be executed.
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// Where they are: URLs of object stores, or paths.
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
}

pub(crate) fn run(flags: &FetchFlags) -> Result<ExitCode, Failure> {
    let conf = daemons::load(None, &[])?;
    let options = store_options(&conf);
    for (at, url) in flags.urls.iter().enumerate() {
        fetch(&Location::parse(url, &options), url, &flags.to, at == 0)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn fetch(from: &Location, url: &str, directory: &Path, is_program: bool) -> Result<(), Failure> {
    let name = url.rsplit('/').next().unwrap_or_default();
    let to = directory.join(name);
    let bytes = firesteel_io::download(from, &to)
        .map_err(|error| format!("could not fetch {url}: {error}"))?;
    let mode = if is_program { 0o755 } else { 0o644 };
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode))
        .map_err(|error| format!("could not change {}: {error}", to.display()))?;
    println!("fetched {} ({bytes} bytes)", to.display());
    Ok(())
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
