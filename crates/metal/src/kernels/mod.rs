//! The kernel table: a row for every kernel and format, one file per category.
//!
//! A row says which records its kernel serves and how it is dispatched for one. `bind` takes the first row that serves; the rows
//! of a category stand in the order of preference. See `docs/adding-a-kernel.md`.

mod activation;
mod attention;
mod common;
mod conv;
mod convert;
mod embedding;
mod fused;
mod kv_cache;
mod matmul;
mod norm;
mod rope;
mod sampling;
mod weights;

pub use convert::ConvertParams;
pub use weights::constants;

use crate::chip::Chip;
use crate::dispatch::Dispatch;
use crate::params::Layout;
use crate::shaders::Sources;
use akunu_dtype::DType;
use akunu_plan::op::OpKind;
use akunu_plan::record::{Addr, Record};
use std::sync::OnceLock;

/// What one category has.
pub struct Category {
    pub name: &'static str,
    pub sources: Sources,
    pub rows: fn() -> Vec<KernelRow>,
    pub layouts: fn() -> Vec<Layout>,
}

/// All of them, in the order of their rows in the table.
pub static CATEGORIES: &[Category] = &[
    activation::CATEGORY,
    attention::CATEGORY,
    common::CATEGORY,
    conv::CATEGORY,
    convert::CATEGORY,
    embedding::CATEGORY,
    fused::CATEGORY,
    kv_cache::CATEGORY,
    matmul::CATEGORY,
    norm::CATEGORY,
    rope::CATEGORY,
    sampling::CATEGORY,
];

/// One row of the kernel table.
pub struct KernelRow {
    /// The function in the shaders, or the first of several.
    pub name: String,
    /// Its source, below `shaders`.
    pub source: &'static str,
    /// `None`: no op of programs is run by it.
    pub op: Option<OpKind>,
    /// The number format of its weights or of the KV cache, by the name that shaders have for it.
    pub format: Option<&'static str>,
    /// Whether the kernel can run the record: its flags, formats and shapes, on this chip.
    pub serves: fn(&Record, &Chip) -> bool,
    pub encode: fn(&Record, &Target<'_>) -> Vec<Dispatch>,
    /// Threads and threadgroups, and what chooses it, in words, for the catalogue.
    pub geometry: &'static str,
    pub chosen: &'static str,
}

/// What a record is encoded for.
pub struct Target<'t> {
    pub chip: &'t Chip,
    pub row: &'t KernelRow,
}

impl KernelRow {
    pub fn offers(&self, record: &Record, chip: &Chip) -> bool {
        let formats = || format_of(record).is_some_and(|format| Some(format) == self.format);
        self.op.is_some()
            && record.kind() == self.op
            && (self.format.is_none() || formats())
            && (self.serves)(record, chip)
    }

    pub fn encode(&self, record: &Record, chip: &Chip) -> Vec<Dispatch> {
        (self.encode)(record, &Target { chip, row: self })
    }
}

/// A row whose name is known when the program is compiled.
pub(crate) struct Plain {
    pub name: &'static str,
    pub source: &'static str,
    pub op: Option<OpKind>,
    pub serves: fn(&Record, &Chip) -> bool,
    pub encode: fn(&Record, &Target<'_>) -> Vec<Dispatch>,
    pub geometry: &'static str,
    pub chosen: &'static str,
}

impl Plain {
    fn row(&self) -> KernelRow {
        let Plain { name, source, op, serves, encode, geometry, chosen } = *self;
        KernelRow { name: name.into(), source, op, format: None, serves, encode, geometry, chosen }
    }

    /// A row for every number format.
    fn rows(&self) -> impl Iterator<Item = KernelRow> {
        crate::formats::FORMATS.iter().map(|(suffix, _)| KernelRow {
            name: format!("{}_{suffix}", self.name),
            format: Some(suffix),
            ..self.row()
        })
    }
}

/// What shaders call a number format: MLX formats of all groups and scales are one for each width.
pub fn suffix(dtype: DType) -> String {
    let format = dtype.format();
    match format.side {
        Some(_) => format!("mlx{}", format.bytes * 8 / format.block),
        None => format.name.to_lowercase(),
    }
}

/// The number format of a record's weights.
fn weight_dtype(record: &Record) -> Option<DType> {
    use akunu_plan::op::*;
    let dtype = match record.kind()? {
        OpKind::Embed => record.params::<EmbedParams>().dtype,
        OpKind::MatMul | OpKind::MatMulGated => record.params::<MatMulParams>().dtype,
        OpKind::MatMulHeads => record.params::<MatMulHeadsParams>().product.dtype,
        _ => return None,
    };
    DType::from_index(u8::try_from(dtype).ok()?)
}

/// That of the KV cache, where a record uses one and no weights.
fn kv_dtype(record: &Record) -> Option<DType> {
    use akunu_plan::op::*;
    let dtype = match record.kind()? {
        OpKind::HeadNormRopeKvWrite => record.params::<HeadsParams>().kv.dtype,
        OpKind::Attention => record.params::<AttentionParams>().kv.dtype,
        OpKind::AttentionWeights => record.params::<AttentionWeightsParams>().attention.kv.dtype,
        _ => return None,
    };
    DType::from_index(u8::try_from(dtype).ok()?)
}

/// The format that rows of the table are chosen by.
fn format_of(record: &Record) -> Option<&'static str> {
    let name = suffix(weight_dtype(record).or_else(|| kv_dtype(record))?);
    crate::formats::FORMATS.iter().map(|(suffix, _)| *suffix).find(|suffix| *suffix == name)
}

/// Where a record's weights lie, all planes, and what their addresses must be multiples of: kernels read blocks in words as long as
/// all blocks begin at multiples of them.
pub(crate) fn weights(record: &Record) -> impl Iterator<Item = (Addr, usize)> {
    let format = weight_dtype(record).map(DType::format);
    let word = |bytes: usize| [4, 2].into_iter().find(|word| bytes.is_multiple_of(*word)).unwrap_or(1);
    let data = format.map_or(1, |f| word(f.bytes));
    let side = format.and_then(|f| f.side).map_or(1, |side| word(side.format().bytes));
    let of_file = |at: &Addr| at.region().file_index().is_some();
    let blocks = record.args.into_iter().filter(of_file).map(move |at| (at, data));
    let planes = record.planes.into_iter().filter(of_file).map(move |at| (at, side));
    blocks.chain(planes)
}

/// All rows.
pub fn table() -> &'static [KernelRow] {
    static TABLE: OnceLock<Vec<KernelRow>> = OnceLock::new();
    TABLE.get_or_init(|| CATEGORIES.iter().flat_map(|category| (category.rows)()).collect())
}

/// The row that runs a record on a chip.
pub fn choose(record: &Record, chip: &Chip) -> Option<u32> {
    table().iter().position(|row| row.offers(record, chip)).map(|index| index as u32)
}

/// The parameter structs of all kernels, for the header.
pub(crate) fn layouts() -> Vec<Layout> {
    CATEGORIES.iter().flat_map(|category| (category.layouts)()).collect()
}
