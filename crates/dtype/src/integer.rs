//! Integers, F64 and BOOL: tensors that files hold beside the weights. Read only.

use crate::float::{F32, decode};
use crate::{Format, Planes};

/// A little-endian type of `bytes` bytes; the name is also safetensors'.
const fn stored(name: &'static str, gguf_id: Option<u32>, bytes: usize, decode: fn(Planes<'_>, &mut [f32])) -> Format {
    Format { gguf_id, safetensors: Some(name), bytes, decode, encode: None, ..F32 }
}

pub(crate) const I8: Format = stored("I8", Some(24), 1, |p, out| decode(p, out, |[b]| f32::from(b as i8)));
pub(crate) const I16: Format =
    stored("I16", Some(25), 2, |p, out| decode(p, out, |b| f32::from(i16::from_le_bytes(b))));
pub(crate) const I32: Format = stored("I32", Some(26), 4, |p, out| decode(p, out, |b| i32::from_le_bytes(b) as f32));
pub(crate) const I64: Format = stored("I64", Some(27), 8, |p, out| decode(p, out, |b| i64::from_le_bytes(b) as f32));
pub(crate) const U8: Format = stored("U8", None, 1, |p, out| decode(p, out, |[b]| f32::from(b)));
pub(crate) const U32: Format = stored("U32", None, 4, |p, out| decode(p, out, |b| u32::from_le_bytes(b) as f32));
pub(crate) const F64: Format = stored("F64", Some(28), 8, |p, out| decode(p, out, |b| f64::from_le_bytes(b) as f32));
pub(crate) const BOOL: Format = stored("BOOL", None, 1, |p, out| decode(p, out, |[b]| f32::from(b != 0)));
