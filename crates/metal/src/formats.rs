//! The number formats as the shaders call them. Also compiled into the emulator's build script, which knows nothing else.

/// Suffix of kernels' names, and the dequantizer in `shaders/formats`.
#[rustfmt::skip]
pub const FORMATS: &[(&str, &str)] = &[
    ("f32", "F32"), ("f16", "F16"), ("bf16", "BF16"),
];
