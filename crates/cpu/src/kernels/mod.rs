//! Kernels, one folder per category, and the table that `bind` chooses from.
//!
//! A kernel body is written once over [`crate::simd::Simd`]; `levels` makes one table row of it
//! per level. See `docs/adding-a-kernel.md`.

mod activation;
#[doc(hidden)]
pub mod attention;
mod common;
mod conv;
mod convert;
mod embedding;
mod kv_cache;
pub mod matmul;
mod norm;
mod rope;
mod sampling;

pub use attention::LONG;

use crate::context::Context;
use crate::level::Level;
use crate::share::Share;
#[cfg(target_arch = "x86_64")]
use akunu_gemm::bf16_panel::PanelFn;
use akunu_gemm::gemm::GemmFn;
use akunu_plan::op::OpKind;
use akunu_plan::record::Record;
use matmul::InnerFn;
use std::cmp::Reverse;
use std::sync::OnceLock;

/// One worker's part of one record.
///
/// # Safety
/// The context was made for records checked against its memory, this record among them; the
/// machine has the row's level; and every share of the record's kernel runs once in a step, before what depends on it and before the
/// next step.
pub type Kernel = unsafe fn(&Record, &Context<'_>, Share);

/// One row of the kernel table.
pub struct KernelRow {
    pub name: String,
    pub op: OpKind,
    pub level: Level,
    /// Whether the kernel can run the record: its flags, dtypes and shapes.
    pub serves: fn(&Record) -> bool,
    /// Among rows of one level the larger wins: the inner product's level, and whether it was
    /// written for the weight format.
    pub preference: (Level, bool),
    /// The formats the inner product of a matrix product serves; `None`: no such inner product.
    pub inner: Option<matmul::Inner>,
    pub run: Kernel,
}

impl KernelRow {
    /// Whether the row runs this record at this level.
    pub fn offers(&self, record: &Record, level: Level) -> bool {
        record.kind() == Some(self.op)
            && level.has(self.level)
            && (self.serves)(record)
            && self.inner.as_ref().is_none_or(|inner| inner.serves(record))
    }

    /// The dot products of a matrix product's row.
    pub fn gemm(&self) -> Option<GemmFn> {
        match self.inner.as_ref()?.run {
            InnerFn::Gemm(run) => Some(run),
            #[cfg(target_arch = "x86_64")]
            InnerFn::Bf16Panel(_) => None,
        }
    }

    /// The unpacking of weights to tiles of a matrix product's row.
    #[cfg(target_arch = "x86_64")]
    pub fn panel(&self) -> Option<PanelFn> {
        match self.inner.as_ref()?.run {
            InnerFn::Bf16Panel(run) => Some(run),
            InnerFn::Gemm(_) => None,
        }
    }
}

/// A row whose name is known when the program is compiled.
pub(crate) struct LeveledRow {
    pub name: &'static str,
    pub op: OpKind,
    pub level: Level,
    pub serves: fn(&Record) -> bool,
    pub run: Kernel,
}

/// The rows of one kernel body at every level: `levels!("norm", OpKind::Norm, serves, body)` is an
/// array of [`LeveledRow`] whose functions are `body` compiled with the level's instructions.
/// `body` is `unsafe fn<S: Simd>(S, &Record, &Context, Share)` and `inline(always)`.
macro_rules! levels {
    ($name:literal, $op:expr, $serves:expr, $body:path) => {{
        use crate::kernels::LeveledRow;
        use crate::level::Level;
        use crate::simd::Simd;

        unsafe fn generic(
            record: &akunu_plan::record::Record,
            context: &crate::context::Context<'_>,
            share: crate::share::Share,
        ) {
            let Some(s) = crate::simd::Generic::detect() else { return };
            // SAFETY: the caller's promise.
            unsafe { $body(s, record, context, share) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn avx2(
            record: &akunu_plan::record::Record,
            context: &crate::context::Context<'_>,
            share: crate::share::Share,
        ) {
            let Some(s) = crate::simd::Avx2::detect() else { return };
            // SAFETY: the caller's promise.
            unsafe { $body(s, record, context, share) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
        unsafe fn avx512(
            record: &akunu_plan::record::Record,
            context: &crate::context::Context<'_>,
            share: crate::share::Share,
        ) {
            let Some(s) = crate::simd::Avx512::detect() else { return };
            // SAFETY: the caller's promise.
            unsafe { $body(s, record, context, share) }
        }

        #[cfg(target_arch = "aarch64")]
        #[target_feature(enable = "neon")]
        unsafe fn neon(
            record: &akunu_plan::record::Record,
            context: &crate::context::Context<'_>,
            share: crate::share::Share,
        ) {
            let Some(s) = crate::simd::Neon::detect() else { return };
            // SAFETY: the caller's promise.
            unsafe { $body(s, record, context, share) }
        }

        &[
            LeveledRow { name: $name, op: $op, level: Level::Generic, serves: $serves, run: generic },
            #[cfg(target_arch = "x86_64")]
            LeveledRow { name: $name, op: $op, level: Level::Avx2, serves: $serves, run: avx2 },
            #[cfg(target_arch = "x86_64")]
            LeveledRow { name: $name, op: $op, level: Level::Avx512Bw, serves: $serves, run: avx512 },
            #[cfg(target_arch = "aarch64")]
            LeveledRow { name: $name, op: $op, level: Level::Neon, serves: $serves, run: neon },
        ]
    }};
}
pub(crate) use levels;

/// The kernel table. A record names its row by index; the order is that of this build.
///
/// Nothing that a static begins with names a kernel: statics are compiled wherever the crate is, and so would be all kernels, for
/// unit tests that use none.
pub fn table() -> &'static [KernelRow] {
    static TABLE: OnceLock<Vec<KernelRow>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let categories: &[&[&[LeveledRow]]] = &[
            &[embedding::EMBED],
            &[rope::ANGLES],
            &[norm::NORM],
            &[convert::CONVERT],
            &[activation::GATED],
            &[common::ADD, common::GATHER_ROWS, common::MEAN_ROWS],
            &[kv_cache::HEADS, kv_cache::HEAD],
            &[attention::ATTENTION],
            #[cfg(target_arch = "x86_64")]
            &[attention::tiled::TILED],
            &[attention::weights::F16, attention::weights::ANY],
            &[conv::UNFOLD],
            &[sampling::SUPPRESS, sampling::SAMPLE, sampling::ADVANCE],
        ];
        let leveled = categories.iter().copied().flatten().copied().flatten().map(|row| KernelRow {
            name: format!("{} {}", row.name, row.level),
            op: row.op,
            level: row.level,
            serves: row.serves,
            preference: (row.level, false),
            inner: None,
            run: row.run,
        });
        leveled.chain(matmul::rows()).collect()
    })
}

/// The best row for a record at a level: the highest level, then the preferred, then the first.
pub fn choose(record: &Record, level: Level) -> Option<u32> {
    /// The rows of every op, the best first.
    static BEST: OnceLock<Vec<Vec<u32>>> = OnceLock::new();
    let best = BEST.get_or_init(|| {
        let mut best: Vec<Vec<u32>> = Vec::new();
        for (index, row) in table().iter().enumerate() {
            let op = row.op as usize;
            best.resize_with(best.len().max(op + 1), Vec::new);
            best[op].push(index as u32);
        }
        for rows in &mut best {
            rows.sort_by_key(|&row| Reverse((table()[row as usize].level, table()[row as usize].preference)));
        }
        best
    });
    let rows = best.get(record.op as usize)?;
    rows.iter().copied().find(|&row| table()[row as usize].offers(record, level))
}
