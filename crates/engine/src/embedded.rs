//! The model inside the binary: small, offline, always there.

use akunu_formats::{Error, ModelFile};

/// What the embedded model calls itself in messages.
pub const DEFAULT_MODEL_NAME: &str = "stories-llama (embedded)";

/// Aligned like a mapped file, so that its tensors are where a file's would be.
#[repr(C, align(4096))]
struct Aligned<Bytes: ?Sized>(Bytes);

static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../fixtures/gguf/stories-llama-Q4_0.gguf"));

/// The model inside the binary, or an error where it was built without one.
pub fn open() -> Result<ModelFile, Error> {
    ModelFile::from_static(DEFAULT_MODEL_NAME, &MODEL.0)
}
