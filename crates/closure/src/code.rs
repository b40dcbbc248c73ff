//! Naming code on the wire: a monomorphised function as its offset from an anchor in the executable.
//!
//! Only functions of one shape travel, [`Builder`]: they read the rest of the wire form and make a
//! value from it. A builder monomorphised for a pipeline type is that type's name.

use std::any::type_name;
use std::ops::Range;
use std::sync::OnceLock;

use crate::{Decoder, Encoder, WireError};

/// A function that decodes an `R`; the only kind of code that travels.
pub type Builder<R> = fn(&mut Decoder<'_>) -> Result<R, WireError>;

/// Writes the name of `builder`.
pub fn encode<R: 'static>(builder: Builder<R>, out: &mut Encoder) -> Result<(), WireError> {
    encode_address(builder as usize, type_name::<R>(), out)
}

fn encode_address(address: usize, type_name: &str, out: &mut Encoder) -> Result<(), WireError> {
    let offset = offset_of(address);
    // Another object, a shared library, lies elsewhere in every process.
    if !text().contains(&address) {
        return Err(WireError::OutsideCode { offset });
    }
    out.put(&(offset, fingerprint(type_name, offset)))
}

/// Reads the name of a builder of `R`s and finds it in this executable.
pub fn decode<R: 'static>(input: &mut Decoder<'_>) -> Result<Builder<R>, WireError> {
    let address = decode_address(type_name::<R>(), input)?;
    // SAFETY: the bytes come from an `Encoder` in a process of the same executable: the caller that made the
    // `Decoder` vouched for that with `SameExecutable`. They are read in the order in which they were written.
    // So `encode::<R>` wrote this offset of a `Builder<R>`. The order does not rest on users' types: each
    // value stands in a frame of its own, and a `Deserialize` sees no byte outside of its frame
    // (`Decoder::take`). Should a reader lose its place all the same, by a `Wire` that is wrong, it finds
    // no name there: the fingerprint is one of this type and of this very offset, and an offset that
    // nobody wrote has none.
    // Code lies at equal offsets from the anchor in every process of one executable, whatever address
    // it is loaded at, and the address was found to lie inside its executable mapping. That the anchor lies in
    // the executable, and not in a library which the hash does not cover, `ExecutableHash::current` checks.
    Ok(unsafe { std::mem::transmute::<usize, Builder<R>>(address) })
}

/// The address of a function that makes values of this type.
fn decode_address(expected: &'static str, input: &mut Decoder<'_>) -> Result<usize, WireError> {
    let (offset, sent) = input.take::<(i64, u64)>()?;
    let address = address_of(offset);
    if !text().contains(&address) {
        return Err(WireError::OutsideCode { offset });
    }
    if sent != fingerprint(expected, offset) {
        return Err(WireError::WrongType { offset, expected });
    }
    Ok(address)
}

/// The function all offsets are measured from.
///
/// Its address is read from a static: the compiler may copy a small function into every codegen unit
/// that mentions it, each copy with an address of its own, but there is one static, and it holds the
/// address of one copy.
static ANCHOR: fn() = || {};

fn anchor() -> usize {
    ANCHOR as usize
}

fn offset_of(address: usize) -> i64 {
    (address as i64).wrapping_sub(anchor() as i64)
}

fn address_of(offset: i64) -> usize {
    (anchor() as i64).wrapping_add(offset) as usize
}

/// Tells result types and offsets apart; equal in all processes of one executable.
fn fingerprint(type_name: &str, offset: i64) -> u64 {
    type_name
        .as_bytes()
        .iter()
        .chain(&offset.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// The addresses this executable's own code is loaded at.
fn text() -> &'static Range<usize> {
    static TEXT: OnceLock<Range<usize>> = OnceLock::new();
    TEXT.get_or_init(|| mapped_text().unwrap_or_else(guessed_text))
}

/// The executable mapping around the anchor, as the kernel lists it.
fn mapped_text() -> Option<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    Some(mapping_of(anchor(), &maps)?.addresses)
}

/// The file that the code around the anchor was loaded from; `None` where the kernel lists no mappings.
pub(crate) fn object() -> Option<Object> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    mapping_of(anchor(), &maps)?.object
}

/// The mapping of code that an address lies in.
fn mapping_of(address: usize, maps: &str) -> Option<Mapping> {
    let executable = maps.lines().filter_map(executable_mapping);
    executable.into_iter().find(|mapping| mapping.addresses.contains(&address))
}

/// A line of `/proc/self/maps` about code.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Range<usize>,
    object: Option<Object>,
}

/// A file that code is loaded from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) inode: u64,
    pub(crate) path: String,
}

/// `55d0-55f0 r-xp 00000000 08:01 42    /bin/app`
fn executable_mapping(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let addresses = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let mut fields = rest.splitn(5, ' ');
    if !fields.next()?.contains('x') {
        return None;
    }
    let inode = fields.nth(2).and_then(|inode| inode.parse().ok());
    let path = fields.next().map(|path| path.trim_start().to_owned());
    let object = inode.zip(path).map(|(inode, path)| Object { inode, path });
    Some(Mapping { addresses, object: object.filter(|object| object.path.starts_with('/')) })
}

/// Where the kernel lists no mappings: no further from the anchor than the executable is long.
fn guessed_text() -> Range<usize> {
    let anchor = anchor();
    let length = std::env::current_exe()
        .and_then(std::fs::metadata)
        .map_or(0, |metadata| metadata.len() as usize);
    anchor.saturating_sub(length)..anchor.saturating_add(length)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::SameExecutable;

    fn build_number(input: &mut Decoder<'_>) -> Result<u64, WireError> {
        input.take::<u64>().map(|n| n + 1)
    }

    fn decode_from<R: 'static>(bytes: Vec<u8>) -> Result<Builder<R>, WireError> {
        decode(&mut Decoder::new(&bytes, SameExecutable::this_process()))
    }

    #[test]
    fn a_function_is_found_again_by_its_name() {
        let mut out = Encoder::new();
        encode(build_number, &mut out).unwrap();
        out.put(&41u64).unwrap();
        let bytes = out.into_bytes();
        let mut input = Decoder::new(&bytes, SameExecutable::this_process());
        let found: Builder<u64> = decode(&mut input).unwrap();
        assert_eq!(found(&mut input).unwrap(), 42);
    }

    #[test]
    fn an_offset_outside_the_code_is_refused() {
        for offset in [i64::MAX, i64::MIN, 1 << 40, -(1 << 40)] {
            let mut out = Encoder::new();
            out.put(&(offset, fingerprint("u64", offset))).unwrap();
            let error = decode_from::<u64>(out.into_bytes()).unwrap_err();
            assert!(matches!(error, WireError::OutsideCode { .. }), "{error}");
        }
    }

    #[test]
    fn a_function_of_another_type_is_refused() {
        let mut out = Encoder::new();
        encode(build_number, &mut out).unwrap();
        let error = decode_from::<String>(out.into_bytes()).unwrap_err();
        assert!(matches!(error, WireError::WrongType { .. }), "{error}");
    }

    #[test]
    fn no_other_offset_has_the_fingerprint_of_a_function() {
        let offset = offset_of(build_number as *const () as usize);
        for other in (1..100_000).map(|step| offset.wrapping_add(step)).chain([offset >> 7]) {
            let mut out = Encoder::new();
            out.put(&(other, fingerprint("u64", offset))).unwrap();
            assert!(decode_from::<u64>(out.into_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn a_value_that_reads_more_than_it_wrote_never_moves_the_name_behind_it() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Env {
            a: u64,
            #[serde(skip_serializing)]
            pad: u8,
        }
        let mut out = Encoder::new();
        assert!(out.put(&Env { a: 1, pad: 2 }).is_err());
        out.put_checked(&Env { a: 1, pad: 2 }).unwrap();
        encode(build_number, &mut out).unwrap();
        let bytes = out.into_bytes();
        let mut input = Decoder::new(&bytes, SameExecutable::this_process());
        assert!(input.take::<Env>().is_err());
        let found = decode::<u64>(&mut input).unwrap() as *const ();
        assert_eq!(found, build_number as *const ());
        let _ = (Env { a: 0, pad: 0 }).pad;
    }

    #[test]
    fn executable_mappings_are_read_and_others_are_not() {
        let maps = "55d0-55f0 r-xp 00000000 08:01 42                         /bin/an app (deleted)\n\
                    55f0-5600 rw-p 00000000 08:01 42                         /bin/an app (deleted)\n\
                    7000-7100 r-xp 00001000 fd:00 43    /lib/libapp.so\n\
                    8000-8100 r-xp 00000000 00:00 0                          [vdso]\n\
                    garbage";
        let of = |address| mapping_of(address, maps);
        let object = |inode, path: &str| Some(Object { inode, path: path.to_owned() });
        let app = of(0x55ef).unwrap();
        assert_eq!(app.addresses, 0x55d0..0x55f0);
        assert_eq!(app.object, object(42, "/bin/an app (deleted)"));
        assert_eq!(of(0x7000).unwrap().object, object(43, "/lib/libapp.so"));
        assert_eq!(of(0x8000).unwrap().object, None);
        assert_eq!((of(0x55f0), of(0x9000)), (None, None));
    }

    #[test]
    fn the_code_of_this_test_is_in_its_executable() {
        let path = std::env::current_exe().unwrap();
        assert_eq!(object().unwrap().path, path.to_str().unwrap());
    }
}
