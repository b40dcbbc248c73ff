//! How often one question is put.

use crate::mutant::{Mutant, Planted};

/// How often a question is still put again that got no answer.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    left: u32,
    planted: Planted,
}

impl Tries {
    /// At most so often: `spark.shuffle.io.maxRetries`.
    pub fn new(most: u32, planted: Planted) -> Self {
        Tries { left: most, planted }
    }

    /// It failed: whether to put it again after a pause. That helps only against what may pass.
    pub fn again(&mut self, may_pass: bool, is_wanted: bool) -> bool {
        let again = may_pass && is_wanted && self.left > 0;
        self.left -= u32::from(again);
        again && !self.planted.is(Mutant::NeverAsksAgain)
    }

    pub fn left(&self) -> u32 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_tried_again_so_often_and_nothing_else_is() {
        let mut tries = Tries::new(2, Planted::default());
        assert!(!tries.again(false, true) && !tries.again(true, false));
        assert!(tries.again(true, true) && tries.again(true, true));
        assert!(!tries.again(true, true));
    }
}
