//! Pages that were made a moment ago: when many look at the same page of a running application, it is made once a second.

use std::sync::{Mutex, PoisonError};

use firesteel_types::Tick;

/// How long a page is handed out again.
const FRESH_MS: u64 = 1000;
/// How many pages are held.
const PAGES: usize = 32;

struct Page {
    key: String,
    made: Tick,
    text: String,
}

#[derive(Default)]
pub(crate) struct Recent(Mutex<Vec<Page>>);

impl Recent {
    /// The page of this key, if one is fresh.
    pub(crate) fn get(&self, key: &str, now: Tick) -> Option<String> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|page| now >= page.made && now.since_ms(page.made) < FRESH_MS);
        pages.iter().find(|page| page.key == key).map(|page| page.text.clone())
    }

    pub(crate) fn put(&self, key: String, now: Tick, text: String) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() < PAGES && pages.iter().all(|page| page.key != key) {
            pages.push(Page { key, made: now, text });
        }
    }

    /// Nobody is shown what was before a change.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_handed_out_again_for_a_second_and_only_so_many_are_held() {
        let recent = Recent::default();
        (0..100).for_each(|n| recent.put(format!("/{n}"), Tick(5000), "text".to_owned()));
        assert_eq!(recent.0.lock().unwrap().len(), PAGES);
        assert_eq!(recent.get("/3", Tick(5999)).as_deref(), Some("text"));
        assert_eq!((recent.get("/99", Tick(5999)), recent.get("/3", Tick(6000))), (None, None));
        recent.put("/3".to_owned(), Tick(9000), "text".to_owned());
        assert_eq!(recent.get("/3", Tick(8000)), None, "clocks may go back");
    }
}
