//! Weight matrices as kernels take them, whatever their number format.

use crate::dispatch::Dispatch;
use akunu_dtype::DType;
use akunu_plan::record::{Addr, Record};

/// Function constants of the MLX formats: values of a group, values of a row, and the type of scales and biases.
pub const MLX_GROUP: u32 = 0;
pub const MLX_K: u32 = 1;
pub const MLX_SIDE: u32 = 12;

/// Buffers of a matrix: its blocks, and where the format has them its scales and biases.
pub type Buffers = [u32; 3];

/// Those of an op's first matrix.
pub const FIRST: Buffers = [1, 4, 5];

/// A matrix among the operands of a record.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    pub data: Addr,
    pub scales: Addr,
    pub biases: Addr,
    pub rows: u32,
    pub row_bytes: u32,
    pub side_bytes: u32,
}

impl Weight {
    /// The `nth` matrix of a record, which is in this slot.
    pub fn of(record: &Record, slot: usize, nth: usize, rows: u32, row_bytes: u32, side_bytes: u32) -> Self {
        let [scales, biases] = [record.planes[2 * nth], record.planes[2 * nth + 1]];
        Self { data: record.args[slot], scales, biases, rows, row_bytes, side_bytes }
    }

    pub fn bind(&self, dispatch: Dispatch, [data, scales, biases]: Buffers) -> Dispatch {
        let bytes = |each: u32| Some(self.rows as usize * each as usize);
        dispatch.at(data, self.data, bytes(self.row_bytes)).at(scales, self.scales, bytes(self.side_bytes)).at(
            biases,
            self.biases,
            bytes(self.side_bytes),
        )
    }
}

/// The function constants that kernels over a format need, for rows of `k` values.
pub fn constants(dtype: u32, k: u32) -> Vec<(u32, u32)> {
    let format = u8::try_from(dtype).ok().and_then(DType::from_index).map(DType::format);
    let Some((format, side)) = format.and_then(|format| Some((format, format.side?))) else { return Vec::new() };
    vec![(MLX_GROUP, format.block as u32), (MLX_K, k), (MLX_SIDE, side.index().into())]
}
