//! Dot products of activation rows with weight rows: every weight format at every instruction-set level, and the vectors and
//! levels they are written for.
//!
//! This is most of the machine code and takes minutes to compile. Nothing here knows of programs, threads or memory, so that
//! changing those does not compile it again; and its tests are beside it (`tests/`), so that testing does not either.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod dots;
mod generic;
pub mod level;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod packed;
pub mod simd;
#[cfg(target_arch = "x86_64")]
pub mod strip;
pub mod table;

/// The body for every block of those that lie together, with its number as a constant.
#[cfg(target_arch = "x86_64")]
macro_rules! each_block {
    ($format:ty, |$b:ident| $body:expr) => {{
        macro_rules! at {
            ($n:literal) => {{
                const $b: usize = $n;
                $body
            }};
        }
        at!(0);
        if <$format>::BLOCKS == 8 {
            at!(1);
            at!(2);
            at!(3);
            at!(4);
            at!(5);
            at!(6);
            at!(7);
        }
    }};
}
#[cfg(target_arch = "x86_64")]
use each_block;
