//! The groups of users, as the system of this machine tells them: `id -Gn USER`, which Spark's `ShellBasedGroupsMappingProvider` asks too.
//!
//! What was told counts for a minute. A system that does not answer knows no groups: then lists of users decide alone.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// For how long an answer counts, and how many are remembered.
const FRESH: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 1000;
/// How long a directory of users may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// No name of a user is longer.
const LONGEST: usize = 256;

/// Groups by user, and when they were told.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<BTreeMap<String, (Instant, Vec<String>)>>);

impl Groups {
    pub(crate) fn of(&self, user: &str) -> Vec<String> {
        self.with(user, asked)
    }

    fn with(&self, user: &str, ask: impl FnOnce(&str) -> Vec<String>) -> Vec<String> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((told, groups)) = lock().get(user)
            && told.elapsed() < FRESH
        {
            return groups.clone();
        }
        // Not under the lock: the system may take its time.
        let groups = ask(user);
        let mut known = lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(user.to_owned(), (Instant::now(), groups.clone()));
        groups
    }
}

/// Whether the system may be asked for it: a token can name anything.
fn is_name(user: &str) -> bool {
    let is_plain = |letter: char| !letter.is_control() && !letter.is_whitespace();
    !user.is_empty()
        && user.len() <= LONGEST
        && !user.starts_with('-')
        && user.chars().all(is_plain)
}

fn asked(user: &str) -> Vec<String> {
    if !is_name(user) {
        return Vec::new();
    }
    let mut command = Command::new("id");
    command.args(["-Gn", "--", user]).stdin(Stdio::null()).stderr(Stdio::null());
    let (told, answer) = mpsc::channel();
    let asking = std::thread::Builder::new().name("firesteel-groups".to_owned());
    let started = asking.spawn(move || drop(told.send(command.output())));
    let answered = started.ok().and_then(|_| answer.recv_timeout(PATIENCE).ok()?.ok());
    match answered {
        Some(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            text.split_whitespace().map(str::to_owned).collect()
        }
        _ => {
            tracing::warn!(user, "the system does not tell the groups of a user");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_asked_once_a_minute_and_knows_root() {
        let groups = Groups::default();
        assert!(groups.of("root").contains(&"root".to_owned()));
        assert_eq!(groups.with("root", |_| panic!("it is known")), groups.of("root"));
        assert_eq!(groups.with("ada", |_| vec!["engineers".to_owned()]), ["engineers"]);
        assert_eq!(groups.of("ada"), ["engineers"]);
    }

    #[test]
    fn what_is_no_name_of_a_user_is_asked_of_nobody() {
        let long = "x".repeat(LONGEST + 1);
        for name in ["", "-u", "--help", "a b", "a\n", "nobody-has-this-name", &long] {
            assert_eq!(asked(name), Vec::<String>::new(), "{name}");
        }
    }
}
