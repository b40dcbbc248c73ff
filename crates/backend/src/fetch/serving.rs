//! What an executor answers that is asked for several map outputs.

use crate::mutant::{Mutant, Planted};

/// What lies in a file and is larger goes by itself: without a copy through memory.
const BY_ITSELF_BYTES: u64 = 256 << 10;

/// One answer: a first few of the outputs asked for, none behind one that cannot be read. So the one to blame is the first of
/// those asked for when there is no answer.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    limit: u64,
    planted: Planted,
}

/// An output that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    pub bytes: u64,
    pub is_on_disk: bool,
}

/// What of an output goes into an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Blocks,
    /// How long it is: the reader asks for it alone.
    Length,
    /// The answer ends before it.
    End,
    /// There is no answer.
    Nothing,
}

impl Serving {
    /// So many bytes of blocks, and at least the first output.
    pub fn new(limit: u64, planted: Planted) -> Self {
        Serving { limit, planted }
    }

    /// The next output asked for, behind so many bytes; `None`: it is not here, or cannot be read.
    pub fn part(&self, bytes_before: u64, offered: Option<Offered>) -> Part {
        let is_first = bytes_before == 0;
        match offered {
            None if is_first || self.planted.is(Mutant::AnswersAllOrNothing) => Part::Nothing,
            None => Part::End,
            Some(Offered { bytes, is_on_disk: true }) if bytes > BY_ITSELF_BYTES => Part::Length,
            Some(Offered { bytes, .. }) if !is_first && bytes_before + bytes > self.limit => {
                Part::End
            }
            Some(_) => Part::Blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_first_few_and_ends_before_what_cannot_be_read() {
        let serving = Serving::new(100, Planted::default());
        let offered = |bytes, is_on_disk| Some(Offered { bytes, is_on_disk });
        assert_eq!(serving.part(0, offered(500, false)), Part::Blocks, "the first in any case");
        assert_eq!(serving.part(1, offered(99, true)), Part::Blocks);
        assert_eq!(serving.part(1, offered(100, true)), Part::End);
        assert_eq!(serving.part(1, None), Part::End);
        assert_eq!(serving.part(0, None), Part::Nothing);
        assert_eq!(serving.part(1, offered(BY_ITSELF_BYTES + 1, true)), Part::Length);
        assert_eq!(serving.part(0, offered(BY_ITSELF_BYTES + 1, false)), Part::Blocks);
    }
}
