//! The table of dot-product kernels: which weight format and activation form at which level.

use super::dots::DotsFn;
use super::generic;
use crate::level::Level;
use akunu_dtype::DType;

/// The form of the activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Rows of f32: float weights, and quantized weights where exactness is asked for.
    F32,
    /// Rows as in `akunu_plan::q8`: quantized weights.
    Q8,
}

/// One kernel.
pub struct DotsRow {
    /// The weight format, or `None` for every format that can go with `act`.
    pub dtype: Option<DType>,
    pub act: Act,
    /// What the machine must have.
    pub level: Level,
    pub name: &'static str,
    pub run: DotsFn,
}

/// Every kernel.
pub static DOTS: &[DotsRow] = &[
    row(None, Act::F32, Level::Generic, "dots_f32_any", generic::f32_any),
    row(None, Act::Q8, Level::Generic, "dots_q8_any", generic::q8_narrow),
];

const fn row(dtype: Option<DType>, act: Act, level: Level, name: &'static str, run: DotsFn) -> DotsRow {
    DotsRow { dtype, act, level, name, run }
}

/// The kernel for a format on a machine of `level`: the highest level first, and there the
/// format's own before the one for every format. `None` where int8 activations meet weights
/// that are not quantized.
pub fn find(dtype: DType, act: Act, level: Level) -> Option<&'static DotsRow> {
    if act == Act::Q8 && !dtype.is_quantized() {
        return None;
    }
    DOTS.iter()
        .filter(|r| r.act == act && r.level <= level && r.dtype.is_none_or(|d| d == dtype))
        .max_by_key(|r| (r.level, r.dtype.is_some()))
}
