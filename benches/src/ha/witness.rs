//! A leader that stands still while there is much to order: what does it order when it goes on?
//!
//! Workers and applications that print every order are played by `firesteel-bench-load URL witness`. While the leader stands still,
//! executors end, an application lets one go, and another application and a driver wait for cores: a leader that went on as if nothing had
//! happened would order launches and a kill at once. One that nobody may replace (`FILESYSTEM`) does just that.

use std::{
    collections::BTreeSet,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{
    ensemble::{Ensemble, Service},
    masters::{Masters, scratch},
};
use crate::{
    cluster::{
        driver::{Driver, Lines},
        processes,
        site::{Kind, Programs},
        wait::until,
    },
    process, spark,
};

const LIMIT: Duration = Duration::from_secs(120);
/// So much longer it is listened for orders that nobody should give.
const LISTEN: Duration = Duration::from_secs(3);
/// What a master that nobody may replace expects of workers, and how long it stands still.
const WORKER_TIMEOUT: &str = "8s";
const STILL: Duration = Duration::from_secs(12);

/// An order that reached a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order {
    at: Instant,
    term: u64,
    kills: bool,
    /// An executor or a driver.
    what: String,
}

struct Witness {
    process: Driver,
    lines: Lines,
}

impl Witness {
    fn start(masters: &Masters<'_>) -> Result<Self> {
        let mut command = Command::new(process::sibling("firesteel-bench-load")?);
        command.args([&masters.site.url, "witness"]);
        let mut witness = Self { process: Driver::start(command)?, lines: Vec::new() };
        witness.hear("READY")?;
        Ok(witness)
    }

    /// Waits until these orders, all that came up to now, are such.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&[Order]) -> bool) -> Result<()> {
        let found = until(what, LIMIT, || match self.listen() {
            Ok(()) => holds(&orders(&self.lines)).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        found?
    }

    fn listen(&mut self) -> Result<()> {
        let (lines, ended) = self.process.poll()?;
        self.lines.extend(lines);
        match ended {
            None => Ok(()),
            Some((_, why)) => anyhow::bail!("those who watch have ended: {why}"),
        }
    }

    fn hear(&mut self, words: &str) -> Result<()> {
        let from = self.lines.len();
        let found = until(words, LIMIT, || match self.listen() {
            Ok(()) => self.lines[from..].iter().any(|(_, line)| line == words).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        found?
    }

    fn say(&mut self, word: &str) -> Result<()> {
        self.process.say(word)?;
        self.hear("DONE")
    }

    /// Makes work for a leader: executors end, and one is to be killed.
    fn provoke(&mut self) -> Result<()> {
        self.say("free")?;
        self.say("kill")
    }

    /// The term of the leader whose orders came first.
    fn first_term(&self) -> Result<u64> {
        let orders = orders(&self.lines);
        Ok(orders.first().context("nobody has ordered anything")?.term)
    }
}

fn orders(lines: &[(Instant, String)]) -> Vec<Order> {
    lines.iter().filter_map(|(at, line)| order(*at, line)).collect()
}

/// `ORDER 7 launch app-1/0`
fn order(at: Instant, line: &str) -> Option<Order> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["ORDER", term, verb, what] = words[..] else { return None };
    Some(Order { at, term: term.parse().ok()?, kills: verb == "kill", what: what.to_owned() })
}

/// Whether a leader has done what there was to do: the driver runs, an executor was started, and one killed.
fn is_done(orders: &[Order], by: impl Fn(&Order) -> bool) -> bool {
    let any = |kills: bool, is_driver: bool| {
        let is = |order: &&Order| by(order) && order.kills == kills;
        orders.iter().filter(is).any(|order| order.what.starts_with("driver-") == is_driver)
    };
    any(false, true) && any(false, false) && any(true, false)
}

/// A driver that waits for a core.
fn submit_driver(masters: &Masters<'_>, programs: &Programs) -> Result<()> {
    let mut command = Command::new(&programs.firesteel);
    spark::remove_settings(&mut command);
    command.args(["submit", "--master", &masters.site.url, "--deploy-mode", "cluster"]);
    command.args(["--driver-memory", "100m", "--conf", "spark.master.rest.enabled=false"]);
    let output = command.arg("local:///bin/true").output()?;
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    ensure!(told.contains(" SUBMITTED"), "a driver does not wait for a core: {told}");
    Ok(())
}

/// How many orders of the old leader reach workers when it goes on after its session, while another one leads.
pub(super) fn late_orders(programs: &Programs, service: Service) -> Result<f64> {
    let ensemble = Ensemble::start(service, &scratch("ensemble")?)?;
    let masters = Masters::start(Kind::Firesteel(programs), 2, &ensemble.settings(), &[])?;
    let mut witness = Witness::start(&masters)?;
    submit_driver(&masters, programs)?;
    let (leader, _) = masters.leader().context("nobody leads")?;
    let old = witness.first_term()?;
    processes::signal(masters.pid(leader), Signal::STOP)?;
    let provoked = witness.provoke();
    let is_led = || (masters.status(1 - leader) == "ALIVE").then_some(());
    let led = provoked.and_then(|()| until("another leader", LIMIT, is_led));
    let went_on = Instant::now();
    processes::signal(masters.pid(leader), Signal::CONT)?;
    led?;
    let is_standby = || (masters.status(leader) == "STANDBY").then_some(());
    until("the old one is a standby", LIMIT, is_standby)?;
    // There was something to order: the one that leads has.
    witness.until("orders of the new leader", |orders| is_done(orders, |it| it.term > old))?;
    sleep(LISTEN);
    witness.listen()?;
    Ok(late(&orders(&witness.lines), old, went_on) as f64)
}

/// Orders of the old leader after it went on.
fn late(orders: &[Order], old: u64, went_on: Instant) -> usize {
    let late = orders.iter().filter(|order| order.term <= old && order.at >= went_on);
    late.inspect(|order| eprintln!("an order of a leader that was replaced: {order:?}")).count()
}

/// How many orders nobody should give reach workers when the only master of a directory stands still for longer than it lets workers be
/// silent, another one is started on its directory meanwhile, and it goes on.
pub(super) fn wrong_orders_with_directory(
    programs: &Programs,
    settings: &[(&str, String)],
) -> Result<f64> {
    let timeout = ("spark.worker.timeout", WORKER_TIMEOUT.to_owned());
    let settings: Vec<_> = settings.iter().cloned().chain([timeout]).collect();
    let masters = Masters::start(Kind::Firesteel(programs), 1, &settings, &[])?;
    let mut witness = Witness::start(&masters)?;
    submit_driver(&masters, programs)?;
    let term = witness.first_term()?;
    processes::signal(masters.pid(0), Signal::STOP)?;
    let stood = witness.provoke().and_then(|()| {
        let refused = masters.refused_another()?;
        ensure!(refused.contains("used by another master"), "a second master: {refused}");
        sleep(STILL);
        witness.listen()
    });
    let went_on = Instant::now();
    processes::signal(masters.pid(0), Signal::CONT)?;
    stood?;
    let by_it = |order: &Order| order.term == term && order.at >= went_on;
    witness.until("orders of the leader", |orders| is_done(orders, by_it))?;
    sleep(LISTEN);
    witness.listen()?;
    Ok(wrong(&orders(&witness.lines), term) as f64)
}

/// Orders of another term, kills of more than the one executor that was to be killed, and launches of what was launched. A kill is repeated
/// for as long as a heartbeat names its executor.
fn wrong(orders: &[Order], term: u64) -> usize {
    let (mut launched, mut killed) = (BTreeSet::new(), BTreeSet::new());
    let wrong = orders.iter().filter(|order| {
        let again = !order.kills && !launched.insert(&order.what);
        let second = order.kills && {
            killed.insert(&order.what);
            killed.len() > 1
        };
        order.term != term || again || second
    });
    wrong.inspect(|order| eprintln!("an order that nobody should give: {order:?}")).count()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{is_done, late, order, wrong};

    #[test]
    fn orders_of_a_leader_that_was_replaced_are_counted_from_when_it_goes_on() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let lines = [
            (0, "ORDER 7 launch app-1/0"),
            (2, "ORDER 8 launch driver-1"),
            (2, "ORDER 8 launch app-1/1"),
            (3, "ORDER 7 kill app-1/0"),
            (4, "ORDER 8 kill app-1/0"),
            (4, "LEADER 9"),
        ];
        let orders = lines.iter().filter_map(|(at, line)| order(start + *at * second, line));
        let orders: Vec<_> = orders.collect();
        assert_eq!(orders.len(), 5);
        assert_eq!(late(&orders, 7, start + second), 1);
        assert_eq!(late(&orders, 7, start), 2);
        assert!(is_done(&orders, |order| order.term == 8));
        assert!(!is_done(&orders, |order| order.term == 7));
        assert!(!is_done(&orders[..4], |order| order.term == 8), "nothing was killed");
    }

    #[test]
    fn one_kill_was_asked_for_and_all_other_orders_are_launches_of_one_term() {
        let orders = |lines: &[&str]| -> Vec<_> {
            lines.iter().filter_map(|line| order(Instant::now(), line)).collect()
        };
        let right = ["ORDER 7 launch app-1/0", "ORDER 7 kill app-1/0", "ORDER 7 launch app-1/1"];
        assert_eq!(wrong(&orders(&right), 7), 0);
        let repeated = orders(&[&right[..], &["ORDER 7 kill app-1/0"]].concat());
        assert_eq!(wrong(&repeated, 7), 0, "a kill may be repeated");
        for more in ["ORDER 7 kill app-1/1", "ORDER 7 launch app-1/1", "ORDER 6 launch app-1/2"] {
            assert_eq!(wrong(&orders(&[&right[..], &[more]].concat()), 7), 1, "{more}");
        }
    }
}
