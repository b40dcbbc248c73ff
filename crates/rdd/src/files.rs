//! Files as a whole: `whole_text_files` and `binary_files`. Small files share a partition.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use firesteel_closure::{Value, wire};
use firesteel_io::{Compression, FileRef, Input};
use firesteel_task::{TaskContext, fail_for_good, fail_with};

use crate::Pipe;
use crate::text::{fail_opening, fail_reading};

/// Puts files together, in their order, until a group has about its share of all bytes.
pub fn group_files(files: Vec<FileRef>, groups: usize) -> Vec<Vec<FileRef>> {
    let total: u64 = files.iter().map(|file| file.len).sum();
    let share = total.div_ceil(groups.max(1) as u64).max(1);
    let (mut result, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
    for file in files {
        if bytes > 0 && bytes + file.len > share {
            result.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes += file.len;
        group.push(file);
    }
    if !group.is_empty() {
        result.push(group);
    }
    result
}

wire! {
    /// `whole_text_files`
    pub struct WholeTextFiles[] {
        groups: Value<Arc<Vec<Vec<FileRef>>>>,
        lossy: bool,
    }
}

impl WholeTextFiles {
    /// One partition per group; invalid UTF-8 is replaced if `lossy`, else it fails the job.
    pub fn new(groups: Vec<Vec<FileRef>>, lossy: bool) -> Self {
        WholeTextFiles { groups: Value(Arc::new(groups)), lossy }
    }
}

impl Pipe for WholeTextFiles {
    type Item = (String, String);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (String, String)> + use<> + 'static {
        let (lossy, task) = (self.lossy, task.clone());
        let files = self.groups.0[partition as usize].clone();
        files.into_iter().map(move |file| {
            let bytes = read_whole(&file, &task);
            (file.location.to_string(), text(&file, bytes, lossy))
        })
    }
}

fn read_whole(file: &FileRef, task: &TaskContext) -> Vec<u8> {
    task.check_killed();
    let location = &file.location;
    let mut content = Vec::new();
    Input::open(location)
        .unwrap_or_else(|error| fail_opening(location, &error))
        .read_to_end(&mut content)
        .unwrap_or_else(|error| fail_reading(location, content.len() as u64, &error));
    let compressed = Compression::of(&location.to_string()).is_some();
    if !compressed && (content.len() as u64) < file.len {
        fail_with(format!(
            "{location} has {} bytes, but had {} when the job was planned: it was changed meanwhile",
            content.len(),
            file.len
        ));
    }
    task.count(|metrics| {
        metrics.input_records += 1;
        metrics.input_bytes += content.len() as u64;
    });
    content
}

fn text(file: &FileRef, bytes: Vec<u8>, lossy: bool) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| match lossy {
        true => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        false => fail_for_good(format!(
            "{} is not valid UTF-8 at offset {}; read it with TextOptions::lossy, or with binary_files",
            file.location,
            error.utf8_error().valid_up_to()
        )),
    })
}

/// A file of `binary_files`: named, not read yet. It can travel to other tasks, which read it there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortableDataStream(FileRef);

impl PortableDataStream {
    /// The file's path or URL.
    pub fn path(&self) -> String {
        self.0.location.to_string()
    }

    /// How many bytes it had when it was found.
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether it had no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes as they are stored, one piece after the other.
    pub fn open(&self) -> io::Result<impl Read + use<>> {
        Input::open_stored(&self.0.location).map(io::BufReader::new)
    }

    /// All bytes (Spark's `toArray`).
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Input::open_stored(&self.0.location)?.read_to_end(&mut content)?;
        Ok(content)
    }
}

impl fmt::Debug for PortableDataStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortableDataStream({:?}, {} bytes)", self.path(), self.len())
    }
}

wire! {
    /// `binary_files`
    pub struct BinaryFiles[] {
        groups: Value<Arc<Vec<Vec<FileRef>>>>,
    }
}

impl BinaryFiles {
    /// One partition per group.
    pub fn new(groups: Vec<Vec<FileRef>>) -> Self {
        BinaryFiles { groups: Value(Arc::new(groups)) }
    }
}

impl Pipe for BinaryFiles {
    type Item = (String, PortableDataStream);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (String, PortableDataStream)> + use<> + 'static {
        let files = self.groups.0[partition as usize].clone();
        task.interruptible(files.into_iter())
            .map(|file| (file.location.to_string(), PortableDataStream(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_io::Location;

    #[test]
    fn small_files_share_a_partition_and_large_ones_have_their_own() {
        let groups = |lens: &[u64], count: usize| -> Vec<Vec<u64>> {
            let location = Location::Local("a".into());
            let file = |len: &u64| FileRef { location: location.clone(), len: *len };
            let grouped = group_files(lens.iter().map(file).collect(), count);
            grouped.iter().map(|group| group.iter().map(|file| file.len).collect()).collect()
        };
        assert_eq!(groups(&[1, 1, 1, 1], 2), [[1, 1], [1, 1]]);
        assert_eq!(groups(&[1, 1, 1, 1], 1), [[1, 1, 1, 1]]);
        assert_eq!(groups(&[100, 1, 1], 2), [vec![100], vec![1, 1]]);
        assert_eq!(groups(&[0, 0], 5), [[0, 0]]);
        assert_eq!(groups(&[1, 2, 3], 100).len(), 3);
        assert!(groups(&[], 3).is_empty());
    }
}
