//! Actions that write files.

use std::fmt::Display;
use std::path::Path;

use serde::Serialize;

use firesteel_closure::Data;
use firesteel_conf::entries;
use firesteel_io::{Compression, Location, Written};
use firesteel_rdd::Pipe;
use firesteel_rdd::csv::CsvOptions;
use firesteel_rdd::object::Objects;
use firesteel_rdd::write::{CsvRows, JsonLines, RowFormat, TextLines, WriteFiles};
use firesteel_types::CallSite;

use crate::output::Output;
use crate::{Rdd, Result, input};

/// How files are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveOptions {
    compression: Option<Compression>,
    /// `None`: as `spark.hadoop.validateOutputSpecs` says.
    overwrite: Option<bool>,
}

impl SaveOptions {
    /// Not compressed, and into a new directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compresses the files, and says so in their names: `part-00000.gz`.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Whether a directory that exists is replaced, once the new one is written completely, or refused;
    /// unless this is called, `spark.hadoop.validateOutputSpecs` decides.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = Some(overwrite);
        self
    }

    /// For a format that compresses inside of its files.
    #[cfg(feature = "parquet")]
    fn uncompressed(self) -> Self {
        SaveOptions { compression: None, ..self }
    }
}

/// Saving: one file per partition, in a new directory that appears only when everything is written:
/// `part-00000`, ..., and `_SUCCESS`. A directory that exists is refused, or replaced with
/// [`SaveOptions::overwrite`] or `spark.hadoop.validateOutputSpecs=false`.
impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// One line per item.
    #[track_caller]
    pub fn save_as_text_file(&self, directory: impl AsRef<Path>) -> Result<()>
    where
        T: Display,
    {
        let site = CallSite::here("save_as_text_file");
        self.save(site, directory.as_ref(), &SaveOptions::default(), TextLines)
    }

    /// One line per item, in files as `options` say.
    #[track_caller]
    pub fn save_as_text_file_with(
        &self,
        directory: impl AsRef<Path>,
        options: &SaveOptions,
    ) -> Result<()>
    where
        T: Display,
    {
        self.save(CallSite::here("save_as_text_file_with"), directory.as_ref(), options, TextLines)
    }

    /// One JSON value per line: `part-00000.json`.
    #[track_caller]
    pub fn save_as_json_lines(&self, directory: impl AsRef<Path>) -> Result<()>
    where
        T: Serialize,
    {
        let site = CallSite::here("save_as_json_lines");
        self.save(site, directory.as_ref(), &SaveOptions::default(), JsonLines)
    }

    /// One JSON value per line, in files as `options` say.
    #[track_caller]
    pub fn save_as_json_lines_with(
        &self,
        directory: impl AsRef<Path>,
        options: &SaveOptions,
    ) -> Result<()>
    where
        T: Serialize,
    {
        self.save(CallSite::here("save_as_json_lines_with"), directory.as_ref(), options, JsonLines)
    }

    /// One row per item, a struct or tuple of simple values: `part-00000.csv`.
    #[track_caller]
    pub fn save_as_csv(&self, directory: impl AsRef<Path>) -> Result<()>
    where
        T: Serialize,
    {
        let format = CsvRows::new(CsvOptions::default());
        let site = CallSite::here("save_as_csv");
        self.save(site, directory.as_ref(), &SaveOptions::default(), format)
    }

    /// One row per item, in the form that `form` says (with [`CsvOptions::header`], each file that has
    /// rows starts with the names of the fields), in files as `options` say.
    #[track_caller]
    pub fn save_as_csv_with(
        &self,
        directory: impl AsRef<Path>,
        form: &CsvOptions,
        options: &SaveOptions,
    ) -> Result<()>
    where
        T: Serialize,
    {
        let format = CsvRows::new(form.clone());
        self.save(CallSite::here("save_as_csv_with"), directory.as_ref(), options, format)
    }

    /// Items in Firesteel's own encoding, with checksums and the shape of their type; for
    /// [`crate::Context::object_file`].
    #[track_caller]
    pub fn save_as_object_file(&self, directory: impl AsRef<Path>) -> Result<()>
    where
        T: Data,
    {
        let site = CallSite::here("save_as_object_file");
        self.save(site, directory.as_ref(), &SaveOptions::default(), Objects)
    }

    /// Parquet files, compressed with Snappy: `part-00000.parquet`. Items are structs; their fields are the
    /// columns.
    #[cfg(feature = "parquet")]
    #[track_caller]
    pub fn save_as_parquet(&self, directory: impl AsRef<Path>) -> Result<()>
    where
        T: Data,
    {
        let format = firesteel_rdd::parquet::ParquetRows::new(None);
        let site = CallSite::here("save_as_parquet");
        self.save(site, directory.as_ref(), &SaveOptions::default(), format)
    }

    /// Parquet files, compressed as `options` say (zstd or gzip), inside of the files.
    #[cfg(feature = "parquet")]
    #[track_caller]
    pub fn save_as_parquet_with(
        &self,
        directory: impl AsRef<Path>,
        options: &SaveOptions,
    ) -> Result<()>
    where
        T: Data,
    {
        let format = firesteel_rdd::parquet::ParquetRows::new(options.compression);
        let site = CallSite::here("save_as_parquet_with");
        self.save(site, directory.as_ref(), &options.uncompressed(), format)
    }

    fn save<F: RowFormat<T>>(
        &self,
        site: CallSite,
        directory: &Path,
        options: &SaveOptions,
        format: F,
    ) -> Result<()> {
        let replace = match options.overwrite {
            Some(overwrite) => overwrite,
            None => !self.context.conf().get(&entries::VALIDATE_OUTPUT_SPECS)?,
        };
        let target = match directory.to_str() {
            Some(text) => Location::parse(text, &input::store_options(self.context.conf())),
            None => Location::Local(directory.to_owned()),
        };
        let output = Output::create(&target, replace, &self.context);
        let output = output.map_err(|error| error.at(&site))?;
        let action = WriteFiles::new(output.target(), options.compression, format);
        let files: Result<Vec<Written>> = self.run_all(site, action)?.collect();
        output.commit(files?).map_err(|error| error.at(&site))
    }
}
