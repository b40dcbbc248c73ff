//! Settings that every executor goes by, in local mode and under any cluster manager.

use firesteel_conf::{CompressionCodec, Conf, ConfError, entries};
use firesteel_shuffle::Codec;

/// The stack of a thread that runs tasks. Address space, not memory: a long chain of boxed pipelines calls deeply.
pub const STACK_BYTES: usize = 16 << 20;

/// The codec that is set, if there shall be one.
pub fn codec_if(conf: &Conf, compressed: bool) -> Result<Codec, ConfError> {
    let level = conf.get(&entries::IO_COMPRESSION_ZSTD_LEVEL)?;
    Ok(match (compressed, conf.get(&entries::IO_COMPRESSION_CODEC)?) {
        (false, _) => Codec::None,
        (true, CompressionCodec::Lz4) => Codec::Lz4,
        (true, CompressionCodec::Zstd) => Codec::Zstd(i32::try_from(level.min(22)).unwrap_or(22)),
    })
}
