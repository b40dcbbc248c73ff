//! Where the files of `spark.files` and of `Context::add_file` are found: [`SparkFiles`].
//!
//! An executor of a cluster has them in its working directory. In the driver, and in local mode, they are
//! in a directory of the context: tasks find that of their own, the rest of the program that of
//! the context that was built last.

use std::path::{Path, PathBuf};
use std::sync::RwLock;

use crate::TaskContext;

static ROOT: RwLock<Option<PathBuf>> = RwLock::new(None);

/// The files that every executor has a copy of (`spark.files`, `--files`, `Context::add_file`), as in Spark.
///
/// ```no_run
/// # use firesteel_task::SparkFiles;
/// let rules = std::fs::read_to_string(SparkFiles::get("rules.txt"));
/// ```
#[derive(Debug)]
pub struct SparkFiles;

impl SparkFiles {
    /// Where the file of this name is: in a task or in the driver.
    pub fn get(name: &str) -> PathBuf {
        Self::get_root_directory().join(name)
    }

    /// The directory that the files are in; the working directory if there are none.
    pub fn get_root_directory() -> PathBuf {
        let of_task = TaskContext::current().and_then(|task| task.environment().files_root());
        let of_process = || ROOT.read().ok().and_then(|root| root.clone());
        of_task.or_else(of_process).unwrap_or_else(|| PathBuf::from("."))
    }

    /// Says where this process has its files. For drivers and executors.
    #[doc(hidden)]
    pub fn set_root_directory(root: PathBuf) {
        *ROOT.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(root);
    }

    /// Takes that back, unless somebody else has set a directory since.
    #[doc(hidden)]
    pub fn unset_root_directory(root: &Path) {
        let mut current = ROOT.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        current.take_if(|current| *current == root);
    }
}
