//! The code of stages: sent or fetched once per executor and stage, decoded once, kept as long as there is room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Code of this many stages is kept, and of this many bytes; the newest in any case.
const STAGES: usize = 64;
const BYTES: usize = 256 << 20;

type Slot<B> = Arc<Mutex<Option<Arc<Code<B>>>>>;

/// One stage's code: bytes until the first task needs more, then what all its tasks run.
pub(super) struct Code<B: ?Sized>(Mutex<Form<B>>);

enum Form<B: ?Sized> {
    Encoded(Vec<u8>),
    Decoded(Arc<B>),
}

impl<B: ?Sized> Code<B> {
    /// What all tasks of the stage run. One thread decodes and the others wait; if that unwinds, the next
    /// one tries.
    pub(super) fn decoded(&self, decode: impl FnOnce(&[u8]) -> Arc<B>) -> Arc<B> {
        let mut form = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let body = match &*form {
            Form::Decoded(body) => return body.clone(),
            Form::Encoded(bytes) => decode(bytes),
        };
        *form = Form::Decoded(body.clone());
        body
    }
}

struct Kept<B: ?Sized> {
    slots: BTreeMap<u64, Slot<B>>,
    /// With their sizes, the oldest first.
    filled: VecDeque<(u64, usize)>,
    bytes: usize,
}

/// Bodies by the name of their stage's code.
pub(super) struct CodeCache<B: ?Sized>(Mutex<Kept<B>>);

impl<B: ?Sized> Default for CodeCache<B> {
    fn default() -> Self {
        let (slots, filled) = (BTreeMap::new(), VecDeque::new());
        CodeCache(Mutex::new(Kept { slots, filled, bytes: 0 }))
    }
}

const UNBROKEN: &str = "nothing panics under this lock";

impl<B: ?Sized> CodeCache<B> {
    /// Keeps code that came along with a task.
    pub(super) fn put(&self, code: u64, body: Vec<u8>) {
        let slot = self.slot(code);
        // Taken: it is being fetched, and whoever brings a message must not wait for that.
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

    fn slot(&self, code: u64) -> Slot<B> {
        self.0.lock().expect(UNBROKEN).slots.entry(code).or_default().clone()
    }

    /// Puts it in its place and lets the oldest go. Their slots are dropped, never locked: somebody may
    /// hold one who waits for this.
    fn fill(&self, code: u64, place: &mut Option<Arc<Code<B>>>, body: Vec<u8>) -> Arc<Code<B>> {
        let mut kept = self.0.lock().expect(UNBROKEN);
        kept.bytes += body.len();
        kept.filled.push_back((code, body.len()));
        let body = Arc::new(Code(Mutex::new(Form::Encoded(body))));
        *place = Some(body.clone());
        let mut gone = Vec::new();
        while kept.filled.len() > 1 && (kept.filled.len() > STAGES || kept.bytes > BYTES) {
            if let Some((oldest, bytes)) = kept.filled.pop_front() {
                kept.bytes -= bytes;
                gone.extend(kept.slots.remove(&oldest));
            }
        }
        // What is dropped may be the user's, and do anything.
        drop(kept);
        drop(gone);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_fetched_once_until_too_many_others_came() {
        let (cache, fetched) = (CodeCache::<[u8]>::default(), std::cell::Cell::new(0));
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
        assert!(cache.0.lock().unwrap().slots.len() <= STAGES);
    }

    #[test]
    fn a_fetch_that_fails_is_tried_again() {
        let cache = CodeCache::<[u8]>::default();
        assert_eq!(cache.get(1, || Err("no")).err(), Some("no"));
        assert!(cache.get(1, || Ok::<_, ()>(Vec::new())).is_ok());
    }

    #[test]
    fn code_is_decoded_once_and_again_only_if_that_failed() {
        let cache = CodeCache::<[u8]>::default();
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
