//! JSON lines: one value per line, into a type of serde's.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use firesteel_closure::{Data, Value, wire};
use firesteel_task::TaskContext;

use crate::Pipe;
use crate::malformed::{Malformed, ParseMode};
use crate::text::{LineEnds, Lines, Split};

/// How JSON lines are read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JsonOptions {
    mode: ParseMode,
    min_partitions: Option<usize>,
    max_split_bytes: Option<u64>,
}

impl JsonOptions {
    /// A line that does not fit ends the job; at least two partitions.
    pub fn new() -> Self {
        Self::default()
    }

    /// What happens with a line that is no JSON or does not fit the type.
    #[must_use]
    pub fn mode(mut self, mode: ParseMode) -> Self {
        self.mode = mode;
        self
    }

    /// Aims at no fewer partitions than this.
    #[must_use]
    pub fn min_partitions(mut self, partitions: usize) -> Self {
        self.min_partitions = Some(partitions);
        self
    }

    /// Cuts files into parts of at most about this size (`spark.files.maxPartitionBytes`).
    #[must_use]
    pub fn max_split_bytes(mut self, bytes: u64) -> Self {
        self.max_split_bytes = Some(bytes);
        self
    }

    /// How files are cut: fewest partitions, largest part.
    pub fn cut(&self) -> (Option<usize>, Option<u64>) {
        (self.min_partitions, self.max_split_bytes)
    }
}

wire! {
    /// `json_lines`
    pub struct JsonSource[T: 'static] {
        splits: Value<Arc<Vec<Split>>>,
        options: Value<JsonOptions>,
        item: PhantomData<fn() -> T>,
    }
}

impl<T> JsonSource<T> {
    /// One partition per split.
    pub fn new(splits: Vec<Split>, options: JsonOptions) -> Self {
        JsonSource { splits: Value(Arc::new(splits)), options: Value(options), item: PhantomData }
    }
}

impl<T: Data> Pipe for JsonSource<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        let mode = self.options.0.mode;
        let split = self.splits.0[partition as usize].clone();
        let mut lines = Lines::open(split, LineEnds::Any, task.clone());
        std::iter::from_fn(move || {
            loop {
                let offset = lines.advance()?;
                if lines.bytes().iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                match serde_json::from_slice(lines.bytes()) {
                    Ok(item) => return Some(item),
                    Err(error) => {
                        malformed(lines.bytes(), &error).treat(mode, &lines.split, offset);
                    }
                }
            }
        })
    }
}

#[cold]
fn malformed(line: &[u8], error: &serde_json::Error) -> Malformed {
    let text = error.to_string();
    // The line is known better by us, and the column is told apart.
    let reason = text.split(" at line ").next().unwrap_or(&text).to_owned();
    let column = error.column();
    // The value that does not fit ends at the column: some of what is before it, and a little behind.
    let value = &line[column.saturating_sub(60)..line.len().min(column + 20)];
    Malformed { reason, column: Some(format!("column {column}")), value: value.to_vec() }
}
