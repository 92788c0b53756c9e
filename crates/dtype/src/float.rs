//! F32, F16 and BF16: plain little-endian floats.

use crate::{DType, Format, Planes, PlanesMut};
use half::{bf16, f16};

/// F32, and what every plain format has in common.
pub(crate) const F32: Format = Format {
    dtype: DType(0),
    name: "",
    gguf_id: Some(0),
    safetensors: Some("F32"),
    block: 1,
    bytes: 4,
    side_bytes: 0,
    side: None,
    decode: |p, out| decode(p, out, f32::from_le_bytes),
    encode: Some(|v, p| encode(v, p, f32::to_le_bytes)),
    unpack: None,
};

pub(crate) const F16: Format = Format {
    gguf_id: Some(1),
    safetensors: Some("F16"),
    bytes: 2,
    decode: |p, out| decode(p, out, |b| f16::from_le_bytes(b).to_f32()),
    encode: Some(|v, p| encode(v, p, |v| f16::from_f32(v).to_le_bytes())),
    ..F32
};

pub(crate) const BF16: Format = Format {
    gguf_id: Some(30),
    safetensors: Some("BF16"),
    bytes: 2,
    decode: |p, out| decode(p, out, |b| bf16::from_le_bytes(b).to_f32()),
    encode: Some(|v, p| encode(v, p, |v| bf16::from_f32(v).to_le_bytes())),
    ..F32
};

/// Applies `read` to every value's bytes.
pub(crate) fn decode<const N: usize>(p: Planes<'_>, out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
    let (values, _) = p.data.as_chunks::<N>();
    for (out, &bytes) in out.iter_mut().zip(values) {
        *out = read(bytes);
    }
}

fn encode<const N: usize>(values: &[f32], p: PlanesMut<'_>, write: impl Fn(f32) -> [u8; N]) {
    let (out, _) = p.data.as_chunks_mut::<N>();
    for (out, &v) in out.iter_mut().zip(values) {
        *out = write(v);
    }
}
