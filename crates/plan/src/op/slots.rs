//! Operand slots by op, as indices into `Op::args` and `Record::args`.

pub mod embed {
    pub const TABLE: usize = 0;
    pub const Y: usize = 1;
}
pub mod rope_angles {
    pub const FREQUENCIES: usize = 0;
    pub const Y: usize = 1;
}
pub mod norm {
    pub const X: usize = 0;
    pub const Y: usize = 1;
    pub const WEIGHT: usize = 2;
    pub const BIAS: usize = 3;
    pub const RESIDUAL: usize = 4;
}
pub mod convert {
    pub const X: usize = 0;
    pub const Y: usize = 1;
}
pub mod matmul {
    pub const X: usize = 0;
    pub const Y: usize = 1;
    pub const W: usize = 2;
    pub const BIAS: usize = 3;
    pub const RESIDUAL: usize = 4;
    pub const MAXIMA: usize = 5;
}
pub mod gated {
    pub const X: usize = 0;
    pub const Y: usize = 1;
    pub const W: usize = 2;
    pub const U: usize = 3;
}
pub mod matmul_heads {
    pub const X: usize = 0;
    pub const Y: usize = 1;
    pub const W: usize = 2;
    pub const BIAS: usize = 3;
    pub const ANGLES: usize = 4;
    pub const NORM: usize = 5;
    pub const KV: usize = 6;
}
pub mod gated_activation {
    pub const X: usize = 0;
    pub const Y: usize = 1;
    pub const U: usize = 2;
}
pub mod add {
    pub const A: usize = 0;
    pub const Y: usize = 1;
    pub const B: usize = 2;
}
pub mod heads {
    pub const Q: usize = 0;
    pub const K: usize = 1;
    pub const V: usize = 2;
    pub const ANGLES: usize = 3;
    pub const Q_NORM: usize = 4;
    pub const K_NORM: usize = 5;
    pub const KV: usize = 6;
}
pub mod head {
    pub const X: usize = 0;
    pub const ANGLES: usize = 1;
    pub const NORM: usize = 2;
}
pub mod attention {
    pub const Q: usize = 0;
    pub const Y: usize = 1;
    pub const KV: usize = 2;
    pub const K: usize = 3;
    pub const V: usize = 4;
}
/// `GatherRows` and `MeanRows`.
pub mod gather {
    pub const X: usize = 0;
    pub const Y: usize = 1;
}
pub mod unfold {
    pub const X: usize = 0;
    pub const Y: usize = 1;
}
pub mod weights {
    pub const Q: usize = 0;
    pub const Y: usize = 1;
    pub const KV: usize = 2;
}
pub mod suppress {
    pub const X: usize = 0;
    pub const MAXIMA: usize = 1;
    pub const TOTAL: usize = 2;
}
pub mod sample {
    pub const X: usize = 0;
    pub const Y: usize = 1;
}
pub mod advance {
    pub const X: usize = 0;
    pub const MAXIMA: usize = 1;
    pub const DRAWN: usize = 2;
    pub const TOTAL: usize = 3;
}
