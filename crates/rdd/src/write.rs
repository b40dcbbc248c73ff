//! Sinks: each attempt writes a file of its own; the driver decides which attempts' files count.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use firesteel_closure::{Value, Wire, wire};
use firesteel_io::{Compression, Target, Written, is_final, is_full};
use firesteel_task::{TaskContext, fail_for_good, fail_with};

use crate::action::Action;
use crate::csv::CsvOptions;
use crate::finite::is_finite;

const BUFFER_BYTES: usize = 256 * 1024;

/// Why a partition could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// The bytes could not be written.
    Io(io::Error),
    /// An item has no form in this format; it never will.
    Row(String),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

/// How the items of a partition become the bytes of a file.
pub trait RowFormat<T>: Wire {
    /// The ending of such files, with its dot; before that of a compression.
    const EXTENSION: &'static str;

    /// Writes all items; returns what it wrote to, and how many items there were.
    fn write<W: Write + Send>(
        &self,
        items: impl Iterator<Item = T>,
        out: W,
    ) -> Result<(W, u64), WriteError>;
}

wire! {
    /// `save_as_*`: a file of the items, where attempts write.
    pub struct WriteFiles[F: Wire] {
        target: Value<Target>,
        compression: Value<Option<Compression>>,
        format: F,
    }
}

impl<F> WriteFiles<F> {
    /// Attempts write to `target`.
    pub fn new(target: Target, compression: Option<Compression>, format: F) -> Self {
        WriteFiles { target: Value(target), compression: Value(compression), format }
    }
}

impl<T, F: RowFormat<T>> Action<T> for WriteFiles<F> {
    type Output = Written;

    fn run(&self, items: impl Iterator<Item = T> + 'static, task: &TaskContext) -> Written {
        let name = format!("part-{:05}{}", task.partition(), F::EXTENSION);
        let (written, records) =
            self.write(&name, items, task).unwrap_or_else(|error| match error {
                WriteError::Row(reason) => {
                    fail_for_good(format!("could not write {name}: {reason}"))
                }
                WriteError::Io(error) => self.fail_writing(&name, &error),
            });
        task.count(|metrics| {
            metrics.output_records += records;
            metrics.output_bytes += written.bytes;
        });
        written
    }
}

impl<F> WriteFiles<F> {
    fn write<T>(
        &self,
        name: &str,
        items: impl Iterator<Item = T> + 'static,
        task: &TaskContext,
    ) -> Result<(Written, u64), WriteError>
    where
        F: RowFormat<T>,
    {
        let output = self.target.0.create(name, task.task().0, self.compression.0)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, output);
        let (out, records) = self.format.write(task.interruptible(items), out)?;
        let output = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        // What is finished waits for a commit, which does not come for a job that has ended.
        task.check_killed();
        Ok((output.finish()?, records))
    }

    #[cold]
    fn fail_writing(&self, name: &str, error: &io::Error) -> ! {
        let advice = match (is_full(error), &self.target.0) {
            (true, _) => "; make room there, or save to another place",
            // The driver has made it.
            (false, Target::Local(directory)) if !directory.exists() => {
                "; the driver and all executors have to see the same disk under this path: save to one that they \
                 share, or to an object store"
            }
            _ => "",
        };
        let place = match &self.target.0 {
            Target::Local(directory) => directory.display().to_string(),
            Target::Remote { url, .. } => url.clone(),
        };
        let message = format!("could not write {name} into {place}: {error}{advice}");
        if is_final(error) { fail_for_good(message) } else { fail_with(message) }
    }
}

/// `save_as_text_file`: a line per item.
#[derive(Clone, Copy)]
pub struct TextLines;

wire!([] TextLines {});

impl<T: Display> RowFormat<T> for TextLines {
    const EXTENSION: &'static str = "";

    fn write<W: Write + Send>(
        &self,
        items: impl Iterator<Item = T>,
        mut out: W,
    ) -> Result<(W, u64), WriteError> {
        let mut records = 0;
        for item in items {
            writeln!(out, "{item}")?;
            records += 1;
        }
        Ok((out, records))
    }
}

/// `save_as_json_lines`: a JSON value per line.
#[derive(Clone, Copy)]
pub struct JsonLines;

wire!([] JsonLines {});

impl<T: Serialize> RowFormat<T> for JsonLines {
    const EXTENSION: &'static str = ".json";

    fn write<W: Write + Send>(
        &self,
        items: impl Iterator<Item = T>,
        mut out: W,
    ) -> Result<(W, u64), WriteError> {
        let mut records = 0;
        for item in items {
            let mut nulls = Nulls(false);
            let mut json = serde_json::Serializer::with_formatter(&mut out, &mut nulls);
            item.serialize(&mut json).map_err(|error| match error.is_io() {
                true => WriteError::Io(error.into()),
                false => WriteError::Row(format!("an item has no JSON form: {error}")),
            })?;
            if nulls.0 && !is_finite(&item) {
                return Err(WriteError::Row(NOT_FINITE.to_owned()));
            }
            out.write_all(b"\n")?;
            records += 1;
        }
        Ok((out, records))
    }
}

const NOT_FINITE: &str = "an item has no JSON form: a NaN or an infinity is no JSON number, and would come back as \
                          `null`; use an `Option`, or a text";

/// Whether a row has a `null`, which is also what a number becomes that JSON does not have.
struct Nulls(bool);

impl serde_json::ser::Formatter for &mut Nulls {
    fn write_null<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0 = true;
        writer.write_all(b"null")
    }
}

wire! {
    /// `save_as_csv`: a row per item.
    pub struct CsvRows[] {
        options: Value<CsvOptions>,
    }
}

impl CsvRows {
    /// In the form that `options` say.
    pub fn new(options: CsvOptions) -> Self {
        CsvRows { options: Value(options) }
    }
}

impl<T: Serialize> RowFormat<T> for CsvRows {
    const EXTENSION: &'static str = ".csv";

    fn write<W: Write + Send>(
        &self,
        items: impl Iterator<Item = T>,
        mut out: W,
    ) -> Result<(W, u64), WriteError> {
        let mut rows = self.options.0.encoder();
        let mut records = 0;
        for item in items {
            let row = rows.encode(&item).map_err(|reason| {
                WriteError::Row(format!(
                    "an item has no CSV form: {reason}; rows are structs or tuples of simple values"
                ))
            })?;
            out.write_all(row)?;
            records += 1;
        }
        Ok((out, records))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use firesteel_types::TaskFailure;

    use crate::testing::TestTask;

    use super::*;

    #[test]
    fn a_directory_that_only_the_driver_sees_is_named_with_what_to_do() {
        let (task, root) = (TestTask::new(1 << 20), tempfile::tempdir().unwrap());
        let target = Target::Local(root.path().join("of-the-driver"));
        let action = WriteFiles::new(target, None, TextLines);
        let run = || Action::<u32>::run(&action, [1].into_iter(), &task.task);
        let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        let failure = payload.downcast::<TaskFailure>().unwrap().to_string();
        assert!(failure.contains("have to see the same disk"), "{failure}");
    }
}
