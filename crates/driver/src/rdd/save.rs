//! Actions that write files.

use std::fmt::Display;
use std::path::Path;

use firesteel_conf::entries;
use firesteel_rdd::Pipe;
use firesteel_rdd::write::{WriteText, WrittenFile};
use firesteel_types::CallSite;

use crate::output::Staged;
use crate::{Rdd, Result};

impl<T: Display + 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// One line per item, one file per partition, in a new directory that appears only when
    /// everything is written: `part-00000`, ..., and `_SUCCESS`. A directory that exists is refused,
    /// or replaced with `spark.hadoop.validateOutputSpecs=false`.
    #[track_caller]
    pub fn save_as_text_file(&self, directory: impl AsRef<Path>) -> Result<()> {
        let site = CallSite::here("save_as_text_file");
        let replace = !self.context.conf().get(&entries::VALIDATE_OUTPUT_SPECS)?;
        let staged = Staged::create(directory.as_ref(), replace, &self.context.0.leftovers)?;
        let action = WriteText::new(staged.attempts());
        let files: Result<Vec<WrittenFile>> = self.run_all(site, action)?.collect();
        staged.commit(files?)
    }
}
