//! Which shared libraries an executable needs: its own loader says so, without running it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

/// Where in an ELF file of 64 bits its program headers begin, how large one is, and how many there are.
const HEADERS: (u64, u64, u64) = (32, 54, 56);
/// The kind of the header that names the loader.
const INTERPRETER: u64 = 3;
/// In bytes, with the zero at its end: the kernel opens no longer one.
const LONGEST_PATH: u64 = 4096;

/// Paths in the image, and the files that are there: the loader and all libraries; none of a static executable.
pub(super) fn needed(app: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut file =
        File::open(app).map_err(|error| format!("could not read {}: {error}", app.display()))?;
    let loader = match interpreter(&mut file) {
        Ok(Some(loader)) => loader,
        Ok(None) => return Ok(Vec::new()),
        Err(reason) => {
            return Err(
                format!("{} is not an executable for Linux: {reason}", app.display()).into()
            );
        }
    };
    let listed = Command::new(&loader).arg("--list").arg(app).output().map_err(|error| {
        format!("{loader}, which {} is started by, could not be run: {error}", app.display())
    })?;
    let text = String::from_utf8_lossy(&listed.stdout);
    if !listed.status.success() {
        let words = String::from_utf8_lossy(&listed.stderr).trim().to_owned();
        return Err(format!(
            "the shared libraries of {} could not be found: {words}",
            app.display()
        )
        .into());
    }
    let mut found = vec![(loader.clone(), PathBuf::from(&loader))];
    for line in text.lines() {
        if let Some(path) = library(line)? {
            found.push((path.clone(), PathBuf::from(path)));
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(path, file)| Ok((path, std::fs::canonicalize(file)?))).collect()
}

/// `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f...)`; others have no file.
fn library(line: &str) -> Result<Option<String>, Failure> {
    let Some((name, path)) = line.split_once("=>") else { return Ok(None) };
    let path = path.trim();
    if path.starts_with("not found") {
        return Err(format!("the shared library {} could not be found", name.trim()).into());
    }
    let path = path.split(" (").next().unwrap_or(path).trim();
    Ok(path.starts_with('/').then(|| path.to_owned()))
}

/// So many bytes from a position on, if there are so many.
fn at(file: &mut (impl Read + Seek), position: u64, size: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(position)).ok()?;
    let read = file.by_ref().take(size).read_to_end(&mut bytes).ok()?;
    (read as u64 == size).then_some(bytes)
}

fn number(file: &mut (impl Read + Seek), position: u64, size: u64) -> Option<u64> {
    let found = at(file, position, size)?;
    Some(found.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// The loader that an executable asks for. Little of it is read: it may be large.
fn interpreter(file: &mut (impl Read + Seek)) -> Result<Option<String>, &'static str> {
    let cut = "it is cut off";
    let begin = at(file, 0, 6).ok_or(cut)?;
    if !begin.starts_with(b"\x7fELF") {
        return Err("it does not begin as one");
    }
    if begin[4..] != [2, 1] {
        return Err("it is not of 64 bits, the lowest first");
    }
    let (start, size, count) = HEADERS;
    let start = number(file, start, 8).ok_or(cut)?;
    let size = number(file, size, 2).ok_or(cut)?;
    let count = number(file, count, 2).ok_or(cut)?;
    for index in 0..count {
        let header = start.saturating_add(index * size);
        if number(file, header, 4).ok_or(cut)? != INTERPRETER {
            continue;
        }
        let offset = number(file, header.saturating_add(8), 8).ok_or(cut)?;
        let length = number(file, header.saturating_add(32), 8).ok_or(cut)?;
        if length > LONGEST_PATH {
            return Err("its loader has no name");
        }
        let path = at(file, offset, length).ok_or(cut)?;
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        return String::from_utf8(path.to_vec()).map(Some).map_err(|_| "its loader has no name");
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn an_executable_needs_its_loader_and_its_libraries() {
        let own = std::env::current_exe().unwrap();
        let found = needed(&own).unwrap();
        assert!(found.iter().any(|(path, _)| path.contains("libc.so")), "{found:?}");
        assert!(found.iter().any(|(path, _)| path.contains("ld-linux")), "{found:?}");
        assert!(found.iter().all(|(path, file)| path.starts_with('/') && file.is_file()));
    }

    #[test]
    fn what_is_no_executable_is_refused() {
        for bytes in [&b""[..], b"#!/bin/sh", b"\x7fELF", b"\x7fELF\x02\x01", b"\x7fELF\x01\x01"] {
            assert!(interpreter(&mut Cursor::new(bytes)).is_err(), "{bytes:?}");
        }
        let mut endless = b"\x7fELF\x02\x01".to_vec();
        endless.resize(64, 0xff);
        assert!(interpreter(&mut Cursor::new(endless)).is_err());
        assert!(library("libx.so.1 => not found").unwrap_err().to_string().contains("libx.so.1"));
        assert_eq!(library("\tlinux-vdso.so.1 (0x7ffd)").unwrap(), None);
    }
}
