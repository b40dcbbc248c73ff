//! The secret of a user: a file that only this user can read, in the user's directory for settings. A master makes it, and all
//! other processes of the user on this machine find it there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::SetupError;
use crate::secret::{Secret, random_bytes};

/// Where the secret of this process's user is, or would be: `~/.config/firesteel/secret`. `None` if the user has no home.
pub fn path() -> Option<PathBuf> {
    let told =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = told("XDG_CONFIG_HOME").or_else(|| Some(told("HOME")?.join(".config")));
    Some(settings?.join("firesteel").join("secret"))
}

/// The secret there, if there is one. One that others can read, or that is another user's, is refused.
pub(crate) fn read(path: &Path) -> Result<Option<Secret>, SetupError> {
    let failed = |source| SetupError::ReadSecret { path: path.to_owned(), source };
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        about => about.map_err(failed)?,
    };
    let refused = |text: &str| Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, text)));
    if about.uid() != rustix::process::geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    if !about.is_file() || about.mode() & 0o077 != 0 {
        return refused(
            "other users may have read it: remove it, and start the master again for a new one",
        );
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    Secret::new(&text, &format!("in {}", path.display())).map(Some)
}

/// The secret there; made if there is none. Of two processes that make it at once, both have the same one afterwards.
pub fn ensure(path: &Path) -> Result<Secret, SetupError> {
    if let Some(secret) = read(path)? {
        return Ok(secret);
    }
    let failed = |source| SetupError::WriteSecret { path: path.to_owned(), source };
    make(path).map_err(failed)?;
    read(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

fn make(path: &Path) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mark: String = random_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let new = directory.join(format!("secret-{mark}"));
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file
        .write_all(format!("{}\n", Secret::generate().expose()).as_bytes())
        .and_then(|()| file.sync_all())
        // Unlike a renamed file, a link replaces none that another process has just put there.
        .and_then(|()| match fs::hard_link(&new, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
    let _ = fs::remove_file(&new);
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn processes_that_make_it_at_once_have_the_same_one_and_nobody_else_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config/firesteel/secret");
        let made: Vec<String> = std::thread::scope(|scope| {
            let made = || ensure(&path).unwrap().expose().to_owned();
            let threads = [(); 4].map(|()| scope.spawn(made));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(made.iter().all(|one| *one == made[0] && one.len() == 64), "{}", made.len());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = ensure(&path).unwrap_err().to_string();
        assert!(error.contains("other users may have read it"), "{error}");
    }
}
