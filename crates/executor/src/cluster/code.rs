//! The code of stages: sent or fetched once per executor and stage, kept as long as there is room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Code of this many stages is kept, and of this many bytes; the newest in any case.
const STAGES: usize = 64;
const BYTES: usize = 256 << 20;

type Slot = Arc<Mutex<Option<Arc<[u8]>>>>;

#[derive(Default)]
struct Kept {
    slots: BTreeMap<u64, Slot>,
    /// With their sizes, the oldest first.
    filled: VecDeque<(u64, usize)>,
    bytes: usize,
}

/// Encoded bodies by the name of their stage's code.
#[derive(Default)]
pub(super) struct CodeCache(Mutex<Kept>);

const UNBROKEN: &str = "nothing panics under this lock";

impl CodeCache {
    /// Keeps code that came along with a task.
    pub(super) fn put(&self, code: u64, body: Vec<u8>) {
        let slot = self.slot(code);
        // Taken: it is being fetched, and whoever brings a message must not wait for that.
        if let Ok(mut place) = slot.try_lock()
            && place.is_none()
        {
            self.fill(code, &mut place, body.into());
        }
    }

    /// The code, which `fetch` brings if it is not there: one thread at a time, and the others wait.
    pub(super) fn get<E>(
        &self,
        code: u64,
        fetch: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let slot = self.slot(code);
        let mut place = slot.lock().expect(UNBROKEN);
        if let Some(body) = &*place {
            return Ok(body.clone());
        }
        let body: Arc<[u8]> = fetch()?.into();
        self.fill(code, &mut place, body.clone());
        Ok(body)
    }

    fn slot(&self, code: u64) -> Slot {
        self.0.lock().expect(UNBROKEN).slots.entry(code).or_default().clone()
    }

    /// Puts it in its place and lets the oldest go. Their slots are dropped, never locked: somebody may
    /// hold one who waits for this.
    fn fill(&self, code: u64, place: &mut Option<Arc<[u8]>>, body: Arc<[u8]>) {
        let mut kept = self.0.lock().expect(UNBROKEN);
        kept.bytes += body.len();
        kept.filled.push_back((code, body.len()));
        *place = Some(body);
        while kept.filled.len() > 1 && (kept.filled.len() > STAGES || kept.bytes > BYTES) {
            if let Some((oldest, bytes)) = kept.filled.pop_front() {
                kept.bytes -= bytes;
                kept.slots.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_fetched_once_until_too_many_others_came() {
        let (cache, fetched) = (CodeCache::default(), std::cell::Cell::new(0));
        let fetch = || {
            fetched.set(fetched.get() + 1);
            Ok::<_, ()>(vec![1])
        };
        cache.get(0, fetch).unwrap();
        assert_eq!(*cache.get(0, fetch).unwrap(), [1]);
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
        let cache = CodeCache::default();
        assert_eq!(cache.get(1, || Err("no")), Err("no"));
        assert!(cache.get(1, || Ok::<_, ()>(Vec::new())).is_ok());
    }
}
