//! An image as one archive: a layer with the files, what to run, and which of both belong together. Docker, containerd and kind
//! load it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::Failure;

/// Directories that programs expect; the first is everybody's.
const DIRECTORIES: [&str; 3] = ["tmp", "etc", "var"];

/// A file for the image.
#[derive(Debug)]
pub(super) struct Entry {
    /// Without a slash at its beginning.
    path: String,
    file: PathBuf,
}

impl Entry {
    pub(super) fn new(path: &str, file: &Path) -> Self {
        Entry { path: path.to_owned(), file: file.to_owned() }
    }
}

#[derive(Debug)]
pub(super) struct Image {
    pub(super) tag: String,
    pub(super) entrypoint: String,
    pub(super) entries: Vec<Entry>,
}

impl Image {
    /// Writes the archive. What was there before stays until it is whole; one that could not be finished is removed.
    pub(super) fn write(self, output: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| format!("could not write {}: {error}", output.display());
        let is_output =
            |entry: &&Entry| std::fs::canonicalize(output).is_ok_and(|it| it == entry.file);
        if let Some(entry) = self.entries.iter().find(is_output) {
            let file = entry.file.display();
            return Err(format!(
                "{file} goes into the image: write the archive (-o) to another file"
            )
            .into());
        }
        let mut unfinished = output.as_os_str().to_owned();
        unfinished.push(".part");
        let unfinished = PathBuf::from(unfinished);
        let written = File::create(&unfinished)
            .and_then(|file| self.archive(BufWriter::new(file)))
            .and_then(|()| std::fs::rename(&unfinished, output));
        if written.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        Ok(written.map_err(failed)?)
    }

    fn archive(&self, out: impl Write) -> io::Result<()> {
        let layer = self.layer()?;
        let config = to_bytes(&json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": [self.entrypoint],
                "Env": ["PATH=/opt/app:/usr/local/bin:/usr/bin:/bin"],
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
            "history": [{"created_by": "firesteel image"}],
        }));
        let manifest = to_bytes(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        }));
        let mut described = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        let version = self.tag.rsplit_once(':').map_or("latest", |(_, version)| version);
        described["annotations"] = json!({
            "io.containerd.image.name": self.tag,
            "org.opencontainers.image.ref.name": version,
        });
        let index = to_bytes(&json!({"schemaVersion": 2, "manifests": [described]}));
        // For docker load before version 25.
        let old = to_bytes(&json!([{
            "Config": blob(&config), "RepoTags": [self.tag], "Layers": [blob(&layer)],
        }]));
        let mut archive = Builder::new(out);
        add(&mut archive, "oci-layout", &to_bytes(&json!({"imageLayoutVersion": "1.0.0"})), 0o644)?;
        add(&mut archive, "index.json", &index, 0o644)?;
        add(&mut archive, "manifest.json", &old, 0o644)?;
        for content in [&config, &layer, &manifest] {
            add(&mut archive, &blob(content), content, 0o644)?;
        }
        archive.into_inner()?.flush()
    }

    /// The files in order, each directory before what is in it.
    fn layer(&self) -> io::Result<Vec<u8>> {
        let files: BTreeMap<&str, &Path> =
            self.entries.iter().map(|entry| (entry.path.as_str(), entry.file.as_path())).collect();
        let mut directories: BTreeSet<&str> = DIRECTORIES.into();
        for path in files.keys() {
            let ends = path.match_indices('/').map(|(end, _)| &path[..end]);
            directories.extend(ends.filter(|directory| !directory.is_empty()));
        }
        let mut layer = Builder::new(Vec::new());
        for directory in directories {
            let mode = if directory == "tmp" { 0o1777 } else { 0o755 };
            let mut header = header(0, mode);
            header.set_entry_type(EntryType::Directory);
            layer.append_data(&mut header, format!("{directory}/"), io::empty())?;
        }
        for (path, file) in files {
            let mut bytes = Vec::new();
            File::open(file)?.read_to_end(&mut bytes)?;
            add(&mut layer, path, &bytes, mode(file)?)?;
        }
        layer.into_inner()
    }
}

/// Whether it can be executed is all that counts of who may do what.
fn mode(file: &Path) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt;
    let executable = std::fs::metadata(file)?.permissions().mode() & 0o100 != 0;
    Ok(if executable { 0o755 } else { 0o644 })
}

/// Of nobody in particular, and of no time.
fn header(size: usize, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn add(archive: &mut Builder<impl Write>, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    archive.append_data(&mut header(bytes.len(), mode), path, bytes)
}

fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", hex(bytes))
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()})
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(file: &Path) -> Vec<u8> {
        let entries = vec![Entry::new("opt/app/pi", file), Entry::new("data/words", file)];
        let image = Image {
            tag: "docker.io/me/pi:1".to_owned(),
            entrypoint: "/opt/app/pi".to_owned(),
            entries,
        };
        let mut bytes = Vec::new();
        image.archive(&mut bytes).unwrap();
        bytes
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let read = |entry: io::Result<tar::Entry<'_, _>>| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (path, bytes)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn an_image_has_its_files_and_what_it_refers_to_and_is_the_same_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pi");
        std::fs::write(&file, "an executable").unwrap();
        let one = archive(&file);
        std::fs::File::open(&file)
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(one, archive(&file), "times do not count");
        let all = files(&one);
        let json = |path: &str| serde_json::from_slice::<Value>(&all[path]).unwrap();
        let path = |digest: &Value| format!("blobs/{}", digest.as_str().unwrap().replace(':', "/"));
        let index = json("index.json");
        let described = &index["manifests"][0];
        assert_eq!(described["annotations"]["io.containerd.image.name"], "docker.io/me/pi:1");
        let manifest = json(&path(&described["digest"]));
        let config = json(&path(&manifest["config"]["digest"]));
        assert_eq!(config["config"]["Entrypoint"][0], "/opt/app/pi");
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let layer = files(&all[&path(&manifest["layers"][0]["digest"])]);
        assert_eq!(layer["opt/app/pi"], b"an executable");
        assert!(
            layer.contains_key("opt/app/")
                && layer.contains_key("tmp/")
                && layer.contains_key("data/")
        );
        assert_eq!(
            manifest["layers"][0]["size"],
            all[&path(&manifest["layers"][0]["digest"])].len()
        );
    }

    #[test]
    fn an_archive_is_not_written_over_what_goes_into_it_nor_left_unfinished() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().canonicalize().unwrap().join("pi");
        std::fs::write(&file, "an executable").unwrap();
        let image = |file: &Path| Image {
            tag: "docker.io/me/pi:1".to_owned(),
            entrypoint: "/opt/app/pi".to_owned(),
            entries: vec![Entry::new("opt/app/pi", file)],
        };
        let refused = image(&file).write(&file).unwrap_err().to_string();
        assert!(refused.contains("another file"), "{refused}");
        assert_eq!(std::fs::read(&file).unwrap(), b"an executable");
        let archive = directory.path().join("pi.tar");
        std::fs::write(&archive, "the last one").unwrap();
        assert!(image(&directory.path().join("gone")).write(&archive).is_err());
        assert_eq!(std::fs::read(&archive).unwrap(), b"the last one");
        image(&file).write(&archive).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "and nothing else");
    }
}
