//! Which workers give an application how many cores: one pure function, Spark's rule.

/// What a worker has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Free cores.
    pub cores: u32,
    /// Free memory.
    pub memory_mb: u64,
}

/// What an application still wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
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
    wish: Wish,
    rooms: &'a [Room],
    /// Cores and executors by room.
    assigned: Vec<(u32, u32)>,
}

impl Placement<'_> {
    fn step(&self) -> u32 {
        self.wish.cores_per_executor.unwrap_or(1).max(1)
    }

    /// Whether the next step would start an executor, rather than make one larger.
    fn starts(&self, at: usize) -> bool {
        self.wish.cores_per_executor.is_some() || self.assigned[at].1 == 0
    }

    fn can_take(&self, at: usize) -> bool {
        let (room, (cores, executors)) = (self.rooms[at], self.assigned[at]);
        let enough = self.wish.cores >= self.step() && room.cores - cores >= self.step();
        let needed = u64::from(executors + 1).saturating_mul(self.wish.memory_mb);
        enough && (!self.starts(at) || self.wish.executors > 0 && room.memory_mb >= needed)
    }

    fn take(&mut self, at: usize) {
        if self.starts(at) {
            self.wish.executors -= 1;
            self.assigned[at].1 += 1;
        }
        self.wish.cores -= self.step();
        self.assigned[at].0 += self.step();
    }
}

/// Cores by room. Spread out: one step per room in turns; otherwise a room is filled before the next.
pub fn place(wish: Wish, rooms: &[Room], spread_out: bool) -> Vec<u32> {
    let assigned = vec![(0, 0); rooms.len()];
    let mut placement = Placement { wish, rooms, assigned };
    let mut open: Vec<usize> = (0..rooms.len()).collect();
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

    fn rooms(cores: &[u32]) -> Vec<Room> {
        cores.iter().map(|cores| Room { cores: *cores, memory_mb: 1000 }).collect()
    }

    fn wish(cores: u32, each: Option<u32>) -> Wish {
        Wish { cores, cores_per_executor: each, memory_mb: 100, executors: u32::MAX }
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
            assert_eq!(place(wish(wanted, each), &rooms(&free), true), spread, "{wanted} {each:?}");
            assert_eq!(
                place(wish(wanted, each), &rooms(&free), false),
                packed,
                "{wanted} {each:?}"
            );
        }
    }

    #[test]
    fn memory_and_the_limit_of_executors_bound_what_starts() {
        let small = vec![Room { cores: 8, memory_mb: 250 }];
        assert_eq!(place(wish(8, Some(1)), &small, true), [2], "memory for two");
        assert_eq!(place(wish(8, None), &small, true), [8], "one executor of many cores");
        let limited = Wish { executors: 1, ..wish(8, Some(2)) };
        assert_eq!(place(limited, &rooms(&[4, 4]), true), [2, 0]);
        assert_eq!(place(Wish { executors: 0, ..limited }, &rooms(&[4, 4]), true), [0, 0]);
        let unlimited = Wish { executors: 1, ..wish(8, None) };
        assert_eq!(place(unlimited, &rooms(&[4, 4]), true), [4, 0], "it grows on one worker");
    }
}
