//! The inner part of every matrix product: dot products of activation rows with weight rows.
//!
//! A [`DotsFn`] knows one weight format and one activation form; it fills a tile of plain dot
//! products. Splitting among threads, bias, activation, residual and re-quantization belong to
//! the product around it, so they are written once.

/// A tile of dot products: `out[m][n] = x[m] · w[n]` for `m < rows`, `n < cols`.
///
/// The caller guarantees that every pointer is valid for what the shapes say, and that `out`
/// overlaps nothing. Weight bytes have no alignment; activation rows are 64-byte aligned.
pub struct Dots {
    /// First weight row of the tile: data plane, and the side planes of affine formats (else null).
    pub w: *const u8,
    pub w_scales: *const u8,
    pub w_biases: *const u8,
    /// Bytes from one weight row to the next, in the data plane and in each side plane.
    pub w_stride: usize,
    pub w_side_stride: usize,
    /// Activations: f32 rows, or int8 rows as in `akunu_plan::q8`.
    pub x: *const u8,
    pub x_stride: usize,
    /// Activation rows, weight rows, and their common length in values (a multiple of the format's block).
    pub rows: usize,
    pub cols: usize,
    pub k: usize,
    /// `[rows][out_stride]` f32.
    pub out: *mut f32,
    pub out_stride: usize,
    /// Row of `akunu_dtype::FORMATS`, for kernels that serve every format.
    pub dtype: u8,
}

/// Fills a tile. Unsafe because of the pointers in [`Dots`] and because the kernel may use
/// instructions that the table offers only where the machine has them.
pub type DotsFn = unsafe fn(&Dots);
