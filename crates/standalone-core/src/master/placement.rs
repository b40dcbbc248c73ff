//! Which workers give an application how many cores: one pure function, Spark's rule.

/// What a worker has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub cores: u32,
    pub memory_mb: u64,
}

/// What an application still wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Cores up to its limit.
    pub cores: u32,
    /// Cores of one executor; `None`: one executor takes all the cores of a worker it gets.
    pub cores_per_executor: Option<u32>,
    /// Memory of one executor.
    pub memory_mb: u64,
    /// Executors up to its limit.
    pub executors: u32,
}

struct Placement<'a> {
    demand: Demand,
    capacities: &'a [Capacity],
    /// Cores and executors, in the order of `capacities`.
    assigned: Vec<(u32, u32)>,
}

impl Placement<'_> {
    fn step(&self) -> u32 {
        self.demand.cores_per_executor.unwrap_or(1).max(1)
    }

    /// Whether the next step would start an executor, rather than make one larger.
    fn starts(&self, at: usize) -> bool {
        self.demand.cores_per_executor.is_some() || self.assigned[at].1 == 0
    }

    fn can_take(&self, at: usize) -> bool {
        let (capacity, (cores, executors)) = (self.capacities[at], self.assigned[at]);
        let enough = self.demand.cores >= self.step() && capacity.cores - cores >= self.step();
        let needed = u64::from(executors + 1).saturating_mul(self.demand.memory_mb);
        enough && (!self.starts(at) || self.demand.executors > 0 && capacity.memory_mb >= needed)
    }

    fn take(&mut self, at: usize) {
        if self.starts(at) {
            self.demand.executors -= 1;
            self.assigned[at].1 += 1;
        }
        self.demand.cores -= self.step();
        self.assigned[at].0 += self.step();
    }
}

/// Cores per worker, in the order of `capacities`. Spread out: one step per worker in turns; otherwise a worker is filled
/// before the next.
pub fn place(demand: Demand, capacities: &[Capacity], spread_out: bool) -> Vec<u32> {
    let assigned = vec![(0, 0); capacities.len()];
    let mut placement = Placement { demand, capacities, assigned };
    let mut open: Vec<usize> = (0..capacities.len()).collect();
    loop {
        open.retain(|at| placement.can_take(*at));
        if open.is_empty() {
            break;
        }
        for at in &open {
            while placement.can_take(*at) {
                placement.take(*at);
                if spread_out {
                    break;
                }
            }
        }
    }
    placement.assigned.into_iter().map(|(cores, _)| cores).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacities(cores: &[u32]) -> Vec<Capacity> {
        cores.iter().map(|cores| Capacity { cores: *cores, memory_mb: 1000 }).collect()
    }

    fn demand(cores: u32, each: Option<u32>) -> Demand {
        Demand { cores, cores_per_executor: each, memory_mb: 100, executors: u32::MAX }
    }

    #[test]
    fn spreading_uses_many_workers_and_packing_few() {
        for (wanted, each, free, spread, packed) in [
            (4, None, vec![4, 4, 4], vec![2, 1, 1], vec![4, 0, 0]),
            (12, Some(16), vec![16, 16, 16], vec![0, 0, 0], vec![0, 0, 0]),
            (48, Some(16), vec![16, 16, 16], vec![16, 16, 16], vec![16, 16, 16]),
            (6, Some(2), vec![4, 4, 1], vec![4, 2, 0], vec![4, 2, 0]),
            (4, Some(2), vec![4, 4, 1], vec![2, 2, 0], vec![4, 0, 0]),
            (u32::MAX, None, vec![3, 0, 2], vec![3, 0, 2], vec![3, 0, 2]),
            (5, Some(2), vec![9], vec![4], vec![4]),
        ] {
            assert_eq!(
                place(demand(wanted, each), &capacities(&free), true),
                spread,
                "{wanted} {each:?}"
            );
            assert_eq!(
                place(demand(wanted, each), &capacities(&free), false),
                packed,
                "{wanted} {each:?}"
            );
        }
    }

    #[test]
    fn memory_and_the_limit_of_executors_bound_what_starts() {
        let small = vec![Capacity { cores: 8, memory_mb: 250 }];
        assert_eq!(place(demand(8, Some(1)), &small, true), [2], "memory for two");
        assert_eq!(place(demand(8, None), &small, true), [8], "one executor of many cores");
        let limited = Demand { executors: 1, ..demand(8, Some(2)) };
        assert_eq!(place(limited, &capacities(&[4, 4]), true), [2, 0]);
        assert_eq!(place(Demand { executors: 0, ..limited }, &capacities(&[4, 4]), true), [0, 0]);
        let unlimited = Demand { executors: 1, ..demand(8, None) };
        assert_eq!(place(unlimited, &capacities(&[4, 4]), true), [4, 0], "it grows on one worker");
    }
}
