//! The groups of users, as the system of this machine tells them: `id -Gn USER`, which Spark's `ShellBasedGroupsMappingProvider` asks too.
//!
//! What was told counts for a minute. A system that does not answer knows no groups for some seconds: then lists of users decide alone.
//! It is asked once at a time for each user, and for a few users at once: who asks for the same one waits for that answer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// For how long an answer counts, and how many are remembered.
const FRESH: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 1000;
/// For how long the system is not asked again after it told nothing.
const FAILED: Duration = Duration::from_secs(5);
/// How long a directory of users may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The system is asked for so many users at once.
const AT_ONCE: usize = 4;
/// No name of a user is longer.
const LONGEST: usize = 256;
/// No list of groups is longer.
const ANSWER: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Groups {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    known: BTreeMap<String, Known>,
    /// For whom the system is being asked.
    asking: BTreeSet<String>,
}

#[derive(Debug)]
struct Known {
    told: Instant,
    /// `None`: the system did not tell.
    groups: Option<Vec<String>>,
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.told.elapsed() < if self.groups.is_some() { FRESH } else { FAILED }
    }
}

/// A question under way; whatever becomes of it, others may ask again then.
struct Asking<'a> {
    of: &'a Groups,
    user: &'a str,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.of.lock().asking.remove(self.user);
        self.of.answered.notify_all();
    }
}

impl Groups {
    pub(crate) fn of(&self, user: &str) -> Vec<String> {
        if !is_name(user) {
            return Vec::new();
        }
        self.with(user, PATIENCE * 2, asked)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks unless the answer is known; waits so long for the answers to others.
    fn with(
        &self,
        user: &str,
        patience: Duration,
        ask: impl FnOnce(&str) -> Option<Vec<String>>,
    ) -> Vec<String> {
        let may_not_ask = |state: &mut State| {
            let is_known = state.known.get(user).is_some_and(Known::is_fresh);
            !is_known && (state.asking.contains(user) || state.asking.len() >= AT_ONCE)
        };
        let waited = self.answered.wait_timeout_while(self.lock(), patience, may_not_ask);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.known.get(user).filter(|known| known.is_fresh()) {
            return known.groups.clone().unwrap_or_default();
        }
        if waited.timed_out() {
            tracing::warn!(user, "the system is asked for the groups of too many users at once");
            return Vec::new();
        }
        state.asking.insert(user.to_owned());
        drop(state);
        // Not under the lock: the system may take its time.
        let asking = Asking { of: self, user };
        let groups = ask(user);
        let mut state = self.lock();
        if state.known.len() >= REMEMBERED {
            state.known.clear();
        }
        let told = Instant::now();
        state.known.insert(user.to_owned(), Known { told, groups: groups.clone() });
        drop(state);
        drop(asking);
        groups.unwrap_or_default()
    }
}

/// Whether the system may be asked for it: a token can name anything. The system takes numbers, and what begins with a `+`, for the
/// number of a user instead of a name.
fn is_name(user: &str) -> bool {
    let is_plain = |letter: char| !letter.is_control() && !letter.is_whitespace();
    !user.is_empty()
        && user.len() <= LONGEST
        && !user.starts_with(['-', '+'])
        && !user.bytes().all(|byte| byte.is_ascii_digit())
        && user.chars().all(is_plain)
}

/// `None`: the system does not tell.
fn asked(user: &str) -> Option<Vec<String>> {
    let mut command = Command::new("id");
    command.args(["-Gn", "--", user]);
    let groups = told_by(command, PATIENCE);
    if groups.is_none() {
        tracing::warn!(user, "the system does not tell the groups of a user");
    }
    groups
}

/// The words that a command prints. One that takes too long is ended.
fn told_by(mut command: Command, patience: Duration) -> Option<Vec<String>> {
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take();
    let (told, answer) = mpsc::channel();
    let reading = std::thread::Builder::new().name("firesteel-groups".to_owned());
    // Ends when the command has.
    let reading = reading.spawn(move || {
        let mut text = Vec::new();
        let read = output.map(|output| output.take(ANSWER).read_to_end(&mut text));
        let _ = told.send(matches!(read, Some(Ok(_))).then_some(text));
    });
    let text = reading.ok().and_then(|_| answer.recv_timeout(patience).ok()?);
    if text.is_none() {
        let _ = child.kill();
    }
    let has_told = child.wait().is_ok_and(|status| status.success());
    let text = text.filter(|_| has_told)?;
    Some(String::from_utf8_lossy(&text).split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_system_is_asked_once_a_minute_and_knows_root() {
        let groups = Groups::default();
        assert!(groups.of("root").contains(&"root".to_owned()));
        let known = groups.with("root", PATIENCE, |_| panic!("it is known"));
        assert_eq!(known, groups.of("root"));
        let told = groups.with("ada", PATIENCE, |_| Some(vec!["engineers".to_owned()]));
        assert_eq!(told, ["engineers"]);
        assert_eq!(groups.of("ada"), ["engineers"]);
    }

    #[test]
    fn what_is_no_name_of_a_user_is_asked_of_nobody() {
        let long = "x".repeat(LONGEST + 1);
        let groups = Groups::default();
        for name in ["", "-u", "--help", "a b", "a\n", &long, "0", "+0", "1000", "+root"] {
            assert!(!is_name(name) && groups.of(name).is_empty(), "{name}");
        }
        assert!(is_name("u1000") && is_name("1000u"));
        assert_eq!(asked("nobody-has-this-name"), None);
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let begun = Instant::now();
        assert_eq!(told_by(command, Duration::from_millis(10)), None);
        assert!(begun.elapsed() < Duration::from_secs(500), "it was waited for");
        let mut command = Command::new("echo");
        command.arg("a b");
        assert_eq!(told_by(command, PATIENCE), Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn who_asks_for_the_same_user_at_once_waits_for_one_answer() {
        let (groups, asked) = (Groups::default(), AtomicUsize::new(0));
        let together = Barrier::new(8);
        let patience = Duration::from_secs(60);
        let ask = |_: &str| {
            asked.fetch_add(1, Ordering::Relaxed);
            Some(vec!["engineers".to_owned()])
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    assert_eq!(groups.with("ada", patience, ask), ["engineers"]);
                });
            }
        });
        assert_eq!(asked.into_inner(), 1);
    }

    /// Asks for each while it asks for the one before.
    fn nested(groups: &Groups, left: usize, then: &dyn Fn()) {
        match left {
            0 => then(),
            _ => drop(groups.with(&format!("u{left}"), PATIENCE, |_| {
                nested(groups, left - 1, then);
                None
            })),
        }
    }

    #[test]
    fn the_system_is_asked_for_few_users_at_once_and_soon_again_after_it_told_nothing() {
        let groups = Groups::default();
        let nobody = |_: &str| -> Option<Vec<String>> { panic!("there are too many already") };
        nested(&groups, AT_ONCE, &|| {
            assert!(groups.with("ada", Duration::ZERO, nobody).is_empty());
        });
        assert!(groups.lock().asking.is_empty());
        let known = groups.lock().known.remove("u1").unwrap();
        assert!(known.groups.is_none() && known.is_fresh(), "it is not asked again at once");
        let told = Instant::now().checked_sub(FAILED).unwrap();
        assert!(!Known { told, groups: None }.is_fresh());
        assert!(Known { told, groups: Some(Vec::new()) }.is_fresh());
    }
}
