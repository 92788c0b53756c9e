//! The number formats as the shaders call them. Also compiled into the emulator's build script, which knows nothing else.

/// Suffix of kernels' names, and the dequantizer in `shaders/formats`.
#[rustfmt::skip]
pub const FORMATS: &[(&str, &str)] = &[
    ("f32", "F32"), ("f16", "F16"), ("bf16", "BF16"),
    ("q4_0", "Q4_0"), ("q4_1", "Q4_1"), ("q5_0", "Q5_0"), ("q5_1", "Q5_1"), ("q8_0", "Q8_0"),
];
