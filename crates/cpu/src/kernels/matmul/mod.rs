//! Matrix products: what is around the dot products of `akunu_gemm`.

#[cfg(target_arch = "x86_64")]
pub mod amx;
mod product;

use crate::kernels::KernelRow;
use crate::packed;
use akunu_dtype::DType;
#[cfg(target_arch = "x86_64")]
use akunu_gemm::bf16_panel::PanelFn;
use akunu_gemm::gemm::GemmFn;
use akunu_gemm::table::{Act, KERNELS};
use akunu_plan::op::MatMulParams;
#[cfg(target_arch = "x86_64")]
use akunu_plan::record::X_IS_BF16;
use akunu_plan::record::{Record, X_IS_Q8, X_LAYOUT};

/// The inner part of a matrix product's table row.
#[derive(Clone, Copy)]
pub struct Inner {
    /// The weight format, or `None` for every format that goes with `act`.
    pub dtype: Option<DType>,
    /// The layout of the activations: bits of `X_LAYOUT`.
    pub form: u32,
    /// How the weights lie in memory.
    pub weight_layout: u32,
    pub run: InnerFn,
}

/// What depends on the weight format.
#[derive(Clone, Copy)]
pub enum InnerFn {
    /// Dot products straight from the weights.
    Gemm(GemmFn),
    /// Weights to bf16, for tiles.
    #[cfg(target_arch = "x86_64")]
    Bf16Panel(PanelFn),
}

impl Inner {
    /// Whether it multiplies this record's weights with its activations.
    pub fn serves(&self, record: &Record) -> bool {
        let Some(dtype) = DType::from_index(record.params::<MatMulParams>().dtype as u8) else { return false };
        self.form == record.flags & X_LAYOUT
            && self.weight_layout == record.weight_layout
            && self.dtype.unwrap_or(dtype) == dtype
            && (self.form != X_IS_Q8 || dtype.is_quantized())
    }
}

/// Output columns that stay together: whole int8 blocks, and more than one cache line of f32.
pub const GRAIN: usize = 32;

/// A product around every row of the dot-product table, at its level and above: the epilogue
/// uses what the machine has even where the dot products do not.
pub(super) fn rows() -> impl Iterator<Item = KernelRow> {
    let dots = product::products().flat_map(|product| {
        KERNELS.iter().filter(|dots| product::goes_around(product, dots.level)).map(move |dots| KernelRow {
            name: format!("{} {} {}", product.name, product.level, dots.name),
            op: product.op,
            level: product.level.max(dots.level),
            serves: product.serves,
            preference: (dots.level, dots.dtype.is_some()),
            inner: Some(Inner {
                dtype: dots.dtype,
                form: if dots.act == Act::Q8 { X_IS_Q8 } else { 0 },
                weight_layout: packed::layout(dots.packed),
                run: InnerFn::Gemm(dots.run),
            }),
            run: product.run,
        })
    });
    #[cfg(target_arch = "x86_64")]
    let dots = dots.chain(tiles());
    dots
}

/// The products on tiles.
#[cfg(target_arch = "x86_64")]
fn tiles() -> impl Iterator<Item = KernelRow> {
    use crate::kernels::Kernel;
    use crate::kernels::kv_cache::product as heads;
    use crate::level::Level;
    use akunu_plan::op::OpKind;
    type Serves = fn(&Record) -> bool;
    let products: [(&str, OpKind, Serves, Kernel); 3] = [
        ("matmul", OpKind::MatMul, product::serves, amx::matmul),
        ("matmul_gated", OpKind::MatMulGated, product::serves, amx::matmul_gated),
        ("matmul_heads", OpKind::MatMulHeads, heads::serves, amx::matmul_heads),
    ];
    products.into_iter().flat_map(|(name, op, serves, run)| {
        akunu_gemm::table::PANELS.iter().map(move |strip| KernelRow {
            name: format!("{name} amx {}", strip.name),
            op,
            level: Level::Amx,
            serves,
            preference: (Level::Amx, strip.dtype.is_some()),
            inner: Some(Inner {
                dtype: strip.dtype,
                form: X_IS_BF16,
                weight_layout: packed::layout(strip.packed),
                run: InnerFn::Bf16Panel(strip.run),
            }),
            run,
        })
    })
}
