//! Open files within the process's limit (`ulimit -n`).
//!
//! A file that was written holds no handle of its own. Readers share handles out of one cache per process,
//! which is a part of the limit: however many map outputs and cached partitions lie on disk, sockets and the
//! user's own files find room. When it is full, a random handle is closed: readers go through files in turn,
//! and the least recently used would always be the one that is wanted next.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The share of the limit that is used for handles that nobody reads from at the moment.
const SHARE: u64 = 4;
const FEWEST: u64 = 8;
const MOST: u64 = 4096;
/// How often to try again when the process has no handle left, and after which pause: others close theirs.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// Raises the soft limit of open files to the hard one, once per process.
pub fn raise_open_file_limit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current == maximum {
            return;
        }
        match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            Ok(()) => tracing::info!(?current, ?maximum, "limit of open files raised"),
            Err(error) => tracing::warn!(?current, %error, "limit of open files not raised"),
        }
    });
}

/// The limit of open files now; `None`: there is none.
fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Whether a file could not be opened because too many are.
pub fn is_out_of_files(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::MFILE.raw_os_error()) || code == Some(Errno::NFILE.raw_os_error())
}

/// What to do when too many files are open.
pub(crate) fn hint() -> String {
    let allowed = limit().map_or_else(|| "any number of".to_owned(), |limit| limit.to_string());
    format!("this process may have {allowed} files open: raise that with `ulimit -n`")
}

/// Tells a file from all others that this process ever had.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The handles of this process.
pub(crate) fn shared() -> &'static OpenFiles {
    static SHARED: OnceLock<OpenFiles> = OnceLock::new();
    SHARED.get_or_init(|| {
        let most = limit().map_or(MOST, |limit| (limit / SHARE).clamp(FEWEST, MOST));
        OpenFiles::new(most as usize)
    })
}

/// A bounded number of handles, by the numbers of their files.
pub(crate) struct OpenFiles {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Vec<(u64, Arc<File>)>,
    /// Where in `open` a file is.
    places: HashMap<u64, usize>,
    random: u64,
}

impl State {
    fn remove(&mut self, place: usize) -> Arc<File> {
        let (number, file) = self.open.swap_remove(place);
        self.places.remove(&number);
        if let Some((moved, _)) = self.open.get(place) {
            self.places.insert(*moved, place);
        }
        file
    }

    fn insert(&mut self, number: u64, file: Arc<File>) {
        self.places.insert(number, self.open.len());
        self.open.push((number, file));
    }

    fn random_place(&mut self) -> usize {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.random >> 33) as usize % self.open.len()
    }
}

impl OpenFiles {
    fn new(most: usize) -> Self {
        OpenFiles { most, state: Mutex::default() }
    }

    /// A handle to read a file with; an open one if there is.
    pub(crate) fn get(&self, number: u64, path: &Path) -> io::Result<Arc<File>> {
        let state = self.lock();
        if let Some(place) = state.places.get(&number) {
            return Ok(state.open[*place].1.clone());
        }
        drop(state);
        let file = Arc::new(self.retrying(|| File::open(path))?);
        let mut state = self.lock();
        if let Some(place) = state.places.get(&number) {
            return Ok(state.open[*place].1.clone());
        }
        let place = (state.open.len() >= self.most).then(|| state.random_place());
        let evicted = place.map(|place| state.remove(place));
        state.insert(number, file.clone());
        drop(state);
        drop(evicted); // closing takes time
        Ok(file)
    }

    /// Opens a file. If there are too many, closes those that nobody reads from, and tries again.
    pub(crate) fn retrying(&self, open: impl Fn() -> io::Result<File>) -> io::Result<File> {
        let mut tries = 0;
        loop {
            match open() {
                Err(error) if is_out_of_files(&error) && tries < TRIES => {
                    tries += 1;
                    self.close_all();
                    std::thread::sleep(PAUSE);
                }
                opened => return opened,
            }
        }
    }

    /// A file is gone: nothing of it stays on disk.
    pub(crate) fn forget(&self, number: u64) {
        let mut state = self.lock();
        let place = state.places.get(&number).copied();
        let removed = place.map(|place| state.remove(place));
        drop(state);
        drop(removed);
    }

    fn close_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_handles_than_allowed_stay_open_and_each_reads_its_own_file() {
        let root = tempfile::tempdir().unwrap();
        let files = OpenFiles::new(8);
        let path = |number: u64| root.path().join(number.to_string());
        for number in 0..100 {
            std::fs::write(path(number), number.to_string()).unwrap();
        }
        for number in (0..100).chain(0..100).chain([5, 5, 7]) {
            let file = files.get(number, &path(number)).unwrap();
            assert_eq!(text(&file), number.to_string());
            let state = files.lock();
            assert!(state.open.len() <= 8 && state.open.len() == state.places.len());
            assert!(state.open.iter().enumerate().all(|(at, (n, _))| state.places[n] == at));
        }
        (0..100).for_each(|number| files.forget(number));
        assert!(files.lock().open.is_empty());
    }

    /// Readers never use a handle's own position.
    fn text(file: &File) -> String {
        use std::os::unix::fs::FileExt;
        let mut buffer = [0; 8];
        let read = file.read_at(&mut buffer, 0).unwrap();
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    }

    #[test]
    fn a_handle_outlives_its_place_in_the_cache_and_its_file() {
        let root = tempfile::tempdir().unwrap();
        let (files, path) = (OpenFiles::new(1), root.path().join("x"));
        std::fs::write(&path, "still here").unwrap();
        let file = files.get(1, &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        files.forget(1);
        assert_eq!(io::read_to_string(&*file).unwrap(), "still here");
        assert_eq!(files.get(1, &path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_process_without_handles_closes_what_nobody_reads_and_tries_again() {
        let root = tempfile::tempdir().unwrap();
        let (files, path) = (OpenFiles::new(8), root.path().join("x"));
        std::fs::write(&path, "x").unwrap();
        drop(files.get(1, &path).unwrap());
        let opened = files.retrying(|| match files.lock().open.is_empty() {
            true => File::open(&path),
            false => Err(Errno::MFILE.into()),
        });
        assert!(opened.is_ok());
        let refused = files.retrying(|| Err(Errno::MFILE.into())).unwrap_err();
        assert!(is_out_of_files(&refused));
    }
}
