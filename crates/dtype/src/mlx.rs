//! MLX affine formats.

use crate::DType;

pub(crate) fn find(_bits: u32, _group: u32, _scales: DType) -> Option<DType> {
    None
}
