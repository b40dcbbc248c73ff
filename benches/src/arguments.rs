//! What `./bench` was asked for, or what is wrong with it.

use crate::{chaos, cluster, ha, history, k8s, memory, memory::Selection, pages, rdd};

/// A command with its flags.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Engine { rounds: usize },
    Rdd { rounds: usize, only: Vec<String> },
    Memory(Selection),
    Cluster { rounds: usize, only: Vec<String> },
    Ha { rounds: usize, only: Vec<String> },
    K8s { rounds: usize, only: Vec<String> },
    History(history::Selection),
    Pages { rounds: usize, only: Vec<String> },
    Chaos(chaos::Options),
}

const ROUNDS: usize = 3;

const GIGABYTES: u64 = 8;

/// Makes sense of the words after `./bench`.
pub(crate) fn parse(words: &[&str]) -> Result<Request, String> {
    let [command, rest @ ..] = words else { return Err("no command".to_owned()) };
    match *command {
        "engine" => {
            let flags = Flags::parse(rest, &["--rounds"], &[])?;
            Ok(Request::Engine { rounds: flags.rounds.unwrap_or(ROUNDS) })
        }
        "rdd" => {
            let flags = Flags::parse(rest, &["--rounds", "--only"], &rdd::NAMES)?;
            Ok(Request::Rdd { rounds: flags.rounds.unwrap_or(ROUNDS), only: flags.only })
        }
        "memory" => {
            let flags = Flags::parse(rest, &["--only", "--gigabytes"], &memory::NAMES)?;
            let gigabytes = flags.gigabytes.unwrap_or(GIGABYTES);
            Ok(Request::Memory(Selection { only: flags.only, gigabytes }))
        }
        "cluster" => {
            let flags = Flags::parse(rest, &["--rounds", "--only"], &cluster::NAMES)?;
            Ok(Request::Cluster { rounds: flags.rounds.unwrap_or(ROUNDS), only: flags.only })
        }
        "ha" => {
            let flags = Flags::parse(rest, &["--rounds", "--only"], &ha::NAMES)?;
            Ok(Request::Ha { rounds: flags.rounds.unwrap_or(ROUNDS), only: flags.only })
        }
        "k8s" => {
            let flags = Flags::parse(rest, &["--rounds", "--only"], &k8s::NAMES)?;
            Ok(Request::K8s { rounds: flags.rounds.unwrap_or(ROUNDS), only: flags.only })
        }
        "history" => {
            let small = rest.first() == Some(&"--small");
            let rest = if small { &rest[1..] } else { rest };
            let flags = Flags::parse(rest, &["--rounds", "--only"], &history::NAMES)?;
            let rounds = flags.rounds.unwrap_or(ROUNDS);
            Ok(Request::History(history::Selection { rounds, only: flags.only, small }))
        }
        "pages" => {
            let flags = Flags::parse(rest, &["--rounds", "--only"], &pages::NAMES)?;
            Ok(Request::Pages { rounds: flags.rounds.unwrap_or(ROUNDS), only: flags.only })
        }
        "chaos" => Ok(Request::Chaos(chaos::Options::parse(rest, fastrand::u64(..1_000_000))?)),
        other => Err(format!("no command is called `{other}`")),
    }
}

#[derive(Default)]
struct Flags {
    rounds: Option<usize>,
    gigabytes: Option<u64>,
    only: Vec<String>,
}

impl Flags {
    /// Takes the flags in `allowed`, and the names in `known` after `--only`.
    fn parse(words: &[&str], allowed: &[&str], known: &[&str]) -> Result<Self, String> {
        let mut flags = Self::default();
        for flag in words.chunks(2) {
            match *flag {
                [flag, _] if !allowed.contains(&flag) => {
                    return Err(format!("`{flag}` is no flag of this command"));
                }
                ["--rounds", rounds] => flags.rounds = Some(positive(flag[0], rounds)? as usize),
                ["--gigabytes", size] => flags.gigabytes = Some(positive(flag[0], size)?),
                ["--only", name] if known.contains(&name) => flags.only.push(name.to_owned()),
                ["--only", name] => {
                    return Err(format!("--only wants one of {}, not `{name}`", known.join(", ")));
                }
                _ => return Err(format!("cannot make sense of `{}`", flag.join(" "))),
            }
        }
        Ok(flags)
    }
}

fn positive(flag: &str, word: &str) -> Result<u64, String> {
    match word.parse() {
        Ok(number @ 1..=1000) => Ok(number),
        _ => Err(format!("{flag} wants a number from 1 to 1000, not `{word}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Selection, parse};

    fn parsed(line: &str) -> Result<Request, String> {
        parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn without_flags_there_are_three_rounds_of_everything() {
        assert_eq!(parsed("engine"), Ok(Request::Engine { rounds: 3 }));
        assert_eq!(parsed("rdd"), Ok(Request::Rdd { rounds: 3, only: vec![] }));
        assert_eq!(parsed("cluster"), Ok(Request::Cluster { rounds: 3, only: vec![] }));
        let all = Selection { only: vec![], gigabytes: 8 };
        assert_eq!(parsed("memory"), Ok(Request::Memory(all)));
    }

    #[test]
    fn the_history_can_be_tried_small() {
        let selection = |small| crate::history::Selection { rounds: 3, only: vec![], small };
        assert_eq!(parsed("history"), Ok(Request::History(selection(false))));
        assert_eq!(parsed("history --small"), Ok(Request::History(selection(true))));
    }

    #[test]
    fn flags_come_in_any_order_and_only_comes_several_times() {
        assert_eq!(parsed("engine --rounds 5"), Ok(Request::Engine { rounds: 5 }));
        let only = vec!["sort".to_owned(), "join".to_owned()];
        let request = parsed("rdd --only sort --rounds 1 --only join");
        assert_eq!(request, Ok(Request::Rdd { rounds: 1, only }));
        let selection = Selection { only: vec!["terasort".to_owned()], gigabytes: 2 };
        let request = parsed("memory --gigabytes 2 --only terasort");
        assert_eq!(request, Ok(Request::Memory(selection)));
    }

    #[test]
    fn wrong_arguments_are_refused_with_what_is_wanted() {
        for (line, words) in [
            ("", "no command"),
            ("motor", "`motor`"),
            ("chaos --rounds 3", "`--rounds` is no flag"),
            ("engine --rounds", "--rounds"),
            ("engine --rounds 0", "from 1 to 1000"),
            ("engine --rounds many", "not `many`"),
            ("engine --only sort", "`--only` is no flag"),
            ("rdd --only terasort", "wordcount, sort, longs, join, group, distinct"),
            ("cluster --only sort", "speed, memory, jobs, faults, load"),
            ("ha --only sort", "restart, failover, stopped, store, applications, state, clients"),
            ("k8s --only sort", "latency, memory, scale"),
            ("memory --rounds 3", "`--rounds` is no flag"),
            ("pages --only sort", "paint, cost"),
            ("memory --gigabytes 0.5", "not `0.5`"),
        ] {
            let problem = parsed(line).unwrap_err();
            assert!(problem.contains(words), "{line}: {problem}");
        }
    }
}
