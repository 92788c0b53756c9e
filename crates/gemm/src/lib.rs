//! Products of activation rows with weight rows: every weight format at every instruction-set level.
//!
//! This is most of the machine code and takes minutes to compile. Nothing here knows of programs, threads or memory, so that
//! changing those does not compile it again; and its tests are beside it (`tests/`), so that testing does not either.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
pub mod bf16_panel;
pub mod gemm;
mod generic;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod packed;
pub mod table;

use akunu_simd as simd;
use akunu_simd::level;

/// The body for every block of those that lie together, `2 * pair + ODD`, with the last bit of its number as a constant: two
/// blocks share their bytes. The compiler takes assembly for a single instruction, and would write the loop out.
#[cfg(target_arch = "x86_64")]
macro_rules! each_block {
    ($format:ty, |$odd:ident, $pair:ident| $body:expr) => {
        for $pair in 0..if <$format>::BLOCKS == 1 { 1 } else { std::hint::black_box(<$format>::BLOCKS / 2) } {
            {
                const $odd: usize = 0;
                $body
            }
            if <$format>::BLOCKS == 8 {
                const $odd: usize = 1;
                $body
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
use each_block;
