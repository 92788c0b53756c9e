//! The table of dot-product kernels: which weight format and activation form at which level.

use super::gemm::GemmFn;
use super::generic;
#[cfg(target_arch = "aarch64")]
use super::neon;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512, bf16_panel};
use crate::level::Level;
use akunu_dtype::DType;

/// The form of the activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Rows of f32: float weights, and quantized weights where exactness is asked for.
    F32,
    /// Rows as in `akunu_dtype::q8`: quantized weights.
    Q8,
}

/// One kernel.
pub struct GemmRow {
    /// The weight format, or `None` for every format that can go with `act`.
    pub dtype: Option<DType>,
    pub act: Act,
    /// Whether the weights are packed (`crate::packed`).
    pub packed: bool,
    /// What the machine must have.
    pub level: Level,
    pub name: &'static str,
    pub run: GemmFn,
}

/// How weights of a format become tiles.
#[cfg(target_arch = "x86_64")]
pub struct PanelRow {
    /// The weight format, or `None` for every quantized one.
    pub dtype: Option<DType>,
    /// Whether the weights are packed.
    pub packed: bool,
    pub name: &'static str,
    pub run: bf16_panel::PanelFn,
}

macro_rules! table {
    ($($chained:ident $dtype:ident: $kernel:ident;)* @packed $($packed:ident: $packed_kernel:ident;)*) => {
        /// Every kernel.
        pub static KERNELS: &[GemmRow] = &[
            row(None, Act::F32, Level::Generic, "gemm_any_f32_generic", generic::f32_any),
            row(None, Act::Q8, Level::Generic, "gemm_any_q8_generic", generic::q8_narrow),
            $(row(
                Some(DType::$dtype),
                Act::Q8,
                Level::Generic,
                concat!("gemm_", stringify!($dtype), "_q8_generic"),
                generic::$chained,
            ),)*
            #[cfg(target_arch = "x86_64")]
            row(None, Act::F32, Level::Avx2, "gemm_any_f32_avx2", avx2::f32_any),
            #[cfg(target_arch = "x86_64")]
            row(Some(DType::F32), Act::F32, Level::Avx2, "gemm_F32_f32_avx2", avx2::f32),
            #[cfg(target_arch = "x86_64")]
            row(Some(DType::F16), Act::F32, Level::Avx2, "gemm_F16_f32_avx2", avx2::f16),
            #[cfg(target_arch = "x86_64")]
            row(Some(DType::BF16), Act::F32, Level::Avx2, "gemm_BF16_f32_avx2", avx2::bf16),
            #[cfg(target_arch = "x86_64")]
            row(None, Act::Q8, Level::Avx2, "gemm_any_q8_avx2", avx2::q8::<avx2::Any>),
            $(#[cfg(target_arch = "x86_64")]
            row(
                Some(DType::$dtype),
                Act::Q8,
                Level::Avx2,
                concat!("gemm_", stringify!($dtype), "_q8_avx2"),
                avx2::q8::<avx2::$kernel>,
            ),)*
            #[cfg(target_arch = "x86_64")]
            row(None, Act::Q8, Level::AvxVnni, "gemm_any_q8_avxvnni", avx2::q8_vnni::<avx2::Any>),
            $(#[cfg(target_arch = "x86_64")]
            row(
                Some(DType::$dtype),
                Act::Q8,
                Level::AvxVnni,
                concat!("gemm_", stringify!($dtype), "_q8_avxvnni"),
                avx2::q8_vnni::<avx2::$kernel>,
            ),)*
            #[cfg(target_arch = "x86_64")]
            row(None, Act::F32, Level::Avx512Bw, "gemm_any_f32_avx512", avx512::f32_any),
            #[cfg(target_arch = "x86_64")]
            row(Some(DType::F32), Act::F32, Level::Avx512Bw, "gemm_F32_f32_avx512", avx512::f32),
            #[cfg(target_arch = "x86_64")]
            row(Some(DType::F16), Act::F32, Level::Avx512Bw, "gemm_F16_f32_avx512", avx512::f16),
            #[cfg(target_arch = "x86_64")]
            row(Some(DType::BF16), Act::F32, Level::Avx512Bw, "gemm_BF16_f32_avx512", avx512::bf16),
            #[cfg(target_arch = "x86_64")]
            row(None, Act::Q8, Level::Avx512, "gemm_any_q8_avx512", avx512::q8::<avx512::Any>),
            $(#[cfg(target_arch = "x86_64")]
            row(
                Some(DType::$dtype),
                Act::Q8,
                Level::Avx512,
                concat!("gemm_", stringify!($dtype), "_q8_avx512"),
                avx512::q8::<avx512::$kernel>,
            ),)*
            #[cfg(target_arch = "x86_64")]
            packed(None, Act::F32, Level::Avx2, "gemm_packed_f32_avx2", avx2::f32_packed),
            $(#[cfg(target_arch = "x86_64")]
            packed(
                Some(DType::$packed),
                Act::Q8,
                Level::Avx2,
                concat!("gemm_packed_", stringify!($packed), "_q8_avx2"),
                avx2::q8_packed::<avx2::$packed_kernel>,
            ),)*
            $(#[cfg(target_arch = "x86_64")]
            packed(
                Some(DType::$packed),
                Act::Q8,
                Level::AvxVnni,
                concat!("gemm_packed_", stringify!($packed), "_q8_avxvnni"),
                avx2::q8_packed_vnni::<avx2::$packed_kernel>,
            ),)*
            #[cfg(target_arch = "x86_64")]
            packed(None, Act::F32, Level::Avx512Bw, "gemm_packed_f32_avx512", avx512::f32_packed),
            $(#[cfg(target_arch = "x86_64")]
            packed(
                Some(DType::$packed),
                Act::Q8,
                Level::Avx512Bw,
                concat!("gemm_packed_", stringify!($packed), "_q8_avx512bw"),
                avx512::q8_packed_no_vnni::<avx512::$packed_kernel>,
            ),)*
            $(#[cfg(target_arch = "x86_64")]
            packed(
                Some(DType::$packed),
                Act::Q8,
                Level::Avx512,
                concat!("gemm_packed_", stringify!($packed), "_q8_avx512"),
                avx512::q8_packed::<avx512::$packed_kernel>,
            ),)*
            $(#[cfg(target_arch = "x86_64")]
            packed(
                Some(DType::$packed),
                Act::Q8,
                Level::Amx,
                concat!("gemm_packed_", stringify!($packed), "_q8_amx"),
                avx512::q8_packed_tiles::<avx512::$packed_kernel>,
            ),)*
            #[cfg(target_arch = "aarch64")]
            row(None, Act::F32, Level::Neon, "gemm_any_f32_neon", neon::f32_any),
            #[cfg(target_arch = "aarch64")]
            row(Some(DType::F32), Act::F32, Level::Neon, "gemm_F32_f32_neon", neon::f32),
            #[cfg(target_arch = "aarch64")]
            row(Some(DType::F16), Act::F32, Level::Neon, "gemm_F16_f32_neon", neon::f16),
            #[cfg(target_arch = "aarch64")]
            row(Some(DType::BF16), Act::F32, Level::Neon, "gemm_BF16_f32_neon", neon::bf16),
            #[cfg(target_arch = "aarch64")]
            row(None, Act::Q8, Level::Neon, "gemm_any_q8_neon", neon::q8::<neon::Any<false>>),
            $(#[cfg(target_arch = "aarch64")]
            row(
                Some(DType::$dtype),
                Act::Q8,
                Level::Neon,
                concat!("gemm_", stringify!($dtype), "_q8_neon"),
                neon::q8::<neon::$kernel>,
            ),)*
            #[cfg(target_arch = "aarch64")]
            row(None, Act::Q8, Level::DotProd, "gemm_any_q8_dotprod", neon::q8_dotprod::<neon::Any<false>>),
            $(#[cfg(target_arch = "aarch64")]
            row(
                Some(DType::$dtype),
                Act::Q8,
                Level::DotProd,
                concat!("gemm_", stringify!($dtype), "_q8_dotprod"),
                neon::q8_dotprod::<neon::$kernel>,
            ),)*
            #[cfg(target_arch = "aarch64")]
            row(None, Act::Q8, Level::I8mm, "gemm_any_q8_i8mm", neon::q8_i8mm::<neon::Any<false>>),
            $(#[cfg(target_arch = "aarch64")]
            row(
                Some(DType::$dtype),
                Act::Q8,
                Level::I8mm,
                concat!("gemm_", stringify!($dtype), "_q8_i8mm"),
                neon::q8_i8mm::<neon::$kernel>,
            ),)*
        ];

        /// Every way to tiles.
        #[cfg(target_arch = "x86_64")]
        pub static PANELS: &[PanelRow] = &[
            PanelRow { dtype: Some(DType::F32), packed: false, name: "F32", run: bf16_panel::f32 },
            PanelRow { dtype: Some(DType::F16), packed: false, name: "F16", run: bf16_panel::f16 },
            PanelRow { dtype: Some(DType::BF16), packed: false, name: "BF16", run: bf16_panel::bf16 },
            PanelRow { dtype: None, packed: false, name: "any", run: bf16_panel::quantized::<avx512::Any> },
            $(PanelRow {
                dtype: Some(DType::$dtype),
                packed: false,
                name: stringify!($dtype),
                run: bf16_panel::quantized::<avx512::$kernel>,
            },)*
            $(PanelRow {
                dtype: Some(DType::$packed),
                packed: true,
                name: concat!("packed ", stringify!($packed)),
                run: bf16_panel::packed::<avx512::$packed_kernel>,
            },)*
        ];
    };
}

// The formats with kernels of their own, and how the sum is chained: with a scale per 32 values
// (wide) or per 16 (narrow); and those with kernels for packed weights.
table! {
    q8_wide Q4_0: Q4_0;
    q8_wide Q4_1: Q4_1;
    q8_wide Q5_0: Q5_0;
    q8_wide Q5_1: Q5_1;
    q8_wide Q8_0: Q8_0;
    q8_narrow Q2_K: Q2K;
    q8_narrow Q3_K: Q3K;
    q8_wide Q4_K: Q4K;
    q8_wide Q5_K: Q5K;
    q8_narrow Q6_K: Q6K;
    q8_wide IQ1_S: Iq1S;
    q8_narrow IQ1_M: Iq1M;
    q8_wide IQ2_XXS: Iq2Xxs;
    q8_narrow IQ2_XS: Iq2Xs;
    q8_narrow IQ2_S: Iq2S;
    q8_wide IQ3_XXS: Iq3Xxs;
    q8_wide IQ3_S: Iq3S;
    q8_wide IQ4_NL: Iq4Nl;
    q8_wide IQ4_XS: Iq4Xs;
    q8_wide MXFP4: Mxfp4;
    q8_wide MLX2_G32_F16: Mlx2;
    q8_wide MLX2_G32_BF16: Mlx2;
    q8_wide MLX2_G32_F32: Mlx2;
    q8_wide MLX2_G64_F16: Mlx2;
    q8_wide MLX2_G64_BF16: Mlx2;
    q8_wide MLX2_G64_F32: Mlx2;
    q8_wide MLX2_G128_F16: Mlx2;
    q8_wide MLX2_G128_BF16: Mlx2;
    q8_wide MLX2_G128_F32: Mlx2;
    q8_wide MLX3_G32_F16: Mlx3;
    q8_wide MLX3_G32_BF16: Mlx3;
    q8_wide MLX3_G32_F32: Mlx3;
    q8_wide MLX3_G64_F16: Mlx3;
    q8_wide MLX3_G64_BF16: Mlx3;
    q8_wide MLX3_G64_F32: Mlx3;
    q8_wide MLX3_G128_F16: Mlx3;
    q8_wide MLX3_G128_BF16: Mlx3;
    q8_wide MLX3_G128_F32: Mlx3;
    q8_wide MLX4_G32_F16: Mlx4;
    q8_wide MLX4_G32_BF16: Mlx4;
    q8_wide MLX4_G32_F32: Mlx4;
    q8_wide MLX4_G64_F16: Mlx4;
    q8_wide MLX4_G64_BF16: Mlx4;
    q8_wide MLX4_G64_F32: Mlx4;
    q8_wide MLX4_G128_F16: Mlx4;
    q8_wide MLX4_G128_BF16: Mlx4;
    q8_wide MLX4_G128_F32: Mlx4;
    q8_wide MLX5_G32_F16: Mlx5;
    q8_wide MLX5_G32_BF16: Mlx5;
    q8_wide MLX5_G32_F32: Mlx5;
    q8_wide MLX5_G64_F16: Mlx5;
    q8_wide MLX5_G64_BF16: Mlx5;
    q8_wide MLX5_G64_F32: Mlx5;
    q8_wide MLX5_G128_F16: Mlx5;
    q8_wide MLX5_G128_BF16: Mlx5;
    q8_wide MLX5_G128_F32: Mlx5;
    q8_wide MLX6_G32_F16: Mlx6;
    q8_wide MLX6_G32_BF16: Mlx6;
    q8_wide MLX6_G32_F32: Mlx6;
    q8_wide MLX6_G64_F16: Mlx6;
    q8_wide MLX6_G64_BF16: Mlx6;
    q8_wide MLX6_G64_F32: Mlx6;
    q8_wide MLX6_G128_F16: Mlx6;
    q8_wide MLX6_G128_BF16: Mlx6;
    q8_wide MLX6_G128_F32: Mlx6;
    q8_wide MLX8_G32_F16: Mlx8;
    q8_wide MLX8_G32_BF16: Mlx8;
    q8_wide MLX8_G32_F32: Mlx8;
    q8_wide MLX8_G64_F16: Mlx8;
    q8_wide MLX8_G64_BF16: Mlx8;
    q8_wide MLX8_G64_F32: Mlx8;
    q8_wide MLX8_G128_F16: Mlx8;
    q8_wide MLX8_G128_BF16: Mlx8;
    q8_wide MLX8_G128_F32: Mlx8;
    @packed
    Q4_0: Q4_0;
    Q4_1: Q4_1;
    Q8_0: Q8_0;
    IQ4_NL: Iq4Nl;
    Q4_K: Q4K;
    Q5_K: Q5K;
    Q6_K: Q6K;
}

const fn row(dtype: Option<DType>, act: Act, level: Level, name: &'static str, run: GemmFn) -> GemmRow {
    GemmRow { dtype, act, packed: false, level, name, run }
}

#[cfg(target_arch = "x86_64")]
const fn packed(dtype: Option<DType>, act: Act, level: Level, name: &'static str, run: GemmFn) -> GemmRow {
    GemmRow { dtype, act, packed: true, level, name, run }
}

/// Whether weights of a format are packed at a level: there is a kernel for them.
pub fn packs(dtype: DType, level: Level) -> bool {
    KERNELS.iter().any(|r| r.packed && level.has(r.level) && r.dtype == Some(dtype))
}

/// The kernel for a format on a machine of `level`: the highest level first, and there the
/// format's own before the one for every format; of weights as they are in files. `None` where int8 activations meet weights
/// that are not quantized.
pub fn find(dtype: DType, act: Act, level: Level) -> Option<&'static GemmRow> {
    if act == Act::Q8 && !dtype.is_quantized() {
        return None;
    }
    KERNELS
        .iter()
        .filter(|r| !r.packed && r.act == act && level.has(r.level) && r.dtype.is_none_or(|d| d == dtype))
        .max_by_key(|r| (r.level, r.dtype.is_some()))
}
