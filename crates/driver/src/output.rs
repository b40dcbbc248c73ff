//! Committing output: attempts write beside the target under a hidden name; only when all is written
//! does one rename make it visible.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use firesteel_io::{Location, Target, Written, WrittenAt};
use firesteel_storage::{OwnerLock, is_abandoned};

use crate::{Context, Error, Result};
#[cfg(feature = "object-store")]
use firesteel_engine::Engine;

/// Directories to remove if the application ends before their jobs do.
#[derive(Clone, Default)]
pub(crate) struct Leftovers(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Leftovers {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn remove(&self) {
        for path in std::mem::take(&mut *self.lock()) {
            remove_busy_directory(&path);
        }
    }
}

/// What a job writes, wherever that is.
pub(crate) enum Output {
    Local(Staged),
    #[cfg(feature = "object-store")]
    Remote(RemoteStaged),
}

impl Output {
    /// Prepares to write `target`; refuses one that exists unless it shall be replaced.
    pub(crate) fn create(target: &Location, replace: bool, context: &Context) -> Result<Self> {
        match target {
            Location::Local(path) => {
                Staged::create(path, replace, &context.0.leftovers).map(Output::Local)
            }
            #[cfg(feature = "object-store")]
            Location::Remote { url, options } => {
                let engine = context.0.engine.clone();
                RemoteStaged::create(url, options, replace, engine).map(Output::Remote)
            }
            #[cfg(not(feature = "object-store"))]
            Location::Remote { url, .. } => Err(Error::Unsupported {
                place: None,
                message: format!(
                    "{url} cannot be written: this program was built without object stores; enable the \
                     feature `object-store` of firesteel"
                ),
            }),
        }
    }

    pub(crate) fn target(&self) -> Target {
        match self {
            Output::Local(staged) => Target::Local(staged.attempts()),
            #[cfg(feature = "object-store")]
            Output::Remote(staged) => staged.target.clone(),
        }
    }

    /// Makes exactly these files visible.
    pub(crate) fn commit(self, files: Vec<Written>) -> Result<()> {
        match self {
            Output::Local(staged) => staged.commit(files),
            #[cfg(feature = "object-store")]
            Output::Remote(staged) => staged.commit(files),
        }
    }
}

/// A directory of an object store.
#[cfg(feature = "object-store")]
pub(crate) struct RemoteStaged {
    /// `None` from the commit on.
    output: Option<firesteel_io::RemoteOutput>,
    target: Target,
    url: String,
    engine: Arc<Engine>,
}

#[cfg(feature = "object-store")]
impl RemoteStaged {
    fn create(
        url: &str,
        options: &Arc<firesteel_io::StoreOptions>,
        replace: bool,
        engine: Arc<Engine>,
    ) -> Result<Self> {
        let job = format!("{:x}-{:016x}", std::process::id(), fastrand::u64(..));
        let output = firesteel_io::RemoteOutput::create(url, options, &job, replace)
            .map_err(|error| commit_failed(url, error))?;
        let target = output.target();
        Ok(RemoteStaged { output: Some(output), target, url: url.to_owned(), engine })
    }

    fn commit(mut self, files: Vec<Written>) -> Result<()> {
        let committed = self.output.take().map_or(Ok(()), |output| output.commit(files));
        committed.map_err(|error| commit_failed(&self.url, error))
    }
}

/// What was uploaded is given up, also by tasks that have not yet heard that their job is over.
#[cfg(feature = "object-store")]
impl Drop for RemoteStaged {
    fn drop(&mut self) {
        if self.output.is_some() {
            self.engine.await_tasks_of_ended_jobs();
        }
    }
}

#[cfg(feature = "object-store")]
fn commit_failed(url: &str, error: firesteel_io::CommitError) -> Error {
    use firesteel_io::CommitError;
    let source = match error {
        CommitError::Exists => return Error::OutputExists { place: None, path: url.into() },
        CommitError::Locked(lock) => io::Error::other(format!(
            "another job is committing to it; if none does any more, remove {lock}"
        )),
        CommitError::Io(error) => error,
    };
    failed("write", Path::new(url))(source)
}

/// A directory that becomes visible as a whole, or never.
///
/// ```text
///   target's parent/
///     ._temporary.NAME.UNIQUE/    removed at the end, or by the next save if this process is killed
///       owner.lock                held while this process lives
///       attempts/                 where tasks write, also those that were given up but go on
///       output/                   the files that count; renamed to the target
///       replaced/                 what the target was before, until the new one is in its place
/// ```
pub(crate) struct Staged {
    target: PathBuf,
    staging: PathBuf,
    replace: bool,
    /// Parents of the target that were not there before, outermost first.
    parents: Vec<PathBuf>,
    leftovers: Leftovers,
    /// `None` on a file system without locks: there nobody removes what a killed save left.
    lock: Option<OwnerLock>,
}

impl Staged {
    /// Prepares to write `target`; refuses one that exists unless it shall be replaced.
    pub(crate) fn create(given: &Path, replace: bool, leftovers: &Leftovers) -> Result<Self> {
        let target = std::path::absolute(given).map_err(failed("resolve", given))?;
        clear_killed_saves(&target);
        if !replace && exists(given) {
            return Err(Error::OutputExists { place: None, path: given.to_owned() });
        }
        let prefix = staging_prefix(&target).ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it has no file name");
            failed("write", &target)(source)
        })?;
        let parent = parent_of(&target);
        let unique = format!("{:x}-{:08x}", std::process::id(), fastrand::u32(..));
        let staging = parent.join(prefix + &unique);
        let missing = parent.ancestors().take_while(|parent| !exists(parent));
        let mut parents: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        parents.reverse();
        leftovers.lock().insert(staging.clone());
        let leftovers = leftovers.clone();
        // From here on, dropping it removes what was made.
        let mut staged = Staged { target, staging, replace, parents, leftovers, lock: None };
        for directory in [staged.attempts(), staged.output()] {
            std::fs::create_dir_all(&directory).map_err(failed("create", &directory))?;
        }
        let lock = OwnerLock::take(&staged.staging);
        staged.lock = lock.inspect_err(|error| tracing::debug!(%error, "no lock")).ok();
        Ok(staged)
    }

    pub(crate) fn attempts(&self) -> PathBuf {
        self.staging.join("attempts")
    }

    fn output(&self) -> PathBuf {
        self.staging.join("output")
    }

    /// Makes a directory of exactly these files visible.
    pub(crate) fn commit(self, files: Vec<Written>) -> Result<()> {
        let output = self.output();
        for file in files {
            let WrittenAt::Local(path) = &file.at else { continue };
            check_length(path, file.bytes).map_err(failed("commit", path))?;
            std::fs::rename(path, output.join(&file.name)).map_err(failed("rename", path))?;
        }
        let marker = output.join("_SUCCESS");
        std::fs::write(&marker, b"").map_err(failed("write", &marker))?;
        match self.replace && exists(&self.target) {
            true => self.replace_target(&output),
            false => self.put_in_place(&output),
        }
    }

    /// Does not replace what came to be meanwhile. Between the look and the rename only an empty
    /// directory could: rename refuses anything else.
    fn put_in_place(&self, output: &Path) -> Result<()> {
        if exists(&self.target) {
            return Err(self.exists());
        }
        std::fs::rename(output, &self.target).map_err(|source| match source.kind() {
            io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory => self.exists(),
            _ => failed("put in place", &self.target)(source),
        })
    }

    fn exists(&self) -> Error {
        Error::OutputExists { place: None, path: self.target.clone() }
    }

    /// Moves the old output aside, the new one into its place, and the old one back if that fails.
    /// In between there is none: two renames are as close as file systems in general allow.
    fn replace_target(&self, output: &Path) -> Result<()> {
        let replaced = self.staging.join("replaced");
        // A thread that removes leftovers now would remove the old output with them.
        let _leftovers_stay = self.leftovers.lock();
        std::fs::rename(&self.target, &replaced).map_err(failed("move aside", &self.target))?;
        let placed = self.put_in_place(output);
        if placed.is_err() && std::fs::rename(&replaced, &self.target).is_err() {
            // Somebody else's output is there now; what was replaced is not thrown away.
            let kept = self.staging.with_extension("replaced");
            std::fs::rename(&replaced, &kept).map_err(failed("keep", &kept))?;
            tracing::error!(path = %kept.display(), "the replaced output was kept here");
        }
        placed
    }
}

/// What a task wrote is here, all of it: it may have written to another disk than this process sees.
fn check_length(path: &Path, expected: u64) -> io::Result<()> {
    let shared = "the driver and all executors have to see the same disk under this path";
    // Opened, because a network file system answers that from the server.
    let about = std::fs::File::open(path).and_then(|file| file.metadata());
    let found =
        about.map_err(|error| io::Error::new(error.kind(), format!("{error}; {shared}")))?;
    match found.len() == expected {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "it has {} bytes here, and {expected} where its task wrote it; {shared}",
            found.len()
        ))),
    }
}

fn parent_of(target: &Path) -> &Path {
    target.parent().unwrap_or(Path::new("/"))
}

/// What the names of directories begin with in which saves to `target` stage their files.
fn staging_prefix(target: &Path) -> Option<String> {
    target.file_name().map(|name| format!("._temporary.{}.", name.to_string_lossy()))
}

/// Removes what saves to `target` left whose processes were killed.
fn clear_killed_saves(target: &Path) {
    let Some(prefix) = staging_prefix(target) else { return };
    let entries = std::fs::read_dir(parent_of(target)).into_iter().flatten().flatten();
    for entry in entries {
        let (name, staging) = (entry.file_name(), entry.path());
        let unique = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.split_once('-'));
        let is_number = |text: &str| u64::from_str_radix(text, 16).is_ok();
        let of_target = unique.is_some_and(|(pid, random)| is_number(pid) && is_number(random));
        if of_target && is_abandoned(&staging) && put_back(&staging, target) {
            tracing::info!(path = %staging.display(), "removing what a killed save left");
            remove_busy_directory(&staging);
        }
    }
}

/// Puts back the output that a killed save was about to replace. False if its place is taken: then it
/// stays where it is.
fn put_back(staging: &Path, target: &Path) -> bool {
    let replaced = staging.join("replaced");
    // Once the new output is in its place, the old one is not wanted any more.
    if !exists(&replaced) || !exists(&staging.join("output")) {
        return true;
    }
    let put_back = !exists(target) && std::fs::rename(&replaced, target).is_ok();
    if !put_back {
        let path = replaced.display();
        tracing::warn!(%path, "a killed save was replacing this output; it is kept here");
    }
    put_back
}

/// Whatever it is, also a symbolic link to nowhere.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// After a commit there is little left to remove. What cannot be removed, because a task that was
/// given up still writes, is tried again when the application ends.
impl Drop for Staged {
    fn drop(&mut self) {
        if remove_busy_directory(&self.staging) {
            self.leftovers.lock().remove(&self.staging);
        }
        // Those that hold something now refuse.
        for parent in self.parents.iter().rev() {
            let _ = std::fs::remove_dir(parent);
        }
    }
}

/// Removes a directory into which somebody may still write; whether it is gone.
fn remove_busy_directory(path: &Path) -> bool {
    const TRIES: usize = 10;
    (0..TRIES).any(|_| match std::fs::remove_dir_all(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound && !exists(path),
    })
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| {
        let (path, source) = (path.clone(), Arc::new(source));
        Error::Output { place: None, action, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_output_is_put_back_when_the_new_one_cannot_take_its_place() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("out");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("old"), "old").unwrap();
        let leftovers = Leftovers::default();
        let staged = Staged::create(&target, true, &leftovers).unwrap();
        let error = staged.replace_target(&scratch.path().join("missing")).unwrap_err();
        assert!(error.to_string().contains("could not put in place"), "{error}");
        assert_eq!(std::fs::read(target.join("old")).unwrap(), b"old");
        drop(staged);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
        assert!(leftovers.lock().is_empty());
    }

    #[test]
    fn an_attempt_that_does_not_count_adds_nothing_to_the_output() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("new/out");
        let staged = Staged::create(&target, false, &Leftovers::default()).unwrap();
        let attempts = staged.attempts();
        for attempt in ["part-00000.attempt-1", "part-00000.attempt-2"] {
            std::fs::write(attempts.join(attempt), attempt).unwrap();
        }
        let path = attempts.join("part-00000.attempt-2");
        let written =
            Written { name: "part-00000".to_owned(), bytes: 20, at: WrittenAt::Local(path) };
        staged.commit(vec![written]).unwrap();
        assert!(std::fs::write(attempts.join("part-00000.attempt-3"), "late").is_err());
        assert_eq!(std::fs::read(target.join("part-00000")).unwrap(), b"part-00000.attempt-2");
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 2);
        assert_eq!(std::fs::read_dir(scratch.path().join("new")).unwrap().count(), 1);
    }

    #[test]
    fn what_was_made_for_an_output_that_failed_is_removed_also_its_parents() {
        let scratch = tempfile::tempdir().unwrap();
        let leftovers = Leftovers::default();
        drop(Staged::create(&scratch.path().join("a/b/out"), false, &leftovers).unwrap());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        let _interrupted = Staged::create(&scratch.path().join("out"), false, &leftovers).unwrap();
        leftovers.remove();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_save_left_goes_with_the_next_save_of_its_target_and_no_other() {
        let scratch = tempfile::tempdir().unwrap();
        let left = |name: &str| {
            let staging = scratch.path().join(name);
            std::fs::create_dir_all(staging.join("attempts")).unwrap();
            drop(OwnerLock::take(&staging).unwrap());
            staging
        };
        let [killed, other] = ["._temporary.out.1-2", "._temporary.out.b.1-2"].map(left);
        let target = scratch.path().join("out");
        let living = Staged::create(&target, false, &Leftovers::default()).unwrap();
        assert!(!killed.exists() && other.exists());
        drop(Staged::create(&target, false, &Leftovers::default()).unwrap());
        assert!(living.attempts().exists(), "its process lives");
    }

    #[test]
    fn an_output_that_a_killed_save_was_replacing_is_put_back_or_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let (target, staging) =
            (scratch.path().join("out"), scratch.path().join("._temporary.out.1-2"));
        let kill_while_replacing = || {
            std::fs::create_dir_all(staging.join("output")).unwrap();
            std::fs::create_dir(staging.join("replaced")).unwrap();
            std::fs::write(staging.join("replaced/old"), "old").unwrap();
            drop(OwnerLock::take(&staging).unwrap());
        };
        kill_while_replacing();
        let refused = Staged::create(&target, false, &Leftovers::default()).map(drop);
        assert!(matches!(refused, Err(Error::OutputExists { .. })), "it is there again");
        assert!(target.join("old").exists() && !staging.exists());
        kill_while_replacing();
        drop(Staged::create(&target, true, &Leftovers::default()).unwrap());
        assert!(staging.join("replaced/old").exists(), "something else is in its place");
    }

    #[test]
    fn a_file_that_is_not_as_long_here_as_its_task_says_is_not_committed() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("out");
        for (text, needle) in [(Some("abc"), "3 bytes here, and 4"), (None, "see the same disk")] {
            let staged = Staged::create(&target, false, &Leftovers::default()).unwrap();
            let path = staged.attempts().join("part-00000.attempt-1");
            text.inspect(|text| std::fs::write(&path, text).unwrap());
            let at = WrittenAt::Local(path);
            let written = Written { name: "part-00000".to_owned(), bytes: 4, at };
            let error = staged.commit(vec![written]).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
            assert!(!target.exists());
        }
    }
}
