//! Which workers may serve an executable to one that is told to start an executor of it, so that a driver does not send it to
//! all of them: those that have it, and those that fetch it themselves and pass on what they have.

use std::collections::BTreeMap;

use firesteel_backend::Address;

use super::application::Application;
use super::core::Master;
use crate::WorkerId;

/// So many are named to one worker: the next ones, should the first be gone.
const NAMED: usize = 4;

impl Master {
    /// The workers to name to this one.
    pub(super) fn peers_for(&self, app: &Application, worker: &WorkerId) -> Vec<Address> {
        if app.description().command.served.is_none() {
            return Vec::new();
        }
        let (mut others, mut places) = (Vec::<(&WorkerId, bool)>::new(), BTreeMap::new());
        for (_, executor) in app.executors().filter(|(_, executor)| executor.worker != *worker) {
            let place = *places.entry(&executor.worker).or_insert(others.len());
            if place == others.len() {
                others.push((&executor.worker, false));
            }
            others[place].1 |= executor.registered.is_some();
        }
        let chosen = choose(&others).into_iter();
        let address = |id| self.workers.get(id).map(|worker| worker.description().address.clone());
        chosen.filter_map(address).collect()
    }
}

/// Of others, in the order in which they were told to start executors, and whether theirs run: those that have it in turns, then
/// its ancestors in a tree in which each worker has two children, which are a little ahead of it.
fn choose<'a>(others: &[(&'a WorkerId, bool)]) -> Vec<&'a WorkerId> {
    let holders: Vec<&WorkerId> =
        others.iter().filter(|(_, has)| *has).map(|(id, _)| *id).collect();
    let turn = others.len();
    let in_turns = (0..holders.len().min(NAMED / 2)).map(|at| holders[(turn + at) % holders.len()]);
    let ancestors = std::iter::successors(Some(turn), |at| at.checked_sub(1).map(|at| at / 2));
    let ancestors = ancestors.skip(1).chain(turn.checked_sub(1)).map(|at| others[at].0);
    let mut chosen: Vec<&WorkerId> = Vec::new();
    for id in in_turns.chain(ancestors) {
        if !chosen.contains(&id) && chosen.len() < NAMED {
            chosen.push(id);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_worker_is_named_first_to_more_than_a_few_and_everybody_has_somebody_ahead_of_it() {
        let ids: Vec<WorkerId> = (0..50).map(|at| WorkerId::new(&format!("w{at:02}"))).collect();
        let mut first: BTreeMap<&WorkerId, usize> = BTreeMap::new();
        for at in 1..ids.len() {
            let others: Vec<(&WorkerId, bool)> = ids[..at].iter().map(|id| (id, false)).collect();
            let chosen = choose(&others);
            assert!(!chosen.is_empty() && chosen.len() <= NAMED, "{at}");
            *first.entry(chosen[0]).or_default() += 1;
        }
        assert!(first.values().all(|children| *children <= 3), "{first:?}");
        assert_eq!(choose(&[]), [&ids[0]; 0]);
    }

    #[test]
    fn those_that_have_it_come_first_and_take_turns() {
        let ids: Vec<WorkerId> = (0..6).map(|at| WorkerId::new(&format!("w{at}"))).collect();
        let others = |count: usize| -> Vec<(&WorkerId, bool)> {
            ids[..count].iter().enumerate().map(|(at, id)| (id, at < 2)).collect()
        };
        assert_eq!(choose(&others(4))[..2], [&ids[0], &ids[1]]);
        assert_eq!(choose(&others(5))[..2], [&ids[1], &ids[0]]);
    }
}
