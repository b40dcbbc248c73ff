//! Which files are compressed how: their names tell.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Compression {
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
    /// `.bz2`
    Bzip2,
}

impl Compression {
    /// What a file's name says; `None` for plain files and for endings that mean nothing here.
    pub fn of(name: &str) -> Option<Self> {
        let extension = Path::new(name).extension()?.to_str()?;
        [Compression::Gzip, Compression::Zstd, Compression::Bzip2]
            .into_iter()
            .find(|compression| extension.eq_ignore_ascii_case(compression.extension()))
    }

    /// The ending of the names of such files.
    pub fn extension(self) -> &'static str {
        match self {
            Compression::Gzip => "gz",
            Compression::Zstd => "zst",
            Compression::Bzip2 => "bz2",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Bzip2 => "bzip2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_tells_the_compression() {
        for (name, expected) in [
            ("a.gz", Some(Compression::Gzip)),
            ("a/b.txt.GZ", Some(Compression::Gzip)),
            ("s3://b/part-00000.zst", Some(Compression::Zstd)),
            ("a.bz2", Some(Compression::Bzip2)),
            ("a.txt", None),
            ("a.gz.txt", None),
            ("gz", None),
            (".gz", None),
            ("a.gz/b", None),
            ("a.lzo", None),
        ] {
            assert_eq!(Compression::of(name), expected, "{name}");
        }
    }
}
