//! The code of stages: sent or fetched once per executor and stage, decoded once, cached as long as the driver has
//! it and there is room. With it go the values that it was sent with and the broadcasts that it reads; a task that
//! runs keeps its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use firesteel_storage::{HeldBytes, MemoryManager};

use crate::panics::drop_guarded;

/// Code of this many stages is cached, and of this many bytes; the newest in any case.
const STAGES: usize = 64;
const BYTES: usize = 256 << 20;
/// So many stages are remembered as gone, the latest: a task on its way to an end may still bring their code.
const GONE_LIMIT: usize = 1 << 16;

type Slot<B> = Arc<Mutex<Option<Arc<Code<B>>>>>;

/// Smaller code is not counted.
const COUNTED_BYTES: usize = 64 << 10;

/// One stage's code: bytes until the first task needs more, then what all its tasks run.
pub(super) struct Code<B: ?Sized> {
    form: Mutex<Form<B>>,
    /// What it takes, about: of what it becomes the bytes tell as much as anybody knows.
    _held: Option<HeldBytes>,
}

enum Form<B: ?Sized> {
    Encoded(Vec<u8>),
    Decoded(Arc<B>),
}

impl<B: ?Sized> Code<B> {
    /// What all tasks of the stage run. One thread decodes and the others wait; if that unwinds, the next
    /// one tries.
    pub(super) fn decoded(&self, decode: impl FnOnce(&[u8]) -> Arc<B>) -> Arc<B> {
        let mut form = self.form.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let body = match &*form {
            Form::Decoded(body) => return body.clone(),
            Form::Encoded(bytes) => decode(bytes),
        };
        *form = Form::Decoded(body.clone());
        body
    }
}

struct Cached<B: ?Sized> {
    slots: BTreeMap<u64, Slot<B>>,
    /// With their sizes, the oldest first.
    filled: VecDeque<(u64, usize)>,
    bytes: usize,
    /// What the driver has let go.
    gone: BTreeSet<u64>,
}

impl<B: ?Sized> Cached<B> {
    fn remove(&mut self, code: u64) -> Option<Slot<B>> {
        if let Some(place) = self.filled.iter().position(|(filled, _)| *filled == code) {
            let (_, bytes) = self.filled.remove(place)?;
            self.bytes -= bytes;
        }
        self.slots.remove(&code)
    }
}

/// Bodies by the name of their stage's code.
pub(super) struct CodeCache<B: ?Sized> {
    cached: Mutex<Cached<B>>,
    memory: Arc<MemoryManager>,
}

const UNBROKEN: &str = "nothing panics under this lock";

impl<B: ?Sized> CodeCache<B> {
    /// An empty one, which counts what it caches there.
    pub(super) fn new(memory: Arc<MemoryManager>) -> Self {
        let (slots, filled, gone) = (BTreeMap::new(), VecDeque::new(), BTreeSet::new());
        CodeCache { cached: Mutex::new(Cached { slots, filled, bytes: 0, gone }), memory }
    }

    /// Keeps code that came along with a task.
    pub(super) fn put(&self, code: u64, body: Vec<u8>) {
        let slot = self.slot(code);
        // Taken: a task fetches it, and the thread that handles messages must not wait for that.
        if let Ok(mut place) = slot.try_lock()
            && place.is_none()
        {
            self.fill(code, &mut place, body);
        }
    }

    /// The code, which `fetch` brings if it is not there: one thread at a time, and the others wait.
    pub(super) fn get<E>(
        &self,
        code: u64,
        fetch: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<Code<B>>, E> {
        let slot = self.slot(code);
        let mut place = slot.lock().expect(UNBROKEN);
        if let Some(body) = &*place {
            return Ok(body.clone());
        }
        Ok(self.fill(code, &mut place, fetch()?))
    }

    /// The driver has let this code go: nobody is going to run it any more.
    pub(super) fn remove(&self, code: u64) {
        let mut cached = self.cached.lock().expect(UNBROKEN);
        cached.gone.insert(code);
        if cached.gone.len() > GONE_LIMIT {
            cached.gone.pop_first();
        }
        let removed = cached.remove(code);
        // What is dropped may be the user's, and do anything.
        drop(cached);
        drop(removed);
    }

    /// Lets all code go; what is needed is fetched again.
    pub(super) fn clear(&self) {
        let mut cached = self.cached.lock().expect(UNBROKEN);
        cached.filled.clear();
        cached.bytes = 0;
        let removed = std::mem::take(&mut cached.slots);
        drop(cached);
        drop(removed);
    }

    /// A place of its own for code that is gone: it is not found again.
    fn slot(&self, code: u64) -> Slot<B> {
        let mut cached = self.cached.lock().expect(UNBROKEN);
        match cached.gone.contains(&code) {
            true => Slot::default(),
            false => cached.slots.entry(code).or_default().clone(),
        }
    }

    /// Puts it in its place and lets the oldest go. Their slots are dropped, never locked: somebody may
    /// hold one who waits for this.
    fn fill(&self, code: u64, place: &mut Option<Arc<Code<B>>>, body: Vec<u8>) -> Arc<Code<B>> {
        let length = body.len();
        let held = (length >= COUNTED_BYTES)
            .then(|| HeldBytes::count(&self.memory, length as u64, "the code of a stage"));
        let mut cached = self.cached.lock().expect(UNBROKEN);
        let body = Arc::new(Code { form: Mutex::new(Form::Encoded(body)), _held: held });
        *place = Some(body.clone());
        // Let go since it was asked for: its place is not among the others any more.
        if !cached.slots.contains_key(&code) {
            return body;
        }
        cached.bytes += length;
        cached.filled.push_back((code, length));
        let mut gone = Vec::new();
        while cached.filled.len() > 1 && (cached.filled.len() > STAGES || cached.bytes > BYTES) {
            if let Some((oldest, bytes)) = cached.filled.pop_front() {
                cached.bytes -= bytes;
                gone.extend(cached.slots.remove(&oldest));
            }
        }
        // What is dropped may be the user's, and do anything: the locks of others are not for that.
        drop(cached);
        drop_guarded(gone);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> CodeCache<[u8]> {
        CodeCache::new(Arc::new(MemoryManager::new(1 << 20, 0.5)))
    }

    #[test]
    fn large_code_is_on_the_books_as_long_as_somebody_has_it() {
        let cache = cache();
        let running = cache.get(1, || Ok::<_, ()>(vec![1; 100_000])).unwrap();
        cache.put(2, vec![1; 100]);
        assert_eq!(cache.memory.used(), (100_000, 0));
        cache.remove(1);
        assert_eq!(cache.memory.used(), (100_000, 0), "a task runs it");
        drop(running);
        assert_eq!(cache.memory.used(), (0, 0));
    }

    #[test]
    fn code_is_fetched_once_until_too_many_others_came() {
        let (cache, fetched) = (cache(), std::cell::Cell::new(0));
        let fetch = || {
            fetched.set(fetched.get() + 1);
            Ok::<_, ()>(vec![1])
        };
        cache.get(0, fetch).unwrap();
        assert_eq!(*cache.get(0, fetch).unwrap().decoded(|bytes| bytes.into()), [1]);
        assert_eq!(fetched.get(), 1);
        for code in 1..=STAGES as u64 {
            cache.put(code, vec![2]);
        }
        cache.get(0, fetch).unwrap();
        assert_eq!(fetched.get(), 2, "the oldest had to go");
        assert!(cache.cached.lock().unwrap().slots.len() <= STAGES);
    }

    #[test]
    fn code_that_the_driver_has_let_go_stays_with_those_who_run_it_only() {
        let cache = cache();
        let running = cache.get(1, || Ok::<_, ()>(vec![1])).unwrap();
        let body = Arc::downgrade(&running.decoded(|bytes| bytes.into()));
        cache.remove(1);
        assert!(body.upgrade().is_some(), "a task runs it");
        drop(running);
        assert!(body.upgrade().is_none());
        // A task that was on its way brings it again, or fetches it.
        cache.put(1, vec![1]);
        let late = cache.get(1, || Ok::<_, ()>(vec![2])).unwrap();
        assert_eq!(*late.decoded(|bytes| bytes.into()), [2]);
        let cached = cache.cached.lock().unwrap();
        assert!(cached.slots.is_empty() && cached.filled.is_empty() && cached.bytes == 0);
    }

    #[test]
    fn code_that_is_let_go_while_it_is_fetched_is_not_kept() {
        let cache = cache();
        let fetched = cache.get(1, || {
            cache.remove(1);
            Ok::<_, ()>(vec![1])
        });
        assert_eq!(*fetched.unwrap().decoded(|bytes| bytes.into()), [1]);
        cache.put(2, vec![2]);
        cache.clear();
        let cached = cache.cached.lock().unwrap();
        assert!(cached.slots.is_empty() && cached.filled.is_empty() && cached.bytes == 0);
    }

    #[test]
    fn a_fetch_that_fails_is_tried_again() {
        let cache = cache();
        assert_eq!(cache.get(1, || Err("no")).err(), Some("no"));
        assert!(cache.get(1, || Ok::<_, ()>(Vec::new())).is_ok());
    }

    #[test]
    fn code_is_decoded_once_and_again_only_if_that_failed() {
        let cache = cache();
        let code = cache.get(1, || Ok::<_, ()>(vec![1])).unwrap();
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            code.decoded(|_| panic!("a type that cannot be read"))
        }));
        assert!(failed.is_err());
        assert_eq!(*code.decoded(|bytes| bytes.into()), [1]);
        let again = cache.get(1, || Err(())).unwrap();
        assert_eq!(*again.decoded(|_| panic!("it was decoded before")), [1]);
    }
}
