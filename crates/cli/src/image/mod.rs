//! `firesteel image`: an application's executable with the shared libraries it needs as an image, without Docker.
//!
//! | file | owns |
//! |---|---|
//! | `libraries` | which shared libraries an executable needs |
//! | `oci` | the image: an archive in the layout of the Open Container Initiative |
//!
//! The same files give the same image, byte for byte.

mod libraries;
mod oci;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::Failure;
use oci::{Entry, Image};

/// Where the executable is in the image.
const DIRECTORY: &str = "opt/app";
/// Where programs look for the certificates of authorities first.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Where machines have them: Debian, Red Hat, SUSE, Alpine.
const OWN_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[derive(Args, Debug)]
pub(crate) struct ImageFlags {
    /// The application's executable; in the image it is /opt/app/NAME, and what the image runs.
    #[arg(long, value_name = "FILE")]
    app: PathBuf,
    /// The image's name, such as registry.example.org/pi:1.
    #[arg(long, value_name = "NAME:TAG")]
    tag: String,
    /// A file or directory for the image: what it is here, and where there. Can be repeated.
    #[arg(long = "file", value_name = "HERE:THERE")]
    files: Vec<String>,
    /// The archive to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(flags: &ImageFlags) -> Result<ExitCode, Failure> {
    let tag = with_tag(&flags.tag)?;
    let app = std::fs::canonicalize(&flags.app)
        .map_err(|error| format!("there is no executable {}: {error}", flags.app.display()))?;
    let name = flags.app.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = format!("{DIRECTORY}/{name}");
    let mut entries = vec![Entry::new(&program, &app)];
    // First, so that a file of the user's in its place wins.
    let authorities = authorities(&OWN_AUTHORITIES);
    entries.extend(authorities.iter().map(|file| Entry::new(AUTHORITIES, file)));
    for (path, file) in libraries::needed(&app)? {
        entries.push(Entry::new(path.trim_start_matches('/'), &file));
    }
    for given in &flags.files {
        let (here, there) = given
            .split_once(':')
            .filter(|(here, there)| !here.is_empty() && there.starts_with('/'))
            .ok_or_else(|| {
                format!("--file {given}: write HERE:/THERE, such as words.txt:/data/words.txt")
            })?;
        add(&mut entries, Path::new(here), there.trim_start_matches('/'), &mut Vec::new())?;
    }
    let image = Image { tag, entrypoint: format!("/{program}"), entries };
    image.write(&flags.output)?;
    match authorities {
        Some(file) => {
            println!("certificates of authorities: /{AUTHORITIES}, from {}", file.display());
        }
        None => println!(
            "no certificates of authorities were found here: https:// needs --file HERE:/{AUTHORITIES}"
        ),
    }
    println!(
        "{} runs /{program}: load it with docker load -i, ctr images import or kind load image-archive",
        flags.output.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// The first of these files that can be read.
fn authorities(files: &[&str]) -> Option<PathBuf> {
    let found = files.iter().find(|file| std::fs::File::open(file).is_ok())?;
    std::fs::canonicalize(found).ok()
}

/// Everything under a path. `above`: the directories that it is in, as they really are.
fn add(
    entries: &mut Vec<Entry>,
    here: &Path,
    there: &str,
    above: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let failed = |error| format!("--file {}: {error}", here.display());
    let about = std::fs::metadata(here).map_err(failed)?;
    if !about.is_dir() {
        entries.push(Entry::new(there, here));
        return Ok(());
    }
    let real = std::fs::canonicalize(here).map_err(failed)?;
    if above.contains(&real) {
        return Err(format!(
            "--file {}: this link leads to {}, a directory that contains it: remove the link, or name the files to pack one by one",
            here.display(),
            real.display()
        )
        .into());
    }
    above.push(real);
    let found = std::fs::read_dir(here).map_err(failed)?;
    for entry in found {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        add(entries, &entry.path(), &format!("{there}/{}", name.to_string_lossy()), above)?;
    }
    above.pop();
    Ok(())
}

/// The whole name of an image, as nodes know it: `pi` is `docker.io/library/pi:latest`.
fn with_tag(tag: &str) -> Result<String, Failure> {
    let (name, version) = match tag.rsplit_once(':') {
        Some((name, version)) if !version.contains('/') => (name, version),
        _ => (tag, "latest"),
    };
    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
    if name.is_empty() || version.is_empty() || !name.chars().all(ok) {
        return Err(format!("--tag {tag} is not the name of an image: write small letters, such as registry.example.org/pi:1").into());
    }
    let registry = name.split_once('/').map(|(registry, _)| registry);
    let name = match registry {
        Some(registry) if registry.contains(['.', ':']) || registry == "localhost" => {
            name.to_owned()
        }
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    };
    Ok(format!("{name}:{version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_a_link_to_itself_is_refused_and_one_that_is_linked_twice_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("words"), "words").unwrap();
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, directory.path().join(name)).unwrap();
        };
        link(&inner, "twice");
        let packed = || {
            let mut entries = Vec::new();
            add(&mut entries, directory.path(), "data", &mut Vec::new()).map(|()| entries.len())
        };
        assert_eq!(packed().unwrap(), 2);
        link(directory.path(), "inner/above");
        let refused = packed().unwrap_err().to_string();
        // Directories have no order: it is met in `inner` or in `twice` first.
        assert!(refused.contains("/above") && refused.contains("contains it"), "{refused}");
    }

    #[test]
    fn the_certificates_of_this_machines_authorities_are_the_first_that_there_are() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("bundle");
        let path = file.to_str().unwrap();
        assert_eq!(authorities(&["/nowhere/bundle", path]), None);
        std::fs::write(&file, "authorities").unwrap();
        let found = authorities(&["/nowhere/bundle", path]);
        assert_eq!(found, Some(std::fs::canonicalize(&file).unwrap()));
    }

    #[test]
    fn an_images_name_is_made_whole() {
        for (tag, whole) in [
            ("pi", "docker.io/library/pi:latest"),
            ("pi:1", "docker.io/library/pi:1"),
            ("me/pi:1", "docker.io/me/pi:1"),
            ("localhost/pi:1", "localhost/pi:1"),
            ("registry.example.org:5000/a/pi", "registry.example.org:5000/a/pi:latest"),
        ] {
            assert_eq!(with_tag(tag).unwrap(), whole);
        }
        for bad in ["", "Pi:1", "p i", ":1", "pi:"] {
            assert!(with_tag(bad).unwrap_err().to_string().contains("--tag"), "{bad}");
        }
    }
}
