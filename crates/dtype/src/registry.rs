//! The table of number formats. A row's position is its [`DType`], and never changes meaning
//! within one build.

use crate::block::{readable, writable};
use crate::*;
use half::{bf16, f16};

// A row lives beside its code; this table names the rows and orders them.
macro_rules! registry {
    ($($name:ident = $row:expr),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u8)]
        enum Position { $($name),* }
        impl DType { $(pub const $name: DType = DType(Position::$name as u8);)* }
        /// Every number format, in `DType` order.
        pub static FORMATS: &[Format] =
            &[$(Format { dtype: DType::$name, name: stringify!($name), ..$row }),*];
    };
}

registry! {
    F32 = float::F32,
    F16 = float::F16,
    BF16 = float::BF16,
    F64 = integer::F64,
    I8 = integer::I8,
    I16 = integer::I16,
    I32 = integer::I32,
    I64 = integer::I64,
    U8 = integer::U8,
    U32 = integer::U32,
    BOOL = integer::BOOL,
    Q4_0 = writable::<q4_0::Q4_0, _>(),
    Q4_1 = writable::<q4_1::Q4_1, _>(),
    Q5_0 = writable::<q5_0::Q5_0, _>(),
    Q5_1 = writable::<q5_1::Q5_1, _>(),
    Q8_0 = writable::<q8_0::Q8_0, _>(),
    Q2_K = writable::<q2_k::Q2K, _>(),
    Q3_K = writable::<q3_k::Q3K, _>(),
    Q4_K = writable::<q4_k::Q4K, _>(),
    Q5_K = writable::<q5_k::Q5K, _>(),
    Q6_K = writable::<q6_k::Q6K, _>(),
    IQ1_S = readable::<iq1_s::Iq1S, _>(),
    IQ1_M = readable::<iq1_m::Iq1M, _>(),
    IQ2_XXS = readable::<iq2_xxs::Iq2Xxs, _>(),
    IQ2_XS = readable::<iq2_xs::Iq2Xs, _>(),
    IQ2_S = readable::<iq2_s::Iq2S, _>(),
    IQ3_XXS = readable::<iq3_xxs::Iq3Xxs, _>(),
    IQ3_S = readable::<iq3_s::Iq3S, _>(),
    IQ4_NL = writable::<iq4_nl::Iq4Nl, _>(),
    IQ4_XS = writable::<iq4_xs::Iq4Xs, _>(),
    TQ1_0 = writable::<tq1_0::Tq1_0, _>(),
    TQ2_0 = writable::<tq2_0::Tq2_0, _>(),
    MXFP4 = writable::<mxfp4::Mxfp4, _>(),
    NVFP4 = writable::<nvfp4::Nvfp4, _>(),
    MLX2_G32_F16 = mlx::row::<f16, _, 2, 32>(),
    MLX2_G32_BF16 = mlx::row::<bf16, _, 2, 32>(),
    MLX2_G32_F32 = mlx::row::<f32, _, 2, 32>(),
    MLX2_G64_F16 = mlx::row::<f16, _, 2, 64>(),
    MLX2_G64_BF16 = mlx::row::<bf16, _, 2, 64>(),
    MLX2_G64_F32 = mlx::row::<f32, _, 2, 64>(),
    MLX2_G128_F16 = mlx::row::<f16, _, 2, 128>(),
    MLX2_G128_BF16 = mlx::row::<bf16, _, 2, 128>(),
    MLX2_G128_F32 = mlx::row::<f32, _, 2, 128>(),
    MLX3_G32_F16 = mlx::row::<f16, _, 3, 32>(),
    MLX3_G32_BF16 = mlx::row::<bf16, _, 3, 32>(),
    MLX3_G32_F32 = mlx::row::<f32, _, 3, 32>(),
    MLX3_G64_F16 = mlx::row::<f16, _, 3, 64>(),
    MLX3_G64_BF16 = mlx::row::<bf16, _, 3, 64>(),
    MLX3_G64_F32 = mlx::row::<f32, _, 3, 64>(),
    MLX3_G128_F16 = mlx::row::<f16, _, 3, 128>(),
    MLX3_G128_BF16 = mlx::row::<bf16, _, 3, 128>(),
    MLX3_G128_F32 = mlx::row::<f32, _, 3, 128>(),
    MLX4_G32_F16 = mlx::row::<f16, _, 4, 32>(),
    MLX4_G32_BF16 = mlx::row::<bf16, _, 4, 32>(),
    MLX4_G32_F32 = mlx::row::<f32, _, 4, 32>(),
    MLX4_G64_F16 = mlx::row::<f16, _, 4, 64>(),
    MLX4_G64_BF16 = mlx::row::<bf16, _, 4, 64>(),
    MLX4_G64_F32 = mlx::row::<f32, _, 4, 64>(),
    MLX4_G128_F16 = mlx::row::<f16, _, 4, 128>(),
    MLX4_G128_BF16 = mlx::row::<bf16, _, 4, 128>(),
    MLX4_G128_F32 = mlx::row::<f32, _, 4, 128>(),
    MLX5_G32_F16 = mlx::row::<f16, _, 5, 32>(),
    MLX5_G32_BF16 = mlx::row::<bf16, _, 5, 32>(),
    MLX5_G32_F32 = mlx::row::<f32, _, 5, 32>(),
    MLX5_G64_F16 = mlx::row::<f16, _, 5, 64>(),
    MLX5_G64_BF16 = mlx::row::<bf16, _, 5, 64>(),
    MLX5_G64_F32 = mlx::row::<f32, _, 5, 64>(),
    MLX5_G128_F16 = mlx::row::<f16, _, 5, 128>(),
    MLX5_G128_BF16 = mlx::row::<bf16, _, 5, 128>(),
    MLX5_G128_F32 = mlx::row::<f32, _, 5, 128>(),
    MLX6_G32_F16 = mlx::row::<f16, _, 6, 32>(),
    MLX6_G32_BF16 = mlx::row::<bf16, _, 6, 32>(),
    MLX6_G32_F32 = mlx::row::<f32, _, 6, 32>(),
    MLX6_G64_F16 = mlx::row::<f16, _, 6, 64>(),
    MLX6_G64_BF16 = mlx::row::<bf16, _, 6, 64>(),
    MLX6_G64_F32 = mlx::row::<f32, _, 6, 64>(),
    MLX6_G128_F16 = mlx::row::<f16, _, 6, 128>(),
    MLX6_G128_BF16 = mlx::row::<bf16, _, 6, 128>(),
    MLX6_G128_F32 = mlx::row::<f32, _, 6, 128>(),
    MLX8_G32_F16 = mlx::row::<f16, _, 8, 32>(),
    MLX8_G32_BF16 = mlx::row::<bf16, _, 8, 32>(),
    MLX8_G32_F32 = mlx::row::<f32, _, 8, 32>(),
    MLX8_G64_F16 = mlx::row::<f16, _, 8, 64>(),
    MLX8_G64_BF16 = mlx::row::<bf16, _, 8, 64>(),
    MLX8_G64_F32 = mlx::row::<f32, _, 8, 64>(),
    MLX8_G128_F16 = mlx::row::<f16, _, 8, 128>(),
    MLX8_G128_BF16 = mlx::row::<bf16, _, 8, 128>(),
    MLX8_G128_F32 = mlx::row::<f32, _, 8, 128>(),
}
