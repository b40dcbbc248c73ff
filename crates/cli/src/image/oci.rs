//! An image as one archive: a layer with the files, what to run, and which of both belong together. Docker, containerd and kind
//! load it.
//!
//! A layer is called by its digest, which stands before it: it is made twice, first for its digest only. None is ever in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::Failure;

/// Directories that programs expect; the first is everybody's.
const DIRECTORIES: [&str; 3] = ["tmp", "etc", "var"];

/// What archives are cut into.
const BLOCK: u64 = 512;
/// So much is written at once.
const BUFFER: usize = 1 << 18;

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
            .and_then(|file| self.archive(BufWriter::with_capacity(BUFFER, file)))
            .and_then(|()| std::fs::rename(&unfinished, output));
        if written.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        Ok(written.map_err(failed)?)
    }

    fn archive(&self, out: impl Write) -> io::Result<()> {
        let layer = self.layer(io::sink())?;
        let config = to_bytes(&json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": [self.entrypoint],
                "Env": ["PATH=/opt/app:/usr/local/bin:/usr/bin:/bin"],
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.digest()]},
            "history": [{"created_by": "firesteel image"}],
        }));
        let manifest = to_bytes(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": Content::of(&config).descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
        }));
        let manifest_content = Content::of(&manifest);
        let mut described =
            manifest_content.descriptor("application/vnd.oci.image.manifest.v1+json");
        let version = self.tag.rsplit_once(':').map_or("latest", |(_, version)| version);
        described["annotations"] = json!({
            "io.containerd.image.name": self.tag,
            "org.opencontainers.image.ref.name": version,
        });
        let index = to_bytes(&json!({"schemaVersion": 2, "manifests": [described]}));
        // For docker load before version 25.
        let old = to_bytes(&json!([{
            "Config": Content::of(&config).blob(), "RepoTags": [self.tag], "Layers": [layer.blob()],
        }]));
        let mut archive = Builder::new(out);
        add(&mut archive, "oci-layout", &to_bytes(&json!({"imageLayoutVersion": "1.0.0"})), 0o644)?;
        add(&mut archive, "index.json", &index, 0o644)?;
        add(&mut archive, "manifest.json", &old, 0o644)?;
        add(&mut archive, &Content::of(&config).blob(), &config, 0o644)?;
        self.add_layer(&mut archive, &layer)?;
        add(&mut archive, &manifest_content.blob(), &manifest, 0o644)?;
        archive.into_inner()?.flush()
    }

    /// The layer as it was a moment ago.
    fn add_layer(&self, archive: &mut Builder<impl Write>, layer: &Content) -> io::Result<()> {
        let mut header = header(layer.size, 0o644);
        header.set_path(layer.blob())?;
        header.set_cksum();
        let out = archive.get_mut();
        out.write_all(header.as_bytes())?;
        if self.layer(&mut *out)? != *layer {
            return Err(io::Error::other("a file changed while it was packed: try again"));
        }
        let rest = layer.size.next_multiple_of(BLOCK) - layer.size;
        io::copy(&mut io::repeat(0).take(rest), out).map(drop)
    }

    /// The files in order, each directory before what is in it.
    fn layer(&self, out: impl Write) -> io::Result<Content> {
        let files: BTreeMap<&str, &Path> =
            self.entries.iter().map(|entry| (entry.path.as_str(), entry.file.as_path())).collect();
        let mut directories: BTreeSet<&str> = DIRECTORIES.into();
        for path in files.keys() {
            let ends = path.match_indices('/').map(|(end, _)| &path[..end]);
            directories.extend(ends.filter(|directory| !directory.is_empty()));
        }
        let mut layer = Builder::new(Digested { out, context: Context::new(&SHA256), size: 0 });
        for directory in directories {
            let mode = if directory == "tmp" { 0o1777 } else { 0o755 };
            let mut header = header(0, mode);
            header.set_entry_type(EntryType::Directory);
            layer.append_data(&mut header, format!("{directory}/"), io::empty())?;
        }
        for (path, file) in files {
            add_file(&mut layer, path, file).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
        }
        Ok(layer.into_inner()?.content())
    }
}

fn add_file(layer: &mut Builder<impl Write>, path: &str, file: &Path) -> io::Result<()> {
    let file = File::open(file)?;
    let about = file.metadata()?;
    let mut bytes = file.take(about.len());
    layer.append_data(&mut header(about.len(), mode(&about)), path, &mut bytes)?;
    match bytes.limit() {
        0 => Ok(()),
        _ => Err(io::Error::other("it became shorter while it was packed: try again")),
    }
}

/// Whether it can be executed is all that counts of who may do what.
fn mode(about: &Metadata) -> u32 {
    if about.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 }
}

/// Of nobody in particular, and of no time.
fn header(size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn add(archive: &mut Builder<impl Write>, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    archive.append_data(&mut header(bytes.len() as u64, mode), path, bytes)
}

fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// What others call some bytes by.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    hex: String,
    size: u64,
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Content::new(context, bytes.len() as u64)
    }

    fn new(context: Context, size: u64) -> Self {
        let hex = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Content { hex, size }
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.hex)
    }

    fn blob(&self) -> String {
        format!("blobs/sha256/{}", self.hex)
    }

    fn descriptor(&self, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": self.digest(), "size": self.size})
    }
}

/// Writes on, and knows afterwards what that was.
struct Digested<W> {
    out: W,
    context: Context,
    size: u64,
}

impl<W> Digested<W> {
    fn content(self) -> Content {
        Content::new(self.context, self.size)
    }
}

impl<W: Write> Write for Digested<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.context.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
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

    /// What goes into the image grows as soon as somebody writes so much of it.
    struct Grows<'a> {
        file: &'a Path,
        after: usize,
        written: usize,
    }

    impl Write for Grows<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let before = self.written < self.after;
            self.written += bytes.len();
            if before && self.written >= self.after {
                std::fs::write(self.file, "another executable").unwrap();
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_file_that_changes_while_it_is_packed_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pi");
        std::fs::write(&file, "an executable").unwrap();
        let image = Image {
            tag: "docker.io/me/pi:1".to_owned(),
            entrypoint: "/opt/app/pi".to_owned(),
            entries: vec![Entry::new("opt/app/pi", &file)],
        };
        let grows = |after| Grows { file: &file, after, written: 0 };
        image.archive(grows(usize::MAX)).unwrap();
        let refused = image.archive(grows(1)).unwrap_err().to_string();
        assert!(refused.contains("changed while it was packed"), "{refused}");
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
