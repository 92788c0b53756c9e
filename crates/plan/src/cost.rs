//! What an op costs: bytes that must move and operations that must happen, from shapes alone.

use crate::op::*;
use crate::program::*;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub bytes: u64,
    pub flops: u64,
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), |a, b| Cost { bytes: a.bytes + b.bytes, flops: a.flops + b.flops })
    }
}

impl Program {
    /// The cost of one op for `rows` rows (or outputs) whose sequences are `depth` positions long.
    pub fn cost(&self, op: &Op, rows: usize, depth: usize) -> Cost {
        let rows = rows as u64;
        let mut bytes = 0;
        for arg in op.args {
            bytes += match arg {
                Arg::Buffer(id) => {
                    let b = self.buffer(id);
                    rows * match b.layout {
                        ActivationLayout::F32 => b.width as u64 * 4,
                        ActivationLayout::Q8 => akunu_dtype::q8::row_bytes(b.width) as u64,
                        ActivationLayout::Bf16 => akunu_dtype::tiles::row_bytes(b.width) as u64,
                    }
                }
                Arg::Weight(_) if op.kind == OpKind::Embed => 0,
                Arg::Weight(id) => self.weight(id).bytes() as u64,
                Arg::Vector(v) => u64::from(v.len) * 4,
                Arg::None | Arg::Kv(_) => 0,
            };
        }
        let flops = match op.params {
            Params::MatMul(p) => {
                let products = if op.kind == OpKind::MatMulGated { 2 } else { 1 };
                rows * products * 2 * u64::from(p.n) * u64::from(p.k)
            }
            Params::MatMulHeads(p) => {
                if op.args[slots::matmul_heads::KV] != Arg::None {
                    bytes += rows * u64::from(p.head.heads) * u64::from(p.kv.row_bytes);
                }
                rows * u64::from(p.product.n) * (2 * u64::from(p.product.k) + 6)
            }
            Params::Attention(p) => {
                let seen = if p.window == 0 { depth + 1 } else { (depth + 1).min(p.window as usize) } as u64;
                if op.args[slots::attention::KV] != Arg::None {
                    bytes += rows * 2 * u64::from(p.kv_heads) * seen * u64::from(p.kv.row_bytes);
                }
                rows * 4 * u64::from(p.heads) * u64::from(p.head_dim) * seen
            }
            Params::Heads(p) => {
                bytes += rows * 2 * u64::from(p.kv_heads) * u64::from(p.kv.row_bytes);
                rows * 6 * u64::from((p.heads + p.kv_heads) * p.head_dim)
            }
            Params::Head(p) => rows * 6 * u64::from(p.heads * p.head_dim),
            Params::Embed(p) => {
                bytes += rows * u64::from(p.row_bytes + 2 * p.side_bytes);
                rows * u64::from(p.dim)
            }
            Params::Norm(p) => rows * 4 * u64::from(p.dim),
            Params::Element(p) => rows * 2 * u64::from(p.dim),
            Params::RopeAngles(p) => rows * 2 * u64::from(p.pairs),
            Params::Unfold(_) => 0,
            Params::AttentionWeights(p) => {
                let a = p.attention;
                bytes += u64::from(p.positions) * u64::from(a.kv.row_bytes);
                rows * 2 * u64::from(a.head_dim) * u64::from(p.positions)
            }
            Params::Token(p) => rows * u64::from(p.n),
        };
        Cost { bytes, flops }
    }
}
