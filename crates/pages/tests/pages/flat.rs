//! Whether pages that are left open hold no more than at first: bars out of what was measured. A page that was open for an hour is
//! compared with the same page just loaded, so that what it shows may change.

/// Below this many seconds figures are no bars.
const BARS_FROM: u64 = 600;
/// A page that follows asks for itself so often at least, seconds.
const ASKS_EVERY: u64 = 4;

/// Old, and fresh.
type Pair = [u64; 2];

/// What `open.mjs` says of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageHeld {
    path: String,
    heap_kb: Pair,
    nodes: Pair,
    documents: Pair,
    listeners: Pair,
    /// Answers with status 200, and others.
    asked: Pair,
}

/// What a Chromium held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pages: Vec<PageHeld>,
    /// Of all its processes, in the second and in the last fifth of the time.
    chromium_kb: Option<Pair>,
}

impl Held {
    pub(crate) fn read(told: &str) -> Self {
        let mut held = Held::default();
        for line in told.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let pair = |name: &str| {
                let at = words.iter().position(|word| *word == name)?;
                Some([words.get(at + 1)?.parse().ok()?, words.get(at + 2)?.parse().ok()?])
            };
            match words.first() {
                Some(&"chromium") => held.chromium_kb = pair("chromium"),
                Some(&"held") => held.pages.extend((|| {
                    Some(PageHeld {
                        path: (*words.get(1)?).to_owned(),
                        heap_kb: pair("heap")?,
                        nodes: pair("nodes")?,
                        documents: pair("documents")?,
                        listeners: pair("listeners")?,
                        asked: pair("asked")?,
                    })
                })()),
                _ => {}
            }
        }
        held
    }
}

/// What was measured while pages were open.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    pub seconds: u64,
    /// What the server held, look by look.
    pub server_kb: Vec<u64>,
    /// Updates that each reader of them was told.
    pub updates: u64,
    /// So many pages were open in the browser.
    pub pages: usize,
    pub browser: Option<Held>,
}

/// The median of a part of all looks, in fifths.
fn fifth(all: &[u64], number: usize) -> Option<u64> {
    let mut part = all[all.len() * number / 5..all.len() * (number + 1) / 5].to_vec();
    part.sort_unstable();
    part.get(part.len() / 2).copied()
}

/// A name, what was measured, the limit, and whether it is a least value. `None`: it was not measured.
type Line = (&'static str, Option<(u64, u64)>, bool);

/// The page that is nearest to its limit, or furthest beyond.
fn worst(
    pages: &[PageHeld],
    of: impl Fn(&PageHeld) -> Pair,
    limit: impl Fn(u64) -> u64,
) -> Option<(u64, u64)> {
    let all = pages.iter().map(|page| {
        let [old, fresh] = of(page);
        (old, limit(fresh))
    });
    all.max_by_key(|(old, limit)| i128::from(*old) - i128::from(*limit))
}

fn all(left: &Left) -> Vec<Line> {
    let server = fifth(&left.server_kb, 1).zip(fifth(&left.server_kb, 4));
    let least = left.seconds / ASKS_EVERY;
    let none = Held::default();
    let held = left.browser.as_ref().unwrap_or(&none);
    // One that is missing is not measured.
    let pages = if held.pages.len() == left.pages { &held.pages[..] } else { &[] };
    vec![
        // What the allocator holds moves by itself.
        ("server_kb", server.map(|(first, last)| (last, first + first / 50 + 2048)), false),
        ("updates", Some((left.updates, least)), true),
        ("browser_asked", pages.iter().map(|it| (it.asked[0], least)).min(), true),
        ("browser_refused", worst(pages, |it| [it.asked[1], 0], |_| 0), false),
        ("browser_heap_kb", worst(pages, |it| it.heap_kb, |fresh| fresh + fresh / 10 + 256), false),
        ("browser_nodes", worst(pages, |it| it.nodes, |fresh| fresh + fresh / 20 + 100), false),
        ("browser_documents", worst(pages, |it| it.documents, |fresh| fresh), false),
        ("browser_listeners", worst(pages, |it| it.listeners, |fresh| fresh), false),
        ("chromium_kb", held.chromium_kb.map(|[first, last]| (last, first + first / 10)), false),
    ]
}

/// `bar NAME VALUE LIMIT ok|short` each; of a shorter time, figures that are no bars. Above them all that was measured.
pub(crate) fn lines(left: &Left) -> Vec<String> {
    let word = if left.seconds < BARS_FROM { "figure" } else { "bar" };
    let bars = all(left).into_iter().map(|(name, measured, is_least)| {
        let name = format!("{word} pages_open_{}s_{name}", left.seconds);
        let Some((value, limit)) = measured else { return format!("{name} - - short") };
        let is_ok = if is_least { value >= limit } else { value <= limit };
        format!("{name} {value} {limit} {}", if is_ok { "ok" } else { "short" })
    });
    let pages = left.browser.iter().flat_map(|held| &held.pages).map(|it| format!("{it:?}"));
    pages.chain(bars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "noise\n\
        held / heap 1100 1000 kb nodes 1000 1000 documents 2 2 listeners 9 9 asked 900 0\n\
        held /jobs/ heap 1300 1000 kb nodes 1140 1000 documents 2 2 listeners 9 9 asked 901 0\n\
        chromium 300000 310000 kb\n";

    fn left(told: &str) -> Left {
        let server_kb = (0..100).map(|at| if at < 20 { 40_000 } else { 60_000 + at }).collect();
        let browser = Some(Held::read(told));
        Left { seconds: 3600, server_kb, updates: 3000, pages: 2, browser }
    }

    fn short(left: &Left) -> Vec<String> {
        let short = lines(left).into_iter().filter(|line| line.ends_with(" short"));
        let name = |line: String| line.split(' ').nth(1).unwrap_or_default().to_owned();
        short.map(|line| name(line).replace("pages_open_3600s_", "")).collect()
    }

    #[test]
    fn pages_that_hold_what_the_same_pages_hold_when_they_are_loaded_are_flat() {
        assert_eq!(short(&left(TOLD)), Vec::<String>::new());
        assert!(
            lines(&left(TOLD))
                .contains(&"bar pages_open_3600s_browser_heap_kb 1300 1356 ok".to_owned())
        );
        let short_time = Left { seconds: 60, ..left(TOLD) };
        assert!(lines(&short_time).iter().all(|line| !line.starts_with("bar ")));
    }

    #[test]
    fn one_page_that_leaks_or_does_not_follow_is_noticed_among_others() {
        for (was, is, name) in [
            ("heap 1300", "heap 1400", "browser_heap_kb"),
            ("nodes 1140", "nodes 1151", "browser_nodes"),
            (
                "documents 2 2 listeners 9 9 asked 901",
                "documents 3 2 listeners 9 9 asked 901",
                "browser_documents",
            ),
            ("listeners 9 9 asked 901", "listeners 10 9 asked 901", "browser_listeners"),
            ("asked 901 0", "asked 899 0", "browser_asked"),
            ("asked 901 0", "asked 901 1", "browser_refused"),
            ("310000", "331000", "chromium_kb"),
        ] {
            assert!(TOLD.contains(was), "{was}");
            assert_eq!(short(&left(&TOLD.replace(was, is))), [name], "{is}");
        }
        let not_told = Left { updates: 899, ..left(TOLD) };
        assert_eq!(short(&not_told), ["updates"]);
        let mut grows = left(TOLD);
        grows.server_kb = (0..100).map(|at| 60_000 + at * 100).collect();
        assert_eq!(short(&grows), ["server_kb"]);
    }

    #[test]
    fn what_was_not_measured_is_short() {
        let of_one = left(&TOLD.replace("held /jobs/", "lost /jobs/"));
        assert_eq!(short(&of_one).len(), 6, "{:?}", lines(&of_one));
        let nothing = Left { server_kb: Vec::new(), browser: None, ..left(TOLD) };
        assert_eq!(short(&nothing).len(), 8, "{:?}", lines(&nothing));
    }
}
