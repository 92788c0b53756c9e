//! GGUF: the reader of versions 2 and 3, little-endian, whole or split, and a streaming writer.

mod array;
mod metadata;
mod read;
mod split;
mod value;
mod write;

pub use array::Array;
pub use metadata::Metadata;
pub use value::{Field, Kind, Value};
pub use write::{TensorWriter, Writer};

pub(crate) use read::byte_size;
pub(crate) use split::{open, open_single};

use std::path::Path;

use crate::error::{Error, Fault};

const MAGIC: &[u8; 4] = b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;

/// GGUF's own limit on the length of a key.
const MAX_KEY: u64 = 65_535;
/// A tensor's name; ggml itself stops at 64 bytes.
const MAX_NAME: u64 = 1024;
/// Real files have about 40 keys.
const MAX_KEYS: u64 = 1 << 16;
/// The longest string value outside an array; a chat template has some 10 kB.
const MAX_STRING: u64 = 16 << 20;
const MAX_DIMS: u32 = 4;

/// Whether these are the first bytes of a GGUF file; relatives that we cannot read are an error of their own.
pub(crate) fn is_gguf(path: &Path, bytes: &[u8]) -> Result<bool, Error> {
    let unsupported = |what: &str| Err(Error::new(path, Fault::NotSupported(what.into())));
    match bytes.get(..4) {
        Some(magic) if magic == MAGIC => Ok(true),
        Some(b"FUGG") => unsupported("a big-endian GGUF file"),
        Some(b"tjgg" | b"algg" | b"fmgg") => unsupported("a ggml file from before GGUF"),
        _ => Ok(false),
    }
}
