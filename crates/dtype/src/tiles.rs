//! The bf16 form of activations, for products on matrix units.
//!
//! A buffer is tiles of 16 rows by 32 values, a tile's rows one after the other, a row's tiles one tile apart:
//! what a matrix unit loads as its left operand is contiguous, and a row is written 64 bytes at a time.
//! Values past a row's end are zeros; rows past the last are anything.

/// Rows of a tile.
pub const ROWS: usize = 16;
/// Values of a tile's row.
pub const VALUES: usize = 32;
pub const BYTES: usize = 2 * ROWS * VALUES;
/// Products take two tiles at a time: buffers have room for whole pairs.
pub const PAIR: usize = 2 * ROWS;

/// Values that heads are finished by at a time, by the product that makes them: heads of a size that divides it.
pub const HEADS: usize = 128;

/// Bytes that a row takes of its tiles.
pub const fn row_bytes(width: usize) -> usize {
    2 * width.next_multiple_of(VALUES)
}

/// Byte offset of the values from `at` on, a multiple of [`VALUES`], of a row.
pub const fn offset(row: usize, at: usize, width: usize) -> usize {
    (row / ROWS * width.div_ceil(VALUES) + at / VALUES) * BYTES + row % ROWS * 2 * VALUES
}

/// The nearest bf16 number, ties to even: the definition every kernel is tested against.
pub fn round(v: f32) -> f32 {
    let bits = v.to_bits();
    let up = 0x7fff + (bits >> 16 & 1);
    f32::from_bits(if v.is_nan() { bits } else { bits.wrapping_add(up) } & 0xffff_0000)
}
