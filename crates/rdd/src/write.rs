//! Sinks: each attempt writes a file of its own; the driver decides which attempts' files count.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use firesteel_closure::{Value, wire};

use crate::TaskContext;
use crate::action::Action;
use crate::task::fail_with;

/// What an attempt wrote.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WrittenFile {
    /// The attempt's file.
    pub path: PathBuf,
    /// The partition it holds.
    pub partition: u32,
}

/// `save_as_text_file`: one line per item into a file under `directory`.
pub struct WriteText {
    directory: Value<PathBuf>,
}

impl WriteText {
    /// Attempts write into `directory`, which exists.
    pub fn new(directory: PathBuf) -> Self {
        WriteText { directory: Value(directory) }
    }
}

wire!([] WriteText { directory });

impl<T: Display> Action<T> for WriteText {
    type Output = WrittenFile;

    fn run(&self, items: impl Iterator<Item = T>, task: &TaskContext) -> WrittenFile {
        let name = format!("part-{:05}.attempt-{}", task.partition(), task.task());
        let path = self.directory.0.join(name);
        write_lines(&path, items, task).unwrap_or_else(|error| {
            fail_with(format!("could not write {}: {error}", path.display()))
        });
        WrittenFile { path, partition: task.partition() }
    }
}

fn write_lines<T: Display>(
    path: &PathBuf,
    items: impl Iterator<Item = T>,
    task: &TaskContext,
) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(256 * 1024, File::create_new(path)?);
    let mut records = 0;
    for item in items {
        writeln!(out, "{item}")?;
        records += 1;
        if records % 1024 == 0 {
            task.check_killed();
        }
    }
    let file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.sync_data()?;
    let bytes = file.metadata()?.len();
    task.count(|metrics| {
        metrics.output_records += records;
        metrics.output_bytes += bytes;
    });
    Ok(())
}
