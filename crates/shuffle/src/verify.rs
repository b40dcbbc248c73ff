//! Whether a map output can still be read as it was written.

use std::time::Instant;

use crate::output::MapOutput;

impl MapOutput {
    /// Reads it through once, if it lies in a file. `false` if something in it cannot be read, and also when
    /// that could not be found out in time.
    pub fn is_readable(&self, until: Instant) -> bool {
        (0u32..)
            .map_while(|reader| self.slice(reader))
            .all(|slice| Instant::now() < until && slice.verify().is_ok())
    }
}
