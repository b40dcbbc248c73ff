//! RDDs of files: lines, rows, whole files.

use firesteel_closure::Data;
use firesteel_rdd::Pipe;
use firesteel_rdd::csv::{CsvOptions, CsvSource};
use firesteel_rdd::files::{BinaryFiles, PortableDataStream, WholeTextFiles, group_files};
use firesteel_rdd::json::{JsonOptions, JsonSource};
use firesteel_rdd::object::ObjectSource;
use firesteel_rdd::text::TextSource;
use firesteel_types::CallSite;

use crate::input::{self, TextOptions};
use crate::rdd::Node;
use crate::{Context, Rdd, Result};

/// Fewer partitions than this are not aimed at when files are read, as in Spark.
const DEFAULT_MIN_PARTITIONS: usize = 2;

/// Sources of files. `paths` may be a file, a directory, a glob (`data/*.txt`, `logs/{a,b}/*`), a URL of an
/// object store (`s3://bucket/logs/*.gz`), or several with commas between them.
impl Context {
    /// The lines of text files. Files whose names end in `.gz`, `.zst` or `.bz2` are decompressed; each of
    /// them is one partition.
    #[track_caller]
    pub fn text_file(&self, paths: &str) -> Result<Rdd<String, TextSource>> {
        self.text_file_at(CallSite::here("text_file"), paths, &TextOptions::default())
    }

    /// The lines of text files, read as `options` say.
    #[track_caller]
    pub fn text_file_with(
        &self,
        paths: &str,
        options: &TextOptions,
    ) -> Result<Rdd<String, TextSource>> {
        self.text_file_at(CallSite::here("text_file_with"), paths, options)
    }

    fn text_file_at(
        &self,
        site: CallSite,
        paths: &str,
        options: &TextOptions,
    ) -> Result<Rdd<String, TextSource>> {
        let cut = (options.min_partitions, options.max_split_bytes);
        input::check_cut(&site, cut)?;
        let files = input::find(&site, self.conf(), paths)?;
        let splits = input::split(self.conf(), files, cut, self.default_min_partitions())?;
        let count = splits.len();
        let source = TextSource::new(splits, options.lossy);
        Ok(self.of_files("TextFileRDD", site, paths, count, source))
    }

    /// Files as a whole, each with its path; small ones share a partition. For many small files that are
    /// read at once.
    #[track_caller]
    pub fn whole_text_files(&self, paths: &str) -> Result<Rdd<(String, String), WholeTextFiles>> {
        let site = CallSite::here("whole_text_files");
        self.whole_text_files_at(site, paths, &TextOptions::default())
    }

    /// Files as a whole, each with its path, read as `options` say.
    #[track_caller]
    pub fn whole_text_files_with(
        &self,
        paths: &str,
        options: &TextOptions,
    ) -> Result<Rdd<(String, String), WholeTextFiles>> {
        self.whole_text_files_at(CallSite::here("whole_text_files_with"), paths, options)
    }

    fn whole_text_files_at(
        &self,
        site: CallSite,
        paths: &str,
        options: &TextOptions,
    ) -> Result<Rdd<(String, String), WholeTextFiles>> {
        let cut = (options.min_partitions, options.max_split_bytes);
        input::check_cut(&site, cut)?;
        let files = input::find(&site, self.conf(), paths)?;
        let least = options.min_partitions.unwrap_or_else(|| self.default_min_partitions());
        let groups = group_files(files, least);
        let count = groups.len();
        let source = WholeTextFiles::new(groups, options.lossy);
        Ok(self.of_files("WholeTextFileRDD", site, paths, count, source))
    }

    /// Files, each with its path, to be opened where they are needed; their bytes come as they are stored.
    #[track_caller]
    pub fn binary_files(
        &self,
        paths: &str,
    ) -> Result<Rdd<(String, PortableDataStream), BinaryFiles>> {
        let site = CallSite::here("binary_files");
        self.binary_files_at(site, paths, self.default_min_partitions())
    }

    /// [`Context::binary_files`] in about this many partitions.
    #[track_caller]
    pub fn binary_files_in(
        &self,
        partitions: usize,
        paths: &str,
    ) -> Result<Rdd<(String, PortableDataStream), BinaryFiles>> {
        let site = CallSite::here("binary_files_in");
        input::check_cut(&site, (Some(partitions), None))?;
        self.binary_files_at(site, paths, partitions)
    }

    fn binary_files_at(
        &self,
        site: CallSite,
        paths: &str,
        partitions: usize,
    ) -> Result<Rdd<(String, PortableDataStream), BinaryFiles>> {
        let groups = group_files(input::find(&site, self.conf(), paths)?, partitions);
        let count = groups.len();
        Ok(self.of_files("BinaryFileRDD", site, paths, count, BinaryFiles::new(groups)))
    }

    /// The rows of CSV files without a header: fields in the order of the type's.
    #[track_caller]
    pub fn csv<T: Data>(&self, paths: &str) -> Result<Rdd<T, CsvSource<T>>> {
        self.csv_at(CallSite::here("csv"), paths, &CsvOptions::default())
    }

    /// The rows of CSV files, read as `options` say.
    #[track_caller]
    pub fn csv_with<T: Data>(
        &self,
        paths: &str,
        options: &CsvOptions,
    ) -> Result<Rdd<T, CsvSource<T>>> {
        self.csv_at(CallSite::here("csv_with"), paths, options)
    }

    fn csv_at<T: Data>(
        &self,
        site: CallSite,
        paths: &str,
        options: &CsvOptions,
    ) -> Result<Rdd<T, CsvSource<T>>> {
        input::check_cut(&site, options.cut())?;
        let files = input::find(&site, self.conf(), paths)?;
        let splits = match options.is_multi_line() {
            true => input::whole(files),
            false => {
                let least = self.default_min_partitions();
                input::split(self.conf(), files, options.cut(), least)?
            }
        };
        let count = splits.len();
        Ok(self.of_files("CsvRDD", site, paths, count, CsvSource::new(splits, options.clone())))
    }

    /// The values of files with one JSON value per line.
    #[track_caller]
    pub fn json_lines<T: Data>(&self, paths: &str) -> Result<Rdd<T, JsonSource<T>>> {
        self.json_lines_at(CallSite::here("json_lines"), paths, &JsonOptions::default())
    }

    /// The values of files with one JSON value per line, read as `options` say.
    #[track_caller]
    pub fn json_lines_with<T: Data>(
        &self,
        paths: &str,
        options: &JsonOptions,
    ) -> Result<Rdd<T, JsonSource<T>>> {
        self.json_lines_at(CallSite::here("json_lines_with"), paths, options)
    }

    fn json_lines_at<T: Data>(
        &self,
        site: CallSite,
        paths: &str,
        options: &JsonOptions,
    ) -> Result<Rdd<T, JsonSource<T>>> {
        input::check_cut(&site, options.cut())?;
        let files = input::find(&site, self.conf(), paths)?;
        let least = self.default_min_partitions();
        let splits = input::split(self.conf(), files, options.cut(), least)?;
        let count = splits.len();
        let source = JsonSource::new(splits, options.clone());
        Ok(self.of_files("JsonRDD", site, paths, count, source))
    }

    /// The items that [`Rdd::save_as_object_file`] wrote, one partition per file.
    #[track_caller]
    pub fn object_file<T: Data>(&self, paths: &str) -> Result<Rdd<T, ObjectSource<T>>> {
        let site = CallSite::here("object_file");
        let files = input::find(&site, self.conf(), paths)?;
        let count = files.len();
        Ok(self.of_files("ObjectFileRDD", site, paths, count, ObjectSource::new(files)))
    }

    /// The rows of Parquet files: columns by the names of the type's fields; others are not read. Large
    /// files are cut at row groups (`spark.files.maxPartitionBytes`).
    #[cfg(feature = "parquet")]
    #[track_caller]
    pub fn parquet<T: Data>(
        &self,
        paths: &str,
    ) -> Result<Rdd<T, firesteel_rdd::parquet::ParquetSource<T>>> {
        use firesteel_rdd::parquet::{ParquetSource, split_parquet};
        let site = CallSite::here("parquet");
        let target = self.conf().get(&firesteel_conf::entries::FILES_MAX_PARTITION_BYTES)?.0;
        let splits = split_parquet(input::find(&site, self.conf(), paths)?, target);
        let count = splits.len();
        Ok(self.of_files("ParquetRDD", site, paths, count, ParquetSource::new(splits)))
    }

    fn default_min_partitions(&self) -> usize {
        self.default_parallelism().min(DEFAULT_MIN_PARTITIONS)
    }

    fn of_files<T: 'static, P: Pipe<Item = T>>(
        &self,
        kind: &'static str,
        site: CallSite,
        paths: &str,
        partitions: usize,
        source: P,
    ) -> Rdd<T, P> {
        let mut node = Node::new(self, kind, site).named(paths);
        node.partitions = u32::try_from(partitions).unwrap_or(u32::MAX);
        node.into_rdd(source)
    }
}
