//! Parquet: rows into a type of serde's and back, columns found by the names of its fields.
//!
//! Files are cut by size, like text: a row group belongs to the split in which its middle lies. Only the
//! columns that the type has are read.

use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression as Codec, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, Length};
use serde::de::DeserializeOwned;
use serde_arrow::ErrorKind;
use serde_arrow::schema::{SchemaLike, TracingOptions};

use firesteel_closure::{Data, Value, wire};
use firesteel_io::{Compression, FileRef, Input, Location};
use firesteel_task::{TaskContext, fail_for_good, fail_with};

use crate::Pipe;
use crate::memory::Meter;
use crate::shape::{fields_of, is_known};
use crate::text::{fail_opening, fail_reading};
use crate::write::{RowFormat, WriteError};

/// Rows that are turned at once, or fewer if they have so many bytes.
const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 8 << 20;
const ROWS: &str = "a row is a struct of bools, numbers of up to 64 bits, texts, bytes and enums without data, and of \
                    options, lists, maps, tuples and structs of these; dates and times are saved as texts or numbers";
/// A row group is written when it has so many encoded bytes.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A part of a Parquet file.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ParquetSplit {
    file: FileRef,
    start: u64,
    end: u64,
}

/// Cuts files into splits of about `target` bytes.
pub fn split_parquet(files: Vec<FileRef>, target: u64) -> Vec<ParquetSplit> {
    let target = target.max(1);
    let cut = |file: FileRef| {
        let count = file.len.div_ceil(target).max(1);
        let at = move |i: u64| if i == count { u64::MAX } else { i * target };
        (0..count).map(move |i| ParquetSplit { file: file.clone(), start: at(i), end: at(i + 1) })
    };
    files.into_iter().flat_map(cut).collect()
}

wire! {
    /// `parquet`
    pub struct ParquetSource[T: 'static] {
        splits: Value<Arc<Vec<ParquetSplit>>>,
        item: PhantomData<fn() -> T>,
    }
}

impl<T> ParquetSource<T> {
    /// One partition per split.
    pub fn new(splits: Vec<ParquetSplit>) -> Self {
        ParquetSource { splits: Value(Arc::new(splits)), item: PhantomData }
    }
}

impl<T: Data> Pipe for ParquetSource<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        let split = self.splits.0[partition as usize].clone();
        let location = split.file.location.clone();
        let (reader, schema) = open::<T>(split);
        let task = task.clone();
        reader.flat_map(move |batch| {
            task.check_killed();
            let batch = batch.unwrap_or_else(|error| fail_unreadable(&location, &error));
            task.count(|metrics| {
                metrics.input_records += batch.num_rows() as u64;
                metrics.input_bytes += batch.get_array_memory_size() as u64;
            });
            serde_arrow::from_record_batch::<Vec<T>>(&batch)
                .unwrap_or_else(|error| fail_misfit::<T>(&location, &schema, &error))
        })
    }
}

fn open<T: DeserializeOwned>(split: ParquetSplit) -> (ParquetRecordBatchReader, Arc<Schema>) {
    let location = split.file.location.clone();
    let chunks = Chunks(split.file);
    let builder = ParquetRecordBatchReaderBuilder::try_new(chunks)
        .unwrap_or_else(|error| fail_damaged(&location, error));
    let schema = builder.schema().clone();
    // If only some fields are known, the others are among the columns all the same.
    let wanted = fields_of::<T>().filter(|_| is_known::<T>());
    let roots = (0..schema.fields().len()).filter(|index| {
        let name = schema.field(*index).name();
        wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|(field, _)| field == name))
    });
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let groups = builder.metadata().row_groups().iter().enumerate();
    let inside = |group: &RowGroupMetaData| (split.start..split.end).contains(&middle(group));
    let groups: Vec<_> = groups.filter(|(_, group)| inside(group)).collect();
    let rows = groups.iter().map(|(_, group)| batch_rows(group)).min().unwrap_or(1);
    let groups = groups.into_iter().map(|(index, _)| index).collect();
    let reader = builder
        .with_projection(mask)
        .with_row_groups(groups)
        .with_batch_size(rows)
        .build()
        .unwrap_or_else(|error| fail_damaged(&location, error));
    (reader, schema)
}

/// How many rows of a group have [`BATCH_BYTES`], as far as its metadata tell.
fn batch_rows(group: &RowGroupMetaData) -> usize {
    let (bytes, rows) = (group.total_byte_size().max(1), group.num_rows().max(1));
    let rows = (BATCH_BYTES as i64).saturating_mul(rows) / bytes;
    usize::try_from(rows).unwrap_or(1).clamp(1, BATCH_ROWS)
}

fn middle(group: &RowGroupMetaData) -> u64 {
    let ranges = group.columns().iter().map(|column| column.byte_range());
    let (start, end) = ranges.fold((u64::MAX, 0), |(start, end), (offset, len)| {
        (start.min(offset), end.max(offset.saturating_add(len)))
    });
    if start == u64::MAX { 0 } else { start + (end.saturating_sub(start)) / 2 }
}

/// A file, local or not, as the reader of Parquet wants it.
struct Chunks(FileRef);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.len
    }
}

impl ChunkReader for Chunks {
    type T = io::BufReader<Input>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(io::BufReader::new(Input::open_at(&self.0.location, start, self.0.len)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        let mut input = Input::open_at(&self.0.location, start, start + length as u64)?;
        let mut content = vec![0; length];
        input.read_exact(&mut content)?;
        Ok(content.into())
    }
}

#[cold]
fn fail_damaged(location: &Location, error: ParquetError) -> ! {
    match error {
        ParquetError::External(inner) if inner.is::<io::Error>() => {
            let error = inner.downcast::<io::Error>().expect("it was looked at");
            match error.kind() {
                io::ErrorKind::UnexpectedEof => fail_with(format!(
                    "{location} is shorter than it was when the job was planned: it was changed meanwhile"
                )),
                io::ErrorKind::NotFound => fail_opening(location, &error),
                _ => fail_reading(location, 0, &error),
            }
        }
        error => fail_for_good(format!(
            "{location} is not a Parquet file, or it is damaged or cut off: {error}"
        )),
    }
}

/// The metadata could be read, the rows cannot.
#[cold]
fn fail_unreadable(location: &Location, error: &arrow_schema::ArrowError) -> ! {
    fail_for_good(format!("{location} cannot be read, it may be damaged or cut off: {error}"))
}

/// Says which column does not fit, if one can be told, and what there is.
#[cold]
fn fail_misfit<T: DeserializeOwned>(
    location: &Location,
    schema: &Schema,
    error: &serde_arrow::Error,
) -> ! {
    let problems: Vec<String> = fields_of::<T>()
        .unwrap_or_default()
        .iter()
        .filter_map(|(name, shape)| match schema.field_with_name(name) {
            Err(_) if shape.starts_with("option ") => None,
            Err(_) => Some(format!("column {name:?} is missing (expected {shape})")),
            Ok(field) if fits(shape, field.data_type()) => None,
            Ok(field) => {
                Some(format!("column {name:?} is {}, but {shape} is expected", field.data_type()))
            }
        })
        .collect();
    let problems = match problems.is_empty() {
        true => told("column", error),
        false => problems.join(", "),
    };
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect();
    fail_for_good(format!(
        "{location}: rows do not fit {}: {problems}; the file has {}",
        std::any::type_name::<T>(),
        columns.join(", ")
    ))
}

/// What is wrong with a value, and where. What serde_arrow advises is for programs that call it.
#[cold]
fn told(what: &str, error: &serde_arrow::Error) -> String {
    let place = place_in(error).map_or(String::new(), |place| format!("{what} {place:?}: "));
    let message = error.message();
    let of_the_type = message
        .strip_prefix("deserialization failed: ")
        .or_else(|| message.strip_prefix("serialization failed: "));
    let reason = match (error.kind(), of_the_type) {
        (ErrorKind::NullabilityViolation { .. }, _) => {
            "a value is null, which only an `Option` can be"
        }
        (_, Some(of_the_type)) => of_the_type,
        (_, None) => "a value is too large, or of another kind than the type wants",
    };
    format!("{place}{reason}")
}

/// The field that an error is about, which serde_arrow says only in its text: `... (field: "$.vendor.name", ...)`.
fn place_in(error: &serde_arrow::Error) -> Option<String> {
    let text = error.to_string();
    let (_, place) = text.rsplit_once("\"$.")?;
    place.split_once('"').map(|(place, _)| place.to_owned())
}

/// Whether a column's type can be what a field wants; where that is not plain, it can.
fn fits(shape: &str, found: &DataType) -> bool {
    let shape = shape.strip_prefix("option ").unwrap_or(shape);
    match shape {
        "bool" => matches!(found, DataType::Boolean),
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" => {
            found.is_integer() || found.is_temporal()
        }
        "f32" | "f64" => found.is_floating() || matches!(found, DataType::Decimal128(..)),
        "str" => !found.is_integer() && !found.is_floating() && !found.is_nested(),
        _ => true,
    }
}

wire! {
    /// The format of `save_as_parquet`.
    pub struct ParquetRows[] {
        compression: Value<Option<Compression>>,
    }
}

impl ParquetRows {
    /// Compresses pages; `None`: with Snappy, as Spark does.
    pub fn new(compression: Option<Compression>) -> Self {
        ParquetRows { compression: Value(compression) }
    }

    fn codec(&self) -> Result<Codec, WriteError> {
        match self.compression.0 {
            None => Ok(Codec::SNAPPY),
            Some(Compression::Gzip) => Ok(Codec::GZIP(GzipLevel::default())),
            Some(Compression::Zstd) => Ok(Codec::ZSTD(ZstdLevel::default())),
            Some(Compression::Bzip2) => {
                Err(WriteError::Row("Parquet has no bzip2; use zstd or gzip".to_owned()))
            }
        }
    }
}

impl<T: Data> RowFormat<T> for ParquetRows {
    const EXTENSION: &'static str = ".parquet";

    fn write<W: Write + Send>(
        &self,
        items: impl Iterator<Item = T>,
        out: W,
    ) -> Result<(W, u64), WriteError> {
        let fields = columns_of::<T>()?;
        let properties = WriterProperties::builder().set_compression(self.codec()?).build();
        let schema = Arc::new(Schema::new(fields.clone()));
        let mut writer =
            ArrowWriter::try_new(out, schema, Some(properties)).map_err(write_failed)?;
        let mut records = 0;
        let mut rows = Vec::new();
        let (mut meter, mut heap) = (Meter::of::<T>(), 0.0);
        for item in items {
            heap += meter.see(&item);
            rows.push(item);
            records += 1;
            if rows.len() == BATCH_ROWS || heap >= BATCH_BYTES as f64 {
                write_rows(&mut writer, &fields, &rows)?;
                rows.clear();
                heap = 0.0;
                meter.forget();
            }
        }
        write_rows(&mut writer, &fields, &rows)?;
        Ok((writer.into_inner().map_err(write_failed)?, records))
    }
}

/// The columns follow from the type alone, so that all files of a directory have the same.
fn columns_of<T: DeserializeOwned>() -> Result<Vec<FieldRef>, WriteError> {
    // With null fields allowed, a field without a column is found by its path, below.
    let options = TracingOptions::default()
        .map_as_struct(false)
        .enums_without_data_as_strings(true)
        .allow_null_fields(true);
    let refused = |reason: String| {
        WriteError::Row(format!("{} has no columns: {reason}; {ROWS}", std::any::type_name::<T>()))
    };
    let columns = Vec::<FieldRef>::from_type::<T>(options)
        .map_err(|error| refused(no_columns::<T>(&error)))?;
    match columns.iter().find_map(|column| no_column(column.name(), column)) {
        _ if columns.is_empty() => Err(refused("it has no fields".to_owned())),
        Some(reason) => Err(refused(reason)),
        None => Ok(columns),
    }
}

#[cold]
fn no_columns<T: DeserializeOwned>(error: &serde_arrow::Error) -> String {
    let Some(fields) = fields_of::<T>() else { return "it is no struct".to_owned() };
    let is_wide = |shape: &str| shape.contains("i128") || shape.contains("u128");
    let wide = fields.iter().find(|(_, shape)| is_wide(shape));
    // What refuses a made-up value is the last of which anything is known.
    let refusing = fields.last().filter(|_| !is_known::<T>());
    match place_in(error).or(wide.or(refusing).map(|(name, _)| name.clone())) {
        Some(place) => format!(
            "the type of field `{place}` does not say what it holds: it refuses an empty text or 0, holds itself, \
             or depends on the data"
        ),
        None => "the type of a field does not say what it holds".to_owned(),
    }
}

/// Why Parquet has no column for what is at `path`, if it has none.
fn no_column(path: &str, field: &FieldRef) -> Option<String> {
    let reason = match field.data_type() {
        DataType::Union(..) => "is an enum with data",
        DataType::Null => "holds nothing",
        DataType::Struct(fields) if fields.is_empty() => "is a struct without fields",
        DataType::Struct(fields) => {
            let inside = |field: &FieldRef| no_column(&format!("{path}.{}", field.name()), field);
            return fields.iter().find_map(inside);
        }
        DataType::List(items) | DataType::LargeList(items) | DataType::Map(items, _) => {
            return no_column(path, items);
        }
        _ => return None,
    };
    Some(format!("field `{path}` {reason}"))
}

fn write_rows<W: Write + Send, T: Data>(
    writer: &mut ArrowWriter<W>,
    fields: &[FieldRef],
    rows: &Vec<T>,
) -> Result<(), WriteError> {
    if rows.is_empty() {
        return Ok(());
    }
    let batch: RecordBatch = serde_arrow::to_record_batch(fields, rows).map_err(|error| {
        WriteError::Row(format!("an item has no row: {}", told("field", &error)))
    })?;
    writer.write(&batch).map_err(write_failed)?;
    if writer.in_progress_size() >= ROW_GROUP_BYTES {
        writer.flush().map_err(write_failed)?;
    }
    Ok(())
}

#[cold]
fn write_failed(error: ParquetError) -> WriteError {
    match error {
        ParquetError::External(inner) if inner.is::<io::Error>() => {
            WriteError::Io(*inner.downcast().expect("it was looked at"))
        }
        error => WriteError::Row(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Row {
        text: String,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    enum Shape {
        Circle(f64),
        Square { side: f64 },
        Point,
    }

    /// As dates of chrono are read: from a text, and not from any.
    #[derive(serde::Serialize)]
    struct Day(String);

    impl<'de> serde::Deserialize<'de> for Day {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let text = <String as serde::Deserialize>::deserialize(from)?;
            let refused = || serde::de::Error::custom("premature end of input");
            (text.len() == 10).then_some(Day(text)).ok_or_else(refused)
        }
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Holding<T> {
        id: u64,
        what: T,
        after: bool,
    }

    #[test]
    fn a_type_without_columns_is_told_by_its_field_in_our_own_words() {
        type Reason = Result<Vec<FieldRef>, WriteError>;
        let cases: [(Reason, &str); 10] = [
            (columns_of::<Holding<Shape>>(), "field `what` is an enum with data"),
            (columns_of::<Holding<Option<Vec<Shape>>>>(), "field `what` is an enum with data"),
            (columns_of::<Holding<Holding<Shape>>>(), "field `what.what` is an enum with data"),
            (columns_of::<Holding<()>>(), "field `what` holds nothing"),
            (columns_of::<Holding<Day>>(), "type of field `what` does not say"),
            (columns_of::<Holding<u128>>(), "type of field `what` does not say"),
            (columns_of::<Holding<serde_json::Value>>(), "type of field `what` does not say"),
            (columns_of::<Shape>(), "it is no struct"),
            (columns_of::<u64>(), "it is no struct"),
            (columns_of::<Option<Row>>(), "it is no struct"),
        ];
        for (columns, expected) in cases {
            let Err(WriteError::Row(reason)) = &columns else { panic!("{expected}: {columns:?}") };
            assert!(reason.contains(expected), "{expected}: {reason}");
            assert!(reason.contains("a row is a struct of"), "{reason}");
            for theirs in ["TracingOptions", "from_type", "from_samples", "Error:"] {
                assert!(!reason.contains(theirs), "{reason}");
            }
        }
        assert!(columns_of::<Holding<std::collections::BTreeMap<String, (char, f32)>>>().is_ok());
    }

    #[test]
    fn batches_of_wide_rows_are_closed_by_their_bytes() {
        // Snappy looks for repetitions within 64 KiB.
        let wide = |n: u64| {
            let mut rng = fastrand::Rng::with_seed(n);
            let block: String = (0..64 << 10).map(|_| rng.alphanumeric()).collect();
            Row { text: block.repeat(16) }
        };
        let (file, records) = ParquetRows::new(None).write((0..80).map(wide), Vec::new()).unwrap();
        assert_eq!(records, 80);
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap();
        let groups = builder.metadata().row_groups();
        // 80 MiB: as one batch they would be one group.
        assert!(groups.len() > 1, "{} groups", groups.len());
        assert!(groups.iter().all(|group| batch_rows(group) <= 8));
    }
}
