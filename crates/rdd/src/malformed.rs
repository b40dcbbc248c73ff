//! Rows that do not fit their type: where they are, what is in them, and what happens then.

use std::io::Read;

use serde::{Deserialize, Serialize};

use firesteel_io::Input;
use firesteel_task::fail_for_good;

use crate::text::{Split, TO_THE_END};

/// What happens with a row that does not fit the type it is read into: Spark's `mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParseMode {
    /// The job ends, with file, line, column and value (Spark's `FAILFAST`).
    #[default]
    FailFast,
    /// The row is left out (Spark's `DROPMALFORMED`).
    DropMalformed,
}

/// Longest piece of a row that is shown.
const SHOWN_BYTES: usize = 100;

/// A row that does not fit.
pub(crate) struct Malformed {
    pub(crate) reason: String,
    /// Where in the row, e.g. `column "age"`.
    pub(crate) column: Option<String>,
    /// The value, or the whole record, as the file has it.
    pub(crate) value: Vec<u8>,
}

impl Malformed {
    /// Ends the job, or not, as `mode` says.
    pub(crate) fn treat(self, mode: ParseMode, split: &Split, offset: u64) {
        if mode == ParseMode::FailFast {
            self.fail(split, offset);
        }
    }

    /// Reading the file again up to here costs time once, and the reader of the error none.
    #[cold]
    fn fail(self, split: &Split, offset: u64) -> ! {
        let place = line_of(split, offset)
            .map_or_else(|| format!("offset {offset}"), |line| format!("line {line}"));
        let column = self.column.map_or(String::new(), |column| format!(", {column}"));
        fail_for_good(format!(
            "{}, {place}{column}: {}: {:?}; mend the row, or have such rows left out with ParseMode::DropMalformed",
            split.location,
            self.reason,
            shown(&self.value)
        ))
    }
}

/// As text, with its end cut off if it is long.
pub(crate) fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(&value[..value.len().min(SHOWN_BYTES)]);
    let cut = if value.len() > SHOWN_BYTES { "..." } else { "" };
    format!("{}{cut}", text.trim_end_matches(['\r', '\n']))
}

/// The number of the line that starts at `offset`, from 1; `None` if the file cannot be read again.
fn line_of(split: &Split, offset: u64) -> Option<u64> {
    let input = match split.end {
        TO_THE_END => Input::open(&split.location),
        _ => Input::open_at(&split.location, 0, offset),
    };
    let mut before = input.ok()?.take(offset);
    let (mut buffer, mut lines, mut last) = (vec![0; 256 * 1024], 1, 0);
    loop {
        let read = before.read(&mut buffer).ok()?;
        if read == 0 {
            return (before.limit() == 0).then_some(lines);
        }
        for byte in &buffer[..read] {
            let ends = *byte == b'\r' || *byte == b'\n' && last != b'\r';
            lines += u64::from(ends);
            last = *byte;
        }
    }
}
