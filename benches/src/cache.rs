//! Where things live between runs: `~/.cache/firesteel`, or `$FIRESTEEL_CACHE`.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The directory `name` in the cache, made if it is missing.
pub(crate) fn directory(name: &str) -> Result<PathBuf> {
    let root = match env::var_os("FIRESTEEL_CACHE") {
        Some(root) => PathBuf::from(root),
        None => {
            let home = env::home_dir().context("no home directory: set FIRESTEEL_CACHE")?;
            home.join(".cache/firesteel")
        }
    };
    let directory = root.join(name);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

/// Makes the file `path` with `make`, unless it is there. An interrupted run leaves no half-made file behind.
pub(crate) fn file(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    // The ending stays: the Scala compiler tells a jar from a directory by it.
    let name = path.file_name().context("a cached file has a name")?.to_string_lossy();
    let unfinished = path.with_file_name(format!("unfinished-{}-{name}", std::process::id()));
    make(&unfinished)?;
    fs::rename(&unfinished, path).with_context(|| format!("cannot write {}", path.display()))
}

/// A short name for some content: the same as long as the content is.
pub(crate) fn fingerprint(content: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::{file, fingerprint};

    #[test]
    fn a_file_is_made_once_and_not_at_all_when_making_fails() {
        let directory = env::temp_dir().join(format!("firesteel-cache-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.txt");
        file(&path, |_| anyhow::bail!("no")).unwrap_err();
        assert!(!path.exists());
        file(&path, |unfinished| Ok(fs::write(unfinished, "first")?)).unwrap();
        file(&path, |_| panic!("it is there already")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no unfinished file stays");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_fingerprint_follows_the_content() {
        assert_eq!(fingerprint(&"a"), fingerprint(&"a"));
        assert_ne!(fingerprint(&"a"), fingerprint(&"b"));
    }
}
