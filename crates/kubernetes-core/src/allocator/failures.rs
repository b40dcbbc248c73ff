//! How many executors failed lately, and on which nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use firesteel_types::{Host, Tick};

/// The least limit of failures.
const LEAST_LIMIT: u32 = 3;
/// A pod names at most so many nodes that it avoids.
const MOST_NODES: usize = 100;

/// Failures that count towards `spark.executor.maxNumFailures`.
#[derive(Debug)]
pub(super) struct FailureWindow {
    limit: Option<u32>,
    validity_ms: Option<u64>,
    failures: VecDeque<Tick>,
    registered: bool,
}

impl FailureWindow {
    pub(super) fn new(limit: Option<u32>, validity_ms: Option<u64>) -> Self {
        FailureWindow { limit, validity_ms, failures: VecDeque::new(), registered: false }
    }

    pub(super) fn count(&mut self, now: Tick) {
        self.failures.push_back(now);
    }

    /// How many there were, if these are more than the limit.
    pub(super) fn exceeded(&mut self, now: Tick, target: u32) -> Option<(u32, u32)> {
        if let Some(validity) = self.validity_ms {
            self.failures.retain(|at| now.since_ms(*at) <= validity);
        }
        let limit = self.limit.unwrap_or_else(|| target.saturating_mul(2).max(LEAST_LIMIT));
        let failed = self.failures.len() as u32;
        (failed > limit).then_some((failed, limit))
    }

    pub(super) fn registered(&mut self) {
        self.registered = true;
    }

    /// Whether one ever did: what it is made of is right.
    pub(super) fn any_registered(&self) -> bool {
        self.registered
    }
}

#[derive(Debug, Default)]
struct Record {
    in_a_row: u32,
    exclusions: u32,
    excluded_until: Tick,
}

/// Nodes that get no pods.
#[derive(Debug)]
pub(super) struct Nodes {
    limit: u32,
    excluded_ms: u64,
    by_driver: BTreeSet<Host>,
    records: BTreeMap<Host, Record>,
    /// Nothing is heard of these, since when.
    suspects: BTreeMap<Host, Tick>,
}

impl Nodes {
    pub(super) fn new(limit: u32, excluded_ms: u64) -> Self {
        let (by_driver, records) = (BTreeSet::new(), BTreeMap::new());
        Nodes { limit, excluded_ms, by_driver, records, suspects: BTreeMap::new() }
    }

    /// The driver excludes these and no others.
    pub(super) fn exclude(&mut self, nodes: BTreeSet<Host>) {
        self.by_driver = nodes;
    }

    /// An executor failed there that had never registered.
    pub(super) fn failed(&mut self, node: &Host, now: Tick) {
        let record = self.records.entry(node.clone()).or_default();
        record.in_a_row += 1;
        if self.limit > 0 && record.in_a_row >= self.limit {
            let doubled = self.excluded_ms.saturating_mul(1 << record.exclusions.min(6));
            record.excluded_until = now.plus_ms(doubled);
            record.exclusions += 1;
            record.in_a_row = 0;
        }
    }

    /// An executor registered there.
    pub(super) fn succeeded(&mut self, node: &Host) {
        self.records.remove(node);
        self.suspects.remove(node);
    }

    /// Nothing is heard of what is there.
    pub(super) fn suspect(&mut self, node: Host, now: Tick) {
        self.suspects.retain(|_, since| now.since_ms(*since) < self.excluded_ms);
        self.suspects.insert(node, now);
    }

    /// Since when that is so, if it is.
    pub(super) fn suspected(&self, node: &Host) -> Option<Tick> {
        self.suspects.get(node).copied()
    }

    /// All of which that is so now.
    pub(super) fn suspects(&self, now: Tick) -> BTreeSet<Host> {
        let lately = |since: &Tick| now.since_ms(*since) < self.excluded_ms;
        let lately = self.suspects.iter().filter(|(_, since)| lately(since));
        lately.map(|(node, _)| node.clone()).take(MOST_NODES).collect()
    }

    /// No other node can take pods: these may.
    pub(super) fn pardon(&mut self) {
        self.records.clear();
    }

    /// Whether nodes are excluded for failures now.
    pub(super) fn excluded_by_failures(&self, now: Tick) -> bool {
        self.records.values().any(|record| record.excluded_until > now)
    }

    /// All that get no pods now.
    pub(super) fn excluded(&self, now: Tick) -> BTreeSet<Host> {
        let failed = self.records.iter().filter(|(_, record)| record.excluded_until > now);
        let all = self.by_driver.iter().chain(failed.map(|(node, _)| node));
        all.take(MOST_NODES).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_forgotten_after_their_time_and_the_limit_follows_the_target() {
        let mut window = FailureWindow::new(None, Some(1000));
        (0..4).for_each(|at| window.count(Tick(at * 100)));
        assert_eq!(window.exceeded(Tick(300), 2), None, "4 of 4");
        assert_eq!(window.exceeded(Tick(300), 1), Some((4, 3)));
        assert_eq!(window.exceeded(Tick(1050), 1), None, "one is forgotten");
        let mut strict = FailureWindow::new(Some(0), None);
        assert_eq!(strict.exceeded(Tick(0), 9), None);
        strict.count(Tick(0));
        assert_eq!(strict.exceeded(Tick(u64::MAX), 9), Some((1, 0)));
    }

    #[test]
    fn a_node_is_excluded_after_failures_in_a_row_and_longer_each_time() {
        let (node, mut nodes) = (Host::new("a"), Nodes::new(2, 1000));
        nodes.failed(&node, Tick(0));
        nodes.succeeded(&node);
        nodes.failed(&node, Tick(0));
        assert!(!nodes.excluded_by_failures(Tick(0)), "not in a row");
        nodes.failed(&node, Tick(0));
        assert!(nodes.excluded_by_failures(Tick(999)) && !nodes.excluded_by_failures(Tick(1000)));
        (0..2).for_each(|_| nodes.failed(&node, Tick(1000)));
        assert!(nodes.excluded_by_failures(Tick(2999)), "twice as long");
        nodes.exclude([Host::new("b")].into());
        assert_eq!(nodes.excluded(Tick(1000)).len(), 2);
        nodes.pardon();
        assert_eq!(nodes.excluded(Tick(1000)), [Host::new("b")].into(), "the driver's word stays");
    }
}
