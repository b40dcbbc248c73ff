//! An executable and files behind URLs, for a standalone cluster: downloaded here, and from then on as if they had always been
//! here. So the cluster has the bytes of the day of the submission, by their hash, whatever becomes of the URLs.

use std::path::{Path, PathBuf};

use firesteel_conf::{Conf, FileSource, entries};
use firesteel_io::Location;
use firesteel_storage::LocalDirs;

use super::plan::{Application, Place};
use crate::{Failure, fetch};

/// Downloads all that is behind URLs. What it returns holds the copies: they go with it.
pub(super) fn download(application: &mut Application) -> Result<Option<LocalDirs>, Failure> {
    let Application { executable, conf, files, .. } = application;
    if files.remote.is_empty() && !matches!(executable, Place::Remote { .. }) {
        return Ok(None);
    }
    let roots = conf.get(&entries::LOCAL_DIR)?;
    let directories = LocalDirs::new(roots.into_iter().map(PathBuf::from).collect());
    directories.remove_leftovers();
    if let Place::Remote { url, name } = &*executable {
        let path = directories.create_directory("executable")?.join(name);
        fetch_one(conf, url, &path, true)?;
        *executable = Place::Here(path);
    }
    let root = directories.create_directory("files")?;
    for (name, url) in std::mem::take(&mut files.remote) {
        let path = root.join(&name);
        fetch_one(conf, &url, &path, false)?;
        files.here.push((name, path));
    }
    Ok(Some(directories))
}

fn fetch_one(conf: &Conf, url: &str, to: &Path, is_program: bool) -> Result<(), Failure> {
    let shown = FileSource::Url(url.to_owned()).to_string();
    let from = Location::parse(url, &fetch::store_options(conf));
    let bytes = fetch::fetch(&from, &shown, to, is_program, &fetch::limits(conf)?)?;
    eprintln!("firesteel submit: fetched {shown} ({bytes} bytes)");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    use super::super::plan::Files;
    use super::*;

    /// A web server that says this to one request, and what was asked of it.
    fn server(answer: &str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        );
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::<u8>::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        };
        (url, std::thread::spawn(serve))
    }

    fn file_text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn what_is_behind_urls_is_here_until_it_was_submitted() {
        let directory = tempfile::tempdir().unwrap();
        let mut conf = Conf::new();
        conf.set("spark.local.dir", directory.path().display());
        let (program, asked_program) = server("the program");
        let (words, asked_words) = server("some words");
        let remote = vec![("words.txt".to_owned(), format!("{words}/a/words.txt?token=1"))];
        let mut application = Application {
            executable: Place::Remote { url: format!("{program}/app"), name: "app".into() },
            arguments: Vec::new(),
            conf,
            files: Files { here: Vec::new(), remote },
        };
        let downloads = download(&mut application).unwrap();
        assert!(asked_program.join().unwrap().starts_with("GET /app HTTP/1.1\r\n"));
        assert!(asked_words.join().unwrap().starts_with("GET /a/words.txt?token=1 HTTP/1.1\r\n"));
        let Place::Here(path) = &application.executable else { panic!("it is not here") };
        assert_eq!(file_text(path), "the program");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o111, 0o111);
        let [(name, words)] = &application.files.here[..] else { panic!("one file") };
        assert_eq!((name.as_str(), file_text(words).as_str()), ("words.txt", "some words"));
        drop(downloads);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(download(&mut application).unwrap().is_none(), "there is nothing left to fetch");
    }

    #[test]
    fn a_download_that_fails_names_the_url_without_its_query_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut conf = Conf::new();
        conf.set("spark.local.dir", directory.path().display());
        conf.set("spark.firesteel.files.maxSize", "4b");
        let (large, _) = server("five!");
        for (url, needle) in [
            (format!("{large}/x?secret"), "more than 4 bytes"),
            ("hdfs://host/x".to_owned(), "hdfs:// is not supported"),
        ] {
            let executable = Place::Remote { url: url.clone(), name: "x".into() };
            let (arguments, files) = (Vec::new(), Files::default());
            let mut application = Application { executable, arguments, conf: conf.clone(), files };
            let error = download(&mut application).map(|_| ()).unwrap_err().to_string();
            let shown = url.split('?').next().unwrap();
            assert!(error.contains(needle) && error.contains(shown), "{error}");
            assert!(!error.contains("secret"), "{error}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}
