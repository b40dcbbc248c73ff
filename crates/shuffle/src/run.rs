//! A run: records put aside in a file, in order, to be read back once.

use std::io::{BufWriter, Write};

use serde::Serialize;

use crate::codec::BlockWriter;
use crate::output::{MapOutput, Segment};
use crate::{Scratch, Slice, SpillError};

const WRITE_BUFFER: usize = 256 * 1024;

/// Writes `records` to a temporary file, which lives as long as the slice.
pub fn write_run<'a, T: Serialize + 'a>(
    scratch: &Scratch,
    records: impl Iterator<Item = &'a T>,
) -> Result<Slice, SpillError> {
    let file = scratch.dirs().create_file("run")?;
    let mut out = BufWriter::with_capacity(WRITE_BUFFER, file.file());
    let mut writer = BlockWriter::new(scratch.codec());
    let mut segment = Segment { offset: 0, bytes: 0, records: 0 };
    for record in records {
        segment.bytes += writer.push(record, &mut out)?;
        segment.records += 1;
    }
    segment.bytes += writer.flush(&mut out)?;
    out.flush()?;
    drop(out);
    let output = MapOutput::in_file(file, vec![segment]);
    Ok(output.slice(0).expect("a run has one segment"))
}
