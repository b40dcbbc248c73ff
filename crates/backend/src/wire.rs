//! Names on the network, and the messages of `protocol.rs` as the transport's. No message has a reply: the answer is a
//! message too, and a lost one is sent again. The cores never see this file.

use firesteel_rpc::Message;

use crate::protocol::{ToDriver, ToExecutor};

/// The name of the driver's endpoint for its executors.
pub const DRIVER: &str = "CoarseGrainedScheduler";
/// The name of the executor's endpoint.
pub const EXECUTOR: &str = "Executor";

/// What comes before the hash in the name of a stream of [`content`].
const CONTENT: &str = "content/";

/// The name of the stream of a driver that has this hash: its executable, or a file of
/// `spark.files`.
pub fn content(hash: &[u8; 32]) -> String {
    hash.iter().fold(CONTENT.to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// The name of that stream without its first bytes, which its reader has.
pub fn content_from(hash: &[u8; 32], offset: u64) -> String {
    match offset {
        0 => content(hash),
        _ => format!("{}@{offset}", content(hash)),
    }
}

/// The hash in such a name and where to begin; `None` if it is no such name.
pub fn parse_content(name: &str) -> Option<([u8; 32], u64)> {
    let (name, offset) = match name.split_once('@') {
        Some((name, offset)) => (name, offset.parse().ok()?),
        None => (name, 0),
    };
    let digits = name.strip_prefix(CONTENT)?.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| (digit as char).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some((hash, offset))
}

impl Message for ToDriver {
    type Reply = ();
}

impl Message for ToExecutor {
    type Reply = ();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_in_a_name_is_read_as_it_was_written_and_nothing_else_is() {
        let hash: [u8; 32] = std::array::from_fn(|at| (at * 37) as u8);
        let name = content(&hash);
        assert_eq!(parse_content(&name), Some((hash, 0)));
        for offset in [0, 1, u64::MAX] {
            assert_eq!(parse_content(&content_from(&hash, offset)), Some((hash, offset)));
        }
        let longer = format!("{name}0");
        let nowhere = format!("{name}@");
        for other in ["", "content/", "content/00", &longer, &nowhere, &name[..70], &name[1..]] {
            assert_eq!(parse_content(other), None, "{other}");
        }
        assert_eq!(parse_content(&name.replacen("00", "é", 1)), None);
    }
}
