//! The number formats as the shaders call them. Also compiled into the emulator's build script, which knows nothing else.

/// Suffix of kernels' names, and the dequantizer in `shaders/formats`.
#[rustfmt::skip]
pub const FORMATS: &[(&str, &str)] = &[
    ("f32", "F32"), ("f16", "F16"), ("bf16", "BF16"),
    ("q4_0", "Q4_0"), ("q4_1", "Q4_1"), ("q5_0", "Q5_0"), ("q5_1", "Q5_1"), ("q8_0", "Q8_0"),
    ("q2_k", "Q2_K"), ("q3_k", "Q3_K"), ("q4_k", "Q4_K"), ("q5_k", "Q5_K"), ("q6_k", "Q6_K"),
    ("iq1_s", "IQ1_S"), ("iq1_m", "IQ1_M"), ("iq2_xxs", "IQ2_XXS"), ("iq2_xs", "IQ2_XS"), ("iq2_s", "IQ2_S"),
    ("iq3_xxs", "IQ3_XXS"), ("iq3_s", "IQ3_S"), ("iq4_nl", "IQ4_NL"), ("iq4_xs", "IQ4_XS"),
    ("tq1_0", "TQ1_0"), ("tq2_0", "TQ2_0"), ("mxfp4", "MXFP4"), ("nvfp4", "NVFP4"),
    ("mlx2", "MLX2"), ("mlx3", "MLX3"), ("mlx4", "MLX4"), ("mlx5", "MLX5"), ("mlx6", "MLX6"), ("mlx8", "MLX8"),
];
