//! Which number an executor has. Numbers are the driver's, and none is used twice (S05).

use firesteel_types::ExecutorId;

/// How many numbers are left out when a cluster manager may have used some that the driver never heard of.
const LEFT_OUT: u32 = 10_000;

/// Numbers that no executor of the application has had.
#[derive(Clone, Debug, Default)]
pub struct ExecutorNumbers {
    next: u32,
}

impl ExecutorNumbers {
    /// A number for one more executor.
    pub fn take(&mut self) -> ExecutorId {
        let taken = ExecutorId(self.next);
        self.next = self.next.saturating_add(1);
        taken
    }

    /// An executor has this number; somebody else gave it.
    pub fn heard_of(&mut self, executor: ExecutorId) {
        self.next = self.next.max(executor.0.saturating_add(1));
    }

    /// Leaves out all numbers that somebody who was told [`ExecutorNumbers::first`] may have used since.
    pub fn leave_out(&mut self) {
        self.next = self.next.saturating_add(LEFT_OUT);
    }

    /// The first number that is free: a cluster manager that numbers executors by itself begins there.
    pub fn first(&self) -> ExecutorId {
        ExecutorId(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice_even_if_others_gave_some() {
        let mut numbers = ExecutorNumbers::default();
        assert_eq!([numbers.take(), numbers.take()], [ExecutorId(0), ExecutorId(1)]);
        numbers.heard_of(ExecutorId(7));
        numbers.heard_of(ExecutorId(3));
        assert_eq!(numbers.take(), ExecutorId(8));
        let promised = numbers.first();
        numbers.leave_out();
        assert!(numbers.take().0 >= promised.0 + LEFT_OUT);
        numbers.heard_of(ExecutorId(u32::MAX));
        assert_eq!(numbers.take(), ExecutorId(u32::MAX), "and then there are no more");
    }
}
