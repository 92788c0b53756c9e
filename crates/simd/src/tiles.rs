//! AMX tiles of 16 rows of 64 bytes, and what brings numbers into their layout.
//!
//! A product of tiles takes 16 rows of 32 bf16 values on its left; on its right it takes 16 rows of 16 pairs, each pair two
//! values that follow one another in a column. Code outside this file never sees a tile register.

use std::arch::asm;
use std::arch::x86_64::*;

/// Rows of a tile.
pub const SIDE: usize = 16;
/// Values of a left tile's row.
pub const STEP: usize = 32;
pub const TILE_BYTES: usize = 1024;

/// All eight tiles are alike.
#[repr(C, align(64))]
struct Shape {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static SHAPE: Shape = Shape {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

const _: () = assert!(size_of::<Shape>() == 64);

/// Tile instructions with twelve others after each. Where another thread shares the core, tile instructions that follow one
/// another directly hold each other up: two loads and their two products take 1.6 times as long as with others between
/// them, which cost nothing. Where none does, a prompt takes 2 % longer.
macro_rules! apart {
    ($($instruction:expr,)*) => { concat!($($instruction, "\n.fill 12, 1, 0x90\n",)*) };
}

/// The right to use tiles on this thread, until it is dropped.
pub struct Tiles(());

impl Tiles {
    /// # Safety
    /// The machine has AMX, and the process the permission to use it.
    #[inline]
    pub unsafe fn configure() -> Self {
        // SAFETY: the same contract.
        unsafe { Self::of(&SHAPE) }
    }

    /// # Safety
    /// As [`Self::configure`].
    unsafe fn of(shape: &'static Shape) -> Self {
        // SAFETY: reads the 64 bytes of the shape.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const *shape, options(nostack, readonly, preserves_flags)) };
        Tiles(())
    }
}

/// 32 rows times 32 columns, over some steps.
pub struct TileBlock {
    /// Two runs of tiles of bf16, one for each step.
    pub left: [*const u8; 2],
    pub right: [*const u8; 2],
    /// 32 rows of 32 f32.
    pub sums: *mut f32,
    pub steps: usize,
    /// The sums begin at 0, and are not read.
    pub first: bool,
}

/// One step of a block: four loads, and a product after what is to be done to its sums before.
macro_rules! step {
    ($left:literal, [$b0:expr, $b1:expr, $b2:expr, $b3:expr], $block:expr, $at:expr $(, $name:ident = $place:expr)*) => {
        asm!(
            concat!(apart!(concat!($left, " tmm4, [{a} + {line}*1]"), "tileloaddt1 tmm6, [{b} + {line}*1]", "tileloaddt1 tmm7, [{b2} + {line}*1]",), $b0),
            concat!(apart!("tdpbf16ps tmm0, tmm4, tmm6", concat!($left, " tmm5, [{a2} + {line}*1]"),), $b1),
            concat!(apart!("tdpbf16ps tmm1, tmm4, tmm7",), $b2),
            concat!(apart!("tdpbf16ps tmm2, tmm5, tmm6",), $b3),
            "tdpbf16ps tmm3, tmm5, tmm7",
            a = in(reg) $block.left[0].wrapping_add($at),
            a2 = in(reg) $block.left[1].wrapping_add($at),
            b = in(reg) $block.right[0].wrapping_add($at),
            b2 = in(reg) $block.right[1].wrapping_add($at),
            line = in(reg) 64_usize,
            $($name = in(reg) $place,)*
            options(nostack, preserves_flags),
        )
    };
}

/// Brings a block's sums into tiles. Where others are held there, they leave one by one during the block's first step: then it is
/// done, and the result is true.
macro_rules! begin {
    ($left:literal, $this:expr, $block:expr) => {{
        let (to, stride) = ($block.sums, $this.stride);
        let below = |sums: *mut f32| sums.wrapping_byte_add(SIDE * stride);
        match ($this.held.replace(to), $block.first) {
            (None, true) => {
                asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nomem, nostack));
                false
            }
            (None, false) => {
                asm!(
                    "tileloadd tmm0, [{c} + {s}*1]",
                    "tileloadd tmm1, [{c} + {s}*1 + 64]",
                    "tileloadd tmm2, [{d} + {s}*1]",
                    "tileloadd tmm3, [{d} + {s}*1 + 64]",
                    c = in(reg) to, d = in(reg) below(to), s = in(reg) stride,
                    options(nostack, readonly, preserves_flags),
                );
                false
            }
            (Some(held), true) => {
                step!($left, [
                    "tilestored [{h} + {s}*1], tmm0\ntilezero tmm0",
                    "tilestored [{h} + {s}*1 + 64], tmm1\ntilezero tmm1",
                    "tilestored [{i} + {s}*1], tmm2\ntilezero tmm2",
                    "tilestored [{i} + {s}*1 + 64], tmm3\ntilezero tmm3"
                ], $block, 0, h = held, i = below(held), s = stride);
                true
            }
            (Some(held), false) => {
                step!($left, [
                    "tilestored [{h} + {s}*1], tmm0\ntileloadd tmm0, [{c} + {s}*1]",
                    "tilestored [{h} + {s}*1 + 64], tmm1\ntileloadd tmm1, [{c} + {s}*1 + 64]",
                    "tilestored [{i} + {s}*1], tmm2\ntileloadd tmm2, [{d} + {s}*1]",
                    "tilestored [{i} + {s}*1 + 64], tmm3\ntileloadd tmm3, [{d} + {s}*1 + 64]"
                ], $block, 0, h = held, i = below(held), c = to, d = below(to), s = stride);
                true
            }
        }
    }};
}

/// Products of blocks, one after the other. The sums of each stay in their tiles until the next has begun: stored between its
/// first products they cost a fifth of what they cost by themselves.
pub struct Products<'a> {
    _tiles: &'a Tiles,
    /// Bytes from one row of sums to the next.
    stride: usize,
    /// Sums in tiles, and where they belong.
    held: Option<*mut f32>,
}

impl<'a> Products<'a> {
    #[inline]
    pub fn new(tiles: &'a Tiles, stride: usize) -> Self {
        Self { _tiles: tiles, stride, held: None }
    }

    /// Adds a block's products to its sums, which are there after the next block's first step, or after [`Self::store`].
    /// `between` is other work, done after each step; the matrix unit does not wait for it.
    ///
    /// Operands come from the L2 and do not go through the first, where they would only drive each other
    /// out. Where `NEAR`, left ones do: a few steps of them are used again by the next block.
    ///
    /// # Safety
    /// Tiles and rows are there, and `between` uses none of those of this block.
    #[inline(always)]
    pub unsafe fn add<const NEAR: bool>(&mut self, block: &TileBlock, between: &mut impl FnMut()) {
        // SAFETY: the caller's promise.
        unsafe {
            let done = if NEAR { begin!("tileloadd", self, block) } else { begin!("tileloaddt1", self, block) };
            if done {
                between();
            }
            for step in usize::from(done)..block.steps {
                let at = step * TILE_BYTES;
                if NEAR {
                    step!("tileloadd", ["", "", "", ""], block, at);
                } else {
                    step!("tileloaddt1", ["", "", "", ""], block, at);
                }
                between();
            }
        }
    }

    /// Stores the sums of the last block.
    ///
    /// # Safety
    /// Its rows are there.
    #[inline]
    pub unsafe fn store(&mut self) {
        let Some(held) = self.held.take() else { return };
        // SAFETY: the caller's promise; no other code uses tile registers.
        unsafe {
            asm!(
                "tilestored [{c} + {s}*1], tmm0",
                "tilestored [{c} + {s}*1 + 64], tmm1",
                "tilestored [{d} + {s}*1], tmm2",
                "tilestored [{d} + {s}*1 + 64], tmm3",
                c = in(reg) held, d = in(reg) held.wrapping_byte_add(SIDE * self.stride), s = in(reg) self.stride,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Two tile instructions, kept apart; other work follows. Not every pair has an address: the remark names the stride for
/// those that have none.
macro_rules! tiles {
    ($first:literal, $second:literal $(; $($name:ident = $at:expr),*)?) => {
        asm!(
            apart!($first,),
            $second,
            "/* {line} */",
            $($($name = in(reg) $at,)*)?
            line = in(reg) 64_usize,
            options(nostack, preserves_flags),
        )
    };
}

/// `scores[position][query]` of 64 positions and 16 queries, above a start for every query. Queries and keys come as a
/// rounded part and what it leaves: the products of the two rests are too small to matter.
pub struct Scores {
    /// A right tile for every 32 values, of both parts.
    pub queries: [*const u8; 2],
    /// Four times a left tile for every 32 values, of both parts.
    pub keys: [*const u8; 2],
    /// One number for each query.
    pub start: *const f32,
    /// 64 rows of 16.
    pub scores: *mut f32,
}

impl Scores {
    /// How often other work is done for every 32 values.
    pub const PARTS: usize = 11;

    /// Heads of `steps` times 32 values. `between` is other work, which the matrix unit does not wait for. Queries, keys and
    /// values do not go through the L1: scores, weights and results stay there.
    ///
    /// # Safety
    /// Tiles and rows are there, and `between` uses none of them. The machine has AMX.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    pub unsafe fn run(self, _: &Tiles, steps: usize, between: &mut impl FnMut()) {
        let ([mut q, mut q_rest], [mut k, mut k_rest]) = (self.queries, self.keys);
        let of = |keys: *const u8, tile: usize| keys.wrapping_add(tile * steps * TILE_BYTES);
        // Products that add to the same sums are kept apart: each takes three times as long as the next may follow.
        // SAFETY: the caller's promise; no other code uses tile registers.
        unsafe {
            asm!(
                apart!(
                    "tileloadd tmm0, [{start} + {none}*1]",
                    "tileloadd tmm1, [{start} + {none}*1]",
                    "tileloadd tmm2, [{start} + {none}*1]",
                    "tileloadd tmm3, [{start} + {none}*1]",
                ),
                start = in(reg) self.start,
                none = in(reg) 0_usize,
                options(nostack, readonly, preserves_flags),
            );
            for _ in 0..steps {
                tiles!("tileloaddt1 tmm4, [{q} + {line}*1]", "tileloaddt1 tmm6, [{k} + {line}*1]"; q = q, k = k);
                between();
                tiles!("tileloaddt1 tmm7, [{k} + {line}*1]", "tdpbf16ps tmm0, tmm6, tmm4"; k = of(k, 1));
                between();
                tiles!("tileloaddt1 tmm5, [{q} + {line}*1]", "tdpbf16ps tmm1, tmm7, tmm4"; q = q_rest);
                between();
                tiles!("tdpbf16ps tmm0, tmm6, tmm5", "tileloaddt1 tmm6, [{k} + {line}*1]"; k = of(k, 2));
                between();
                tiles!("tdpbf16ps tmm1, tmm7, tmm5", "tileloaddt1 tmm7, [{k} + {line}*1]"; k = of(k, 3));
                between();
                tiles!("tdpbf16ps tmm2, tmm6, tmm4", "tdpbf16ps tmm3, tmm7, tmm4");
                between();
                tiles!("tdpbf16ps tmm2, tmm6, tmm5", "tileloaddt1 tmm6, [{k} + {line}*1]"; k = k_rest);
                between();
                tiles!("tdpbf16ps tmm3, tmm7, tmm5", "tileloaddt1 tmm7, [{k} + {line}*1]"; k = of(k_rest, 1));
                between();
                tiles!("tdpbf16ps tmm0, tmm6, tmm4", "tileloaddt1 tmm6, [{k} + {line}*1]"; k = of(k_rest, 2));
                between();
                tiles!("tdpbf16ps tmm1, tmm7, tmm4", "tileloaddt1 tmm7, [{k} + {line}*1]"; k = of(k_rest, 3));
                between();
                tiles!("tdpbf16ps tmm2, tmm6, tmm4", "tdpbf16ps tmm3, tmm7, tmm4");
                between();
                [q, q_rest, k, k_rest] = [q, q_rest, k, k_rest].map(|tiles| tiles.wrapping_add(TILE_BYTES));
            }
            tiles!("tilestored [{to} + {line}*1], tmm0", "tilestored [{to} + {line}*1 + 1024], tmm1"; to = self.scores);
            tiles!("tilestored [{to} + {line}*1 + 2048], tmm2", "tilestored [{to} + {line}*1 + 3072], tmm3"; to = self.scores);
        }
    }
}

/// `results[value][query] += values[position][value] * weights[position][query]` of 16 queries and 64 positions.
pub struct Mix {
    /// Two right tiles.
    pub weights: *const u8,
    /// Two left tiles for every 16 values.
    pub values: *const u8,
    /// A row of 16 for every value.
    pub results: *mut f32,
}

impl Mix {
    /// How often other work is done for every 32 values.
    pub const PARTS: usize = 5;

    /// As [`Scores::run`].
    ///
    /// # Safety
    /// As [`Scores::run`].
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    pub unsafe fn run(self, _: &Tiles, steps: usize, between: &mut impl FnMut()) {
        let (mut v, mut y) = (self.values, self.results);
        // SAFETY: the caller's promise; no other code uses tile registers.
        unsafe {
            tiles!("tileloadd tmm4, [{w} + {line}*1]", "tileloadd tmm5, [{w} + {line}*1 + 1024]"; w = self.weights);
            for _ in 0..steps {
                tiles!("tileloadd tmm0, [{y} + {line}*1]", "tileloaddt1 tmm6, [{v} + {line}*1]"; y = y, v = v);
                between();
                tiles!("tdpbf16ps tmm0, tmm6, tmm4", "tileloadd tmm1, [{y} + {line}*1 + 1024]"; y = y);
                between();
                tiles!("tileloaddt1 tmm7, [{v} + {line}*1 + 2048]", "tdpbf16ps tmm1, tmm7, tmm4"; v = v);
                between();
                tiles!("tileloaddt1 tmm6, [{v} + {line}*1 + 1024]", "tdpbf16ps tmm0, tmm6, tmm5"; v = v);
                between();
                tiles!("tileloaddt1 tmm7, [{v} + {line}*1 + 3072]", "tdpbf16ps tmm1, tmm7, tmm5"; v = v);
                between();
                tiles!("tilestored [{y} + {line}*1], tmm0", "tilestored [{y} + {line}*1 + 1024], tmm1"; y = y);
                y = y.wrapping_byte_add(2 * TILE_BYTES);
                v = v.wrapping_add(4 * TILE_BYTES);
            }
        }
    }
}

/// Tiles for products of bytes: 16 left rows of `values`, and on the right rows of 16 quads, which follow one another in a
/// column.
const fn byte_shape(values: u8) -> Shape {
    let (left, right) = (values as u16, values / 4);
    Shape {
        row_bytes: [64, 64, 0, 0, left, left, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        rows: [16, 16, 0, 0, 16, 16, right, right, 0, 0, 0, 0, 0, 0, 0, 0],
        ..SHAPE
    }
}

static BYTE_SHAPES: [Shape; 2] = [byte_shape(16), byte_shape(32)];

/// The right to use tiles of bytes on this thread, until it is dropped: two sets of a left, a right one and their sums.
pub struct ByteTiles(Tiles);

/// Tile instructions of set `TURN`.
macro_rules! in_turn {
    ($first:literal, $second:literal $(, $($operands:tt)*)?) => {
        if TURN == 0 {
            asm!($first, $($($operands)*,)? options(nostack, preserves_flags))
        } else {
            asm!($second, $($($operands)*,)? options(nostack, preserves_flags))
        }
    };
}

impl ByteTiles {
    /// For products over 16 or 32 values.
    ///
    /// # Safety
    /// As [`Tiles::configure`].
    #[inline]
    pub unsafe fn configure(values: usize) -> Self {
        // SAFETY: the same contract.
        ByteTiles(unsafe { Tiles::of(&BYTE_SHAPES[usize::from(values == 32)]) })
    }

    /// Loads 16 rows of signed bytes, `stride` apart.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    pub unsafe fn left<const TURN: usize>(&self, rows: *const u8, stride: usize) {
        // SAFETY: the caller's promise; no other code uses tile registers.
        unsafe {
            in_turn!("tileloadd tmm4, [{x} + {s}*1]", "tileloadd tmm5, [{x} + {s}*1]", x = in(reg) rows, s = in(reg) stride)
        }
    }

    /// Loads rows of 16 quads of signed bytes, which lie together, and sets the sums to 0.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    pub unsafe fn right<const TURN: usize>(&self, quads: *const u8) {
        // SAFETY: the caller's promise; no other code uses tile registers.
        unsafe {
            in_turn!("tilezero tmm0\ntileloadd tmm6, [{w} + {s}*1]", "tilezero tmm1\ntileloadd tmm7, [{w} + {s}*1]", w = in(reg) quads, s = in(reg) 64_usize);
        }
    }

    /// Multiplies what was loaded.
    ///
    /// # Safety
    /// The machine has AMX.
    #[inline(always)]
    pub unsafe fn multiply<const TURN: usize>(&self) {
        // SAFETY: no other code uses tile registers.
        unsafe { in_turn!("tdpbssd tmm0, tmm4, tmm6", "tdpbssd tmm1, tmm5, tmm7") }
    }

    /// Stores 16 rows of 16 sums.
    ///
    /// # Safety
    /// There is room for them.
    #[inline(always)]
    pub unsafe fn store<const TURN: usize>(&self, sums: *mut i32) {
        // SAFETY: the caller's promise; no other code uses tile registers.
        unsafe {
            in_turn!("tilestored [{c} + {s}*1], tmm0", "tilestored [{c} + {s}*1], tmm1", c = in(reg) sums, s = in(reg) 64_usize)
        }
    }
}

/// `sums[column / 16][row][column % 16]` of 16 rows and 32 columns over 32 values, all of them signed bytes.
pub struct ByteSums {
    /// 16 rows of 32 bytes, `stride` apart.
    pub left: *const u8,
    pub stride: usize,
    /// Two tiles of 512 bytes.
    pub right: *const u8,
    /// Twice 16 rows of 16.
    pub sums: *mut i32,
}

impl ByteSums {
    /// How often other work is done.
    pub const PARTS: usize = 8;

    /// As [`Scores::run`].
    ///
    /// # Safety
    /// As [`Scores::run`].
    #[inline]
    #[target_feature(enable = "avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub unsafe fn run(self, _: &ByteTiles, between: &mut impl FnMut()) {
        let Self { left, stride, right, sums } = self;
        // SAFETY: the caller's promise; no other code uses tile registers.
        unsafe {
            asm!("tilezero tmm0", "tileloadd tmm4, [{x} + {s}*1]", x = in(reg) left, s = in(reg) stride, options(nostack, readonly, preserves_flags));
            between();
            asm!("tilezero tmm1", "tileloadd tmm6, [{w} + {line}*1]", w = in(reg) right, line = in(reg) 64_usize, options(nostack, readonly, preserves_flags));
            between();
            asm!("tdpbssd tmm0, tmm4, tmm6", options(nomem, nostack, preserves_flags));
            between();
            asm!("tileloadd tmm7, [{w} + {line}*1 + 512]", w = in(reg) right, line = in(reg) 64_usize, options(nostack, readonly, preserves_flags));
            between();
            asm!("tdpbssd tmm1, tmm4, tmm7", options(nomem, nostack, preserves_flags));
            between();
            between();
            asm!("tilestored [{to} + {line}*1], tmm0", to = in(reg) sums, line = in(reg) 64_usize, options(nostack, preserves_flags));
            between();
            between();
            asm!("tilestored [{to} + {line}*1 + 1024], tmm1", to = in(reg) sums, line = in(reg) 64_usize, options(nostack, preserves_flags));
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: tiles were configured; nothing in them is needed any more.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}

/// 16 registers of 16 lanes, transposed.
///
/// # Safety
/// Only where a caller has other features: then the machine must have these.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn transpose(v: [__m512; 16]) -> [__m512; 16] {
    // Pairs of rows, then fours: lane 4q + i of `fours[4g + c]` is row 4g + i of column 4q + c.
    let mut fours = [_mm512_setzero_ps(); 16];
    for g in 0..4 {
        let r = &v[4 * g..4 * g + 4];
        let (a, b) = (_mm512_unpacklo_ps(r[0], r[1]), _mm512_unpackhi_ps(r[0], r[1]));
        let (c, d) = (_mm512_unpacklo_ps(r[2], r[3]), _mm512_unpackhi_ps(r[2], r[3]));
        let join = |x, y, high: bool| {
            let (x, y) = (_mm512_castps_pd(x), _mm512_castps_pd(y));
            _mm512_castpd_ps(if high { _mm512_unpackhi_pd(x, y) } else { _mm512_unpacklo_pd(x, y) })
        };
        fours[4 * g] = join(a, c, false);
        fours[4 * g + 1] = join(a, c, true);
        fours[4 * g + 2] = join(b, d, false);
        fours[4 * g + 3] = join(b, d, true);
    }
    let mut out = [_mm512_setzero_ps(); 16];
    for c in 0..4 {
        let (p, q, r, s) = (fours[c], fours[4 + c], fours[8 + c], fours[12 + c]);
        let (pq, rs) = (_mm512_shuffle_f32x4::<0x88>(p, q), _mm512_shuffle_f32x4::<0x88>(r, s));
        out[c] = _mm512_shuffle_f32x4::<0x88>(pq, rs);
        out[8 + c] = _mm512_shuffle_f32x4::<0xdd>(pq, rs);
        let (pq, rs) = (_mm512_shuffle_f32x4::<0xdd>(p, q), _mm512_shuffle_f32x4::<0xdd>(r, s));
        out[4 + c] = _mm512_shuffle_f32x4::<0x88>(pq, rs);
        out[12 + c] = _mm512_shuffle_f32x4::<0xdd>(pq, rs);
    }
    out
}
