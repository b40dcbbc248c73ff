//! CSV into a type of serde's: fields by the names in the header, or by their order.
//!
//! A row is a line, unless [`CsvOptions::multi_line`] says that quoted fields hold newlines: then a
//! file cannot be entered in its middle, and is one partition. As in Spark, that is not the default.

mod empty;
mod row;

use std::marker::PhantomData;
use std::sync::Arc;

use csv::ByteRecord;
use csv_core::ReadRecordResult;
use serde::{Deserialize, Serialize};

use firesteel_closure::{Data, Value, wire};
use firesteel_task::{TaskContext, fail_for_good};

use crate::Pipe;
use crate::malformed::{Malformed, ParseMode, shown};
use crate::text::{LineEnds, Lines, Split, TO_THE_END};

use empty::EmptyTexts;
use row::RowEncoder;

/// A row is not longer: more is a quote that was not closed.
const LARGEST_ROW: usize = 256 << 20;

const NEWLINES_IN_FIELDS: &str = "if fields hold newlines, read with CsvOptions::multi_line(true)";

/// How CSV is read and written. The names are those of Spark's options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvOptions {
    header: bool,
    delimiter: u8,
    quote: u8,
    escape: Option<u8>,
    comment: Option<u8>,
    null_value: Option<String>,
    trim: bool,
    multi_line: bool,
    mode: ParseMode,
    min_partitions: Option<usize>,
    max_split_bytes: Option<u64>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            header: false,
            delimiter: b',',
            quote: b'"',
            escape: None,
            comment: None,
            null_value: None,
            trim: false,
            multi_line: false,
            mode: ParseMode::FailFast,
            min_partitions: None,
            max_split_bytes: None,
        }
    }
}

impl CsvOptions {
    /// No header, commas, double quotes (doubled inside of fields), a row per line, and an end of the
    /// job at the first row that does not fit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Each file starts with the names of its columns; fields are found by name.
    #[must_use]
    pub fn header(mut self, header: bool) -> Self {
        self.header = header;
        self
    }

    /// What stands between fields (Spark's `sep`), e.g. `b'\t'`.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// What stands around fields that hold delimiters.
    #[must_use]
    pub fn quote(mut self, quote: u8) -> Self {
        self.quote = quote;
        self
    }

    /// What stands before a quote inside of a quoted field, besides a second quote. Spark's default is a
    /// backslash, ours is none.
    #[must_use]
    pub fn escape(mut self, escape: u8) -> Self {
        self.escape = Some(escape);
        self
    }

    /// Lines that start with it are no rows.
    #[must_use]
    pub fn comment(mut self, comment: u8) -> Self {
        self.comment = Some(comment);
        self
    }

    /// A field that holds just this is empty: `None` where the type has an `Option`. So is a field that
    /// holds nothing; one that is quoted and empty, `""`, is an empty text, unless this is `""`.
    #[must_use]
    pub fn null_value(mut self, null_value: impl Into<String>) -> Self {
        self.null_value = Some(null_value.into());
        self
    }

    /// Takes spaces away at both ends of each field.
    #[must_use]
    pub fn trim(mut self, trim: bool) -> Self {
        self.trim = trim;
        self
    }

    /// Quoted fields may hold newlines; each file is one partition.
    #[must_use]
    pub fn multi_line(mut self, multi_line: bool) -> Self {
        self.multi_line = multi_line;
        self
    }

    /// What happens with a row that does not fit the type.
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

    /// Whether a row may be more than a line.
    pub fn is_multi_line(&self) -> bool {
        self.multi_line
    }

    /// Writes rows in this form.
    pub(crate) fn encoder(&self) -> RowEncoder {
        let mut builder = csv_core::WriterBuilder::new();
        builder.delimiter(self.delimiter).quote(self.quote).comment(self.comment);
        if let Some(escape) = self.escape {
            builder.double_quote(false).escape(escape);
        }
        RowEncoder::new(builder.build(), self.header)
    }

    fn parser(&self) -> csv_core::Reader {
        let mut builder = csv_core::ReaderBuilder::new();
        builder.delimiter(self.delimiter).quote(self.quote).escape(self.escape).build()
    }

    /// Whether a line is no row and no part of one.
    fn skips(&self, line: &[u8]) -> bool {
        let blank = line.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        blank || self.comment.is_some_and(|comment| line.first() == Some(&comment))
    }
}

wire! {
    /// `csv`
    pub struct CsvSource[T: 'static] {
        splits: Value<Arc<Vec<Split>>>,
        options: Value<CsvOptions>,
        item: PhantomData<fn() -> T>,
    }
}

impl<T> CsvSource<T> {
    /// One partition per split; with rows of several lines, each split is a whole file.
    pub fn new(splits: Vec<Split>, options: CsvOptions) -> Self {
        CsvSource { splits: Value(Arc::new(splits)), options: Value(options), item: PhantomData }
    }
}

impl<T: Data> Pipe for CsvSource<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        let split = self.splits.0[partition as usize].clone();
        let header = self.options.0.header.then(|| read_header(&split, &self.options.0, task));
        let (header, data_starts) = header.map_or((None, 0), |(header, end)| (Some(header), end));
        let mut rows = Rows::open(split, self.options.0.clone(), task);
        std::iter::from_fn(move || rows.next_item(header.as_ref(), data_starts))
    }
}

/// The names of the columns, and where the rows start behind them.
fn read_header(split: &Split, options: &CsvOptions, task: &TaskContext) -> (ByteRecord, u64) {
    let from_start = Split { location: split.location.clone(), start: 0, end: TO_THE_END };
    let mut rows = Rows::open(from_start, options.clone(), task);
    match rows.advance(0) {
        None => (ByteRecord::new(), 0),
        Some((_, Ok(()))) => (rows.record, rows.lines.position),
        Some((_, Err(problem))) => fail_for_good(format!(
            "the header of {} cannot be read: {}: {:?}",
            split.location,
            problem.reason,
            shown(&problem.value)
        )),
    }
}

struct Rows {
    lines: Lines,
    options: CsvOptions,
    parser: csv_core::Reader,
    /// How much of the current line is parsed: a carriage return ends a row too.
    parsed: usize,
    /// Where in the current line the row starts, or goes on.
    started: usize,
    /// The lines of the row before the current one.
    earlier: Vec<u8>,
    record: ByteRecord,
    empty_texts: EmptyTexts,
    fields: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    fn open(split: Split, options: CsvOptions, task: &TaskContext) -> Self {
        Rows {
            lines: Lines::open(split, LineEnds::Newline, task.clone()),
            parser: options.parser(),
            empty_texts: EmptyTexts::new(options.parser(), options.quote),
            options,
            parsed: 0,
            started: 0,
            earlier: Vec::new(),
            record: ByteRecord::new(),
            fields: vec![0; 1024],
            ends: vec![0; 32],
        }
    }

    /// The next row that fits, of those that start at or behind `data_starts`.
    fn next_item<T: Data>(&mut self, header: Option<&ByteRecord>, data_starts: u64) -> Option<T> {
        loop {
            let (offset, row) = self.advance(data_starts)?;
            let item = row.and_then(|()| {
                convert(&self.record, header, &mut self.empty_texts)
                    .map_err(|problem| self.explained(problem))
            });
            match item {
                Ok(item) => return Some(item),
                Err(problem) => problem.treat(self.options.mode, &self.lines.split, offset),
            }
        }
    }

    /// Goes to the next row, which is in `record` then; where it starts.
    fn advance(&mut self, data_starts: u64) -> Option<(u64, Result<(), Malformed>)> {
        let mut offset = self.lines.position;
        if self.parsed >= self.lines.bytes().len() {
            loop {
                offset = self.lines.advance()?;
                self.parsed = 0;
                if offset >= data_starts && !self.options.skips(self.lines.bytes()) {
                    break;
                }
            }
            if offset == 0 && self.lines.bytes().starts_with("\u{feff}".as_bytes()) {
                self.parsed = 3;
            }
        }
        Some((offset, self.parse()))
    }

    /// Parses one row from the current line on. It takes more lines if a quote is open and rows may have
    /// several.
    fn parse(&mut self) -> Result<(), Malformed> {
        let (mut filled, mut count) = (0, 0);
        let mut at_end = false;
        self.started = self.parsed;
        self.earlier.clear();
        loop {
            let input = if at_end { &b"\n"[..] } else { &self.lines.bytes()[self.parsed..] };
            let (result, read, written, ended) =
                self.parser.read_record(input, &mut self.fields[filled..], &mut self.ends[count..]);
            self.parsed += read;
            (filled, count) = (filled + written, count + ended);
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::OutputFull if filled < LARGEST_ROW => {
                    self.fields.resize(self.fields.len() * 2, 0);
                }
                ReadRecordResult::OutputEndsFull if count < LARGEST_ROW => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                ReadRecordResult::InputEmpty if !at_end && !self.lines.bytes().ends_with(b"\n") => {
                    at_end = true;
                }
                ReadRecordResult::InputEmpty
                    if !at_end && self.options.multi_line && self.goes_on() => {}
                _ => return Err(self.unclosed(filled)),
            }
        }
        self.keep_fields(count);
        self.skip_line_end();
        Ok(())
    }

    /// Takes the next line, in which the row goes on, if there is one.
    fn goes_on(&mut self) -> bool {
        self.earlier.extend_from_slice(&self.lines.bytes()[self.started..]);
        (self.started, self.parsed) = (0, 0);
        self.lines.advance().is_some()
    }

    /// A carriage return has ended the row already; the newline behind it ends nothing.
    fn skip_line_end(&mut self) {
        let line = self.lines.bytes();
        while matches!(line.get(self.parsed), Some(b'\r' | b'\n')) {
            self.parsed += 1;
        }
    }

    fn keep_fields(&mut self, count: usize) {
        let CsvOptions { trim, null_value, .. } = &self.options;
        self.record.clear();
        let (mut start, mut has_empty) = (0, false);
        for end in &self.ends[..count] {
            let field = &self.fields[start..*end];
            has_empty |= field.is_empty();
            let field = if *trim { field.trim_ascii() } else { field };
            let is_null = null_value.as_ref().is_some_and(|null| null.as_bytes() == field);
            self.record.push_field(if is_null { b"" } else { field });
            start = *end;
        }
        match has_empty && null_value.as_deref() != Some("") {
            true => self.find_empty_texts(),
            false => self.empty_texts.clear(),
        }
    }

    fn find_empty_texts(&mut self) {
        let line = self.lines.bytes();
        let row = &line[self.started..self.parsed.min(line.len())];
        if self.earlier.is_empty() {
            self.empty_texts.find(row);
        } else {
            self.earlier.extend_from_slice(row);
            self.empty_texts.find(&self.earlier);
        }
    }

    /// A row that does not fit may be the end of one whose quote was opened lines before, in a part of
    /// the file that another task reads: which of the two tells of it first is chance.
    #[cold]
    fn explained(&self, mut problem: Malformed) -> Malformed {
        let CsvOptions { quote, escape, .. } = &self.options;
        let line = self.lines.bytes();
        let is_escaped = |place: usize| place > 0 && escape.as_ref() == Some(&line[place - 1]);
        let quotes = line.iter().enumerate();
        let quotes = quotes.filter(|(place, byte)| *byte == quote && !is_escaped(*place)).count();
        if !self.options.multi_line && quotes % 2 == 1 {
            problem.reason += "; its line has a quote without a partner: ";
            problem.reason += NEWLINES_IN_FIELDS;
        }
        problem
    }

    #[cold]
    fn unclosed(&mut self, filled: usize) -> Malformed {
        self.parser.reset();
        self.parsed = self.lines.bytes().len();
        let reason = match self.options.multi_line {
            true => "a quoted field is not closed before the end of the file".to_owned(),
            false => format!("a quoted field is not closed on its line; {NEWLINES_IN_FIELDS}"),
        };
        Malformed { reason, column: None, value: self.fields[..filled].to_vec() }
    }
}

fn convert<T: Data>(
    record: &ByteRecord,
    header: Option<&ByteRecord>,
    empty_texts: &mut EmptyTexts,
) -> Result<T, Malformed> {
    let converted = match header {
        Some(header) if header.len() != record.len() => {
            return Err(Malformed {
                reason: format!(
                    "the row has {} field(s), but the header has {}",
                    record.len(),
                    header.len()
                ),
                column: None,
                value: joined(record),
            });
        }
        _ if empty_texts.is_empty() => record.deserialize(header),
        _ => empty_texts.deserialize(record, header),
    };
    converted.map_err(|error| misfit(record, header, &error))
}

#[cold]
fn misfit(record: &ByteRecord, header: Option<&ByteRecord>, error: &csv::Error) -> Malformed {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else {
        return Malformed { reason: error.to_string(), column: None, value: joined(record) };
    };
    let index = err.field().map(|field| field as usize);
    let name = index.zip(header).and_then(|(index, header)| header.get(index)).map(shown);
    let column = match (name, index) {
        (Some(name), _) => Some(format!("column {name:?}")),
        (None, Some(index)) => Some(format!("column {}", index + 1)),
        (None, None) => None,
    };
    let value = index.and_then(|index| record.get(index)).map(<[u8]>::to_vec);
    let columns = header
        .filter(|_| index.is_none())
        .map_or(String::new(), |header| format!(" (the header has {})", shown(&joined(header))));
    let reason = format!("{}{columns}", err.kind());
    Malformed { reason, column, value: value.unwrap_or_else(|| joined(record)) }
}

fn joined(record: &ByteRecord) -> Vec<u8> {
    record.iter().collect::<Vec<_>>().join(&b',')
}
