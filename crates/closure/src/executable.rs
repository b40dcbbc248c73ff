//! Which executable a process runs, and the proof that a peer runs the same.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::code::{self, Object};

/// A hash of an executable's bytes, exchanged before any code is named.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutableHash([u8; 32]);

impl ExecutableHash {
    /// The hash of the executable this process runs; computed once. An application whose code is in a shared
    /// library has none: executors run copies of the executable, and the hash would not tell what they load.
    pub fn current() -> io::Result<Self> {
        static CURRENT: OnceLock<ExecutableHash> = OnceLock::new();
        if let Some(hash) = CURRENT.get() {
            return Ok(*hash);
        }
        let running = std::fs::read_link("/proc/self/exe").ok().zip(inode_of("/proc/self/exe"));
        if let (Some(object), Some((path, inode))) = (code::object(), running) {
            refuse_library(&object, &path, inode)?;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(open_current()?)?;
        Ok(*CURRENT.get_or_init(|| ExecutableHash(*hasher.finalize().as_bytes())))
    }

    /// The hash itself, for messages that carry it as bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }
}

fn inode_of(path: &str) -> Option<u64> {
    std::fs::metadata(path).map(|about| about.ino()).ok()
}

/// Fails unless the code is in the executable at `path`, or in the same file under another name.
fn refuse_library(object: &Object, path: &Path, inode: u64) -> io::Result<()> {
    let mapped = Path::new(&object.path);
    // File systems in layers show one file under two numbers, or under two paths.
    let same_file = object.inode == inode && mapped.file_name() == path.file_name();
    if same_file || mapped == path {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "the application's code is in {}, and executors run copies of {} only: link it into the \
             executable (as an rlib), or use the master local[N]",
            object.path,
            path.display()
        ),
    ))
}

/// The executable this process runs, also if its path names another file by now, or none.
pub fn open_current() -> io::Result<File> {
    let running = File::open("/proc/self/exe");
    running.or_else(|_| File::open(std::env::current_exe()?))
}

impl fmt::Display for ExecutableHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ExecutableHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutableHash({self})")
    }
}

/// Stands for "the bytes come from a process of this very executable".
///
/// The caller that makes one vouches for it, as a caller of an `unsafe` function would. Code is named by
/// its place in the executable, and closures are made from their types alone: bytes which an
/// [`Encoder`](crate::Encoder) of this executable did not write must never reach a `Decoder`. The
/// crates of the workspace make one in two places only: for bytes that never left the process, and
/// for a peer on a private socket whose executable has the same hash. It is not part of the API that
/// the `firesteel` crate offers to programs.
#[derive(Clone, Copy, Debug)]
pub struct SameExecutable(());

impl SameExecutable {
    /// Bytes that never left this process.
    pub fn this_process() -> Self {
        SameExecutable(())
    }

    /// Bytes of an authenticated peer that says it runs the executable with this hash.
    pub fn verify(peer: ExecutableHash) -> io::Result<Option<Self>> {
        Ok((peer == ExecutableHash::current()?).then_some(SameExecutable(())))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_hash_is_the_same_executable() {
        let own = ExecutableHash::current().unwrap();
        assert!(SameExecutable::verify(own).unwrap().is_some());
        let other = ExecutableHash([7; 32]);
        assert!(SameExecutable::verify(other).unwrap().is_none());
    }

    #[test]
    fn code_in_a_library_is_refused_with_both_names() {
        let object = |inode, path: &str| Object { inode, path: path.to_owned() };
        let app = Path::new("/bin/app");
        refuse_library(&object(42, "/bin/app"), app, 42).unwrap();
        refuse_library(&object(43, "/bin/app"), app, 42).unwrap();
        refuse_library(&object(42, "/lower/bin/app"), app, 42).unwrap();
        assert!(refuse_library(&object(42, "/lib/libapp.so"), app, 42).is_err());
        let refused = refuse_library(&object(7, "/lib/libapp.so"), app, 42).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("/lib/libapp.so") && text.contains("copies of /bin/app"), "{text}");
    }
}
