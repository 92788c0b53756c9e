//! The inner part of every matrix product: a tile of products of activation rows with weight rows.
//!
//! A [`GemmFn`] knows one weight format and one activation form; it fills a tile of plain dot
//! products. Splitting among threads, bias, activation, residual and re-quantization belong to
//! the product around it, so they are written once.

use akunu_dtype::{DType, Format, GROUP, MAX_BLOCK, Planes, Unpacked, q8};
use std::cell::UnsafeCell;

/// A tile of dot products: `out[m][n] = x[m] · w[n]` for `m < rows`, `n < cols`.
///
/// The caller guarantees that every pointer is valid for what the shapes say, and that `out`
/// overlaps nothing. Weight bytes have no alignment; activation rows are 64-byte aligned.
pub struct Gemm {
    /// First weight row of the tile: data plane, and the side planes of affine formats (else null).
    pub w: *const u8,
    pub w_scales: *const u8,
    pub w_biases: *const u8,
    /// Bytes from one weight row to the next, in the data plane and in each side plane.
    pub w_stride: usize,
    pub w_side_stride: usize,
    /// Weights that this worker multiplies after these, for kernels that prefetch them; any address will do.
    pub next: *const u8,
    /// Activations: f32 rows, or int8 rows as in `akunu_dtype::q8`.
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

/// Streams that a GEMV reads its weights in, where registers allow.
///
/// Two cores of a Sapphire Rapids read 33 GB/s in eight streams and 22 GB/s in one, however far ahead that prefetches: the L2
/// prefetchers, which have most requests under way, seem to look after each 4 KiB page alone.
pub const STREAMS: usize = 8;
/// Bytes that each stream prefetches ahead of the loads.
pub const AHEAD: usize = 2048;

impl Gemm {
    /// Weight rows between the beginnings of streams that share them evenly; the last may go past the end.
    pub fn apart(&self, streams: usize) -> usize {
        self.cols.div_ceil(streams)
    }

    /// Writes the dot products of activation row `m` with weight rows `n`, `n + apart` and so on, as far as these exist.
    ///
    /// # Safety
    /// As [`Gemm`] promises, with `m < rows`.
    #[inline(always)]
    pub unsafe fn put<const N: usize>(&self, m: usize, (n, apart): (usize, usize), sums: [f32; N]) {
        // Not a range with steps, which divides to know how many there are.
        for (i, sum) in sums.into_iter().enumerate() {
            let n = n + i * apart;
            if n < self.cols {
                // SAFETY: a column of the tile.
                unsafe { *self.out.add(m * self.out_stride + n) = sum }
            }
        }
    }
}

/// Fills a tile. Unsafe because of the pointers in [`Gemm`] and because the kernel may use
/// instructions that the table offers only where the machine has them.
pub type GemmFn = unsafe fn(&Gemm);

/// Weight rows that SIMD kernels walk together.
pub const ROWS: usize = 4;

/// Where the bytes of four weight rows begin.
#[derive(Clone, Copy)]
pub struct RowPtrs {
    pub data: [*const u8; ROWS],
    pub scales: [*const u8; ROWS],
    pub biases: [*const u8; ROWS],
}

impl RowPtrs {
    /// Row `n` of the tile and three more, each `apart` from the last; past the tile's end its last row stands in.
    ///
    /// # Safety
    /// As [`Gemm`] promises, with `n < d.cols`.
    #[inline(always)]
    pub unsafe fn new(d: &Gemm, n: usize, apart: usize) -> Self {
        let row = |r: usize| (n + r * apart).min(d.cols - 1);
        // Side planes may be null: their pointers are only used by formats that have them.
        let side = |plane: *const u8, r: usize| plane.wrapping_add(row(r) * d.w_side_stride);
        RowPtrs {
            // SAFETY: a row of the tile.
            data: std::array::from_fn(|r| unsafe { d.w.add(row(r) * d.w_stride) }),
            scales: std::array::from_fn(|r| side(d.w_scales, r)),
            biases: std::array::from_fn(|r| side(d.w_biases, r)),
        }
    }
}

/// The side planes of an affine format.
pub struct Sides {
    /// Values that share a number: 2 to this power, 32 or more.
    log: u32,
    /// Bytes of a number: 4 for f32, or 2, then f16 or bf16.
    pub bytes: usize,
    pub f16: bool,
}

impl Sides {
    /// Those of the format of `d`, if it has some.
    pub fn of(d: &Gemm) -> Option<Self> {
        let f = DType::from_index(d.dtype)?.format();
        let side = f.side?;
        let log = f.block.is_power_of_two().then(|| f.block.trailing_zeros())?;
        Some(Self { log, bytes: f.side_bytes, f16: side == DType::F16 })
    }

    /// The group of value `k`.
    #[inline(always)]
    pub fn group(&self, k: usize) -> usize {
        k >> self.log
    }

    /// Byte of the number that value `k` of a row takes.
    #[inline(always)]
    pub fn at(&self, k: usize) -> usize {
        self.group(k) * self.bytes
    }
}

/// Activation row `m`: int8 values, scales, group sums.
///
/// # Safety
/// As [`Gemm`] promises for int8 activations, with `m < d.rows`.
#[inline(always)]
pub unsafe fn q8_row(d: &Gemm, m: usize) -> (*const u8, *const f32, *const f32) {
    // SAFETY: the three runs of a row.
    unsafe {
        let row = d.x.add(m * d.x_stride);
        (row, row.add(q8::scales_offset(d.k)).cast(), row.add(q8::sums_offset(d.k)).cast())
    }
}

/// Unpacks `blocks` blocks of 32 from value `k` of four weight rows of any format; scales and offsets of
/// further ones become 0.
///
/// # Safety
/// The blocks are whole blocks of `f` and lie within the rows.
unsafe fn unpack(f: &Format, rows: &RowPtrs, k: usize, blocks: usize, out: &mut [Unpacked; ROWS]) {
    let Some(unpack) = f.unpack else { return };
    let first = k / f.block;
    for (row, out) in out.iter_mut().enumerate() {
        // SAFETY: the caller asks for whole blocks of the row, and their numbers in the side planes if there are some.
        let planes = |block: usize| unsafe {
            let side = |p: *const u8| match f.side_bytes {
                0 => &[][..],
                bytes => std::slice::from_raw_parts(p.add(block * bytes), bytes),
            };
            let data = std::slice::from_raw_parts(rows.data[row].add(block * f.bytes), f.bytes);
            Planes { data, scales: side(rows.scales[row]), biases: side(rows.biases[row]) }
        };
        if f.block == MAX_BLOCK {
            unpack(planes(first), out);
            continue;
        }
        let mut part = Unpacked::default();
        for (i, at) in (0..32 * blocks).step_by(f.block).enumerate() {
            unpack(planes(first + i), &mut part);
            let (group, groups) = (at / GROUP, f.block / GROUP);
            out.q[at..at + f.block].copy_from_slice(&part.q[..f.block]);
            out.scale[group..group + groups].copy_from_slice(&part.scale[..groups]);
            out.offset[group..group + groups].copy_from_slice(&part.offset[..groups]);
        }
        out.scale[2 * blocks..].fill(0.0);
        out.offset[2 * blocks..].fill(0.0);
    }
}

/// Weights of a format that has no kernel of its own, unpacked by `akunu_dtype` as a kernel goes.
pub struct Unpacking {
    format: &'static Format,
    /// What was unpacked last.
    rows: UnsafeCell<[Unpacked; ROWS]>,
}

impl Unpacking {
    pub fn of(d: &Gemm) -> Option<Self> {
        let format = DType::from_index(d.dtype)?.format();
        Some(Self { format, rows: UnsafeCell::new(std::array::from_fn(|_| Unpacked::default())) })
    }

    /// # Safety
    /// As `unpack`; nothing refers to what was unpacked before.
    pub unsafe fn unpack(&self, rows: &RowPtrs, k: usize, blocks: usize) {
        // SAFETY: the same contract; the cell is not shared between threads.
        unsafe { unpack(self.format, rows, k, blocks, &mut *self.rows.get()) }
    }

    /// What was unpacked last.
    ///
    /// # Safety
    /// Nothing is unpacked while the reference lives.
    pub unsafe fn rows(&self) -> &[Unpacked; ROWS] {
        // SAFETY: the same contract.
        unsafe { &*self.rows.get() }
    }
}
