//! Whole files, to a location and from one. Nobody sees a file before it is whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fault::Fault;
use crate::{Input, Location};

/// What a download may take.
#[derive(Clone, Copy, Debug)]
pub struct DownloadLimits {
    /// The most bytes that a file may have (`spark.firesteel.files.maxSize`).
    pub max_bytes: u64,
    /// How long a web server may send nothing (`spark.files.fetchTimeout`).
    pub silence: Duration,
}

/// Copies a file of this machine to a location: so many bytes. Directories are made.
pub fn upload(from: &Path, to: &Location) -> io::Result<u64> {
    match to {
        Location::Local(path) => write_whole(path, &mut File::open(from)?),
        #[cfg(feature = "object-store")]
        Location::Remote { url, options } => crate::store::put_file(url, options, from),
        #[cfg(not(feature = "object-store"))]
        Location::Remote { .. } => Err(crate::output::without_stores()),
    }
}

/// Copies a file from a location to this machine, as it is stored: so many bytes. Directories are made. A download that fails or
/// is larger than allowed leaves nothing.
pub fn download(from: &Location, to: &Path, limits: &DownloadLimits) -> io::Result<u64> {
    let DownloadLimits { max_bytes, silence } = *limits;
    let source: Box<dyn Read> = match from {
        Location::Remote { url, .. } if is_web(url) => open_web(url, silence)?,
        _ => Box::new(Input::open_stored(from)?),
    };
    write_whole(to, &mut Bounded { source, left: max_bytes, max_bytes })
}

fn is_web(url: &str) -> bool {
    let scheme = crate::location::scheme(url).unwrap_or_default();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

#[cfg(feature = "object-store")]
fn open_web(url: &str, silence: Duration) -> io::Result<Box<dyn Read>> {
    Ok(Box::new(crate::store::Download::open(url, silence)?))
}

#[cfg(not(feature = "object-store"))]
fn open_web(_: &str, _: Duration) -> io::Result<Box<dyn Read>> {
    Err(crate::output::without_stores())
}

/// Fails where more comes than may.
struct Bounded {
    source: Box<dyn Read>,
    left: u64,
    max_bytes: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            Fault::refused(format!(
                "it has more than {} bytes: raise spark.firesteel.files.maxSize",
                self.max_bytes
            ))
        })?;
        Ok(read)
    }
}

/// A file that was there before is replaced at once, and stays if this fails.
fn write_whole(path: &Path, from: &mut impl Read) -> io::Result<u64> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    let unfinished = PathBuf::from(unfinished);
    let written = File::create(&unfinished)
        .and_then(|mut file| io::copy(from, &mut file))
        .and_then(|bytes| std::fs::rename(&unfinished, path).map(|()| bytes));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_to_a_directory_and_comes_back_and_what_fails_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().join("here");
        std::fs::write(&here, "the bytes").unwrap();
        let options = std::sync::Arc::default();
        let there = format!("file://{}/a/b/there", directory.path().display());
        let there = Location::parse(&there, &options);
        assert_eq!(upload(&here, &there).unwrap(), 9);
        let back = directory.path().join("c/back");
        let limits = |max_bytes| DownloadLimits { max_bytes, silence: Duration::from_secs(9) };
        assert_eq!(download(&there, &back, &limits(9)).unwrap(), 9);
        assert_eq!(std::fs::read(&back).unwrap(), b"the bytes");
        let absent = there.child("none");
        assert!(download(&absent, &directory.path().join("d/none"), &limits(9)).is_err());
        let large = download(&there, &directory.path().join("c/large"), &limits(8));
        let large = large.unwrap_err().to_string();
        assert!(large.contains("spark.firesteel.files.maxSize"), "{large}");
        let left = std::fs::read_dir(directory.path().join("c")).unwrap().count();
        assert_eq!(left, 1, "no part of it");
    }
    /// A web server that gives one connection after the other such an answer, and closes it.
    #[cfg(feature = "object-store")]
    fn server(answers: Vec<String>) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = std::io::BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while std::io::BufRead::read_line(&mut asked, &mut line).unwrap() > 2 {
                    line.clear();
                }
                std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
            }
        });
        format!("http://{address}")
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn a_file_of_a_web_server_comes_whole_or_not_at_all_and_the_error_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("to");
        let limits = DownloadLimits { max_bytes: 9, silence: Duration::from_secs(30) };
        let fetch = |url: &str| {
            let from = Location::parse(url, &std::sync::Arc::default());
            download(&from, &to, &limits)
        };
        let head = |status: &str, more: &str| {
            format!("HTTP/1.1 {status}\r\nConnection: close\r\n{more}\r\n")
        };
        let found = head("302 Found", "Location: /elsewhere\r\nContent-Length: 0\r\n");
        let whole = head("200 OK", "Content-Length: 9\r\n") + "the bytes";
        let url = server(vec![found, whole]);
        assert_eq!(fetch(&format!("{url}/file?token=1")).unwrap(), 9);
        assert_eq!(std::fs::read(&to).unwrap(), b"the bytes");
        std::fs::remove_file(&to).unwrap();
        for (answer, needle) in [
            (head("404 Not Found", "Content-Length: 4\r\n") + "gone", "404 (Not Found)"),
            (head("403 Forbidden", "Content-Length: 0\r\n"), "403 (Forbidden)"),
            (head("500 Oh", "Content-Length: 0\r\n"), "500 (Internal Server Error)"),
            (head("200 OK", "Content-Length: 20\r\n") + "cut off", "the download broke"),
            (head("200 OK", "") + "more bytes than may", "more than 9 bytes"),
        ] {
            let error = fetch(&format!("{}/file", server(vec![answer]))).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{needle}");
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let limits = DownloadLimits { max_bytes: 9, silence: Duration::from_millis(200) };
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for (url, needle) in [
            (nobody, "cannot be reached"),
            (format!("http://{}", silent.local_addr().unwrap()), "sent nothing for 0.2 seconds"),
        ] {
            let from = Location::parse(&format!("{url}/file"), &std::sync::Arc::default());
            let error = download(&from, &to, &limits).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
    }
}
