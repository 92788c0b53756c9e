//! A rig for kernels of any backend: repeatable noise, and small programs of one op or a few.

use akunu_dtype::{DType, Planes, PlanesMut};
use akunu_plan::KvPool;
use akunu_plan::op::{Activation, MAX_SLOTS, MatMulParams, OpKind, Params, Per};
use akunu_plan::program::*;
use akunu_plan::record::{Addr, Region};
use akunu_plan::steps::StepLayout;

/// A small generator of repeatable noise.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// 0..n
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 16) as usize % n
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// -1..1
    pub fn value(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.value()).collect()
    }
}

/// A program under construction; buffers lie one after the other.
#[derive(Clone)]
pub struct Rig {
    pub program: Program,
    pub file: Vec<u8>,
    pub kv: Vec<KvPool>,
    pub layout: StepLayout,
    /// Whether weights begin where a GPU can read them; else at odd addresses.
    pub aligned: bool,
}

/// One weight matrix and what it means: `[rows][cols]`.
pub struct Matrix {
    pub arg: Arg,
    /// Of a product with it and nothing else.
    pub product: MatMulParams,
    pub values: Vec<f32>,
}

impl Rig {
    pub fn new(max_rows: usize, max_outputs: usize) -> Self {
        let program = Program {
            max_rows,
            max_outputs,
            activations: ActivationLayout::F32,
            may_round: false,
            buffers: Vec::new(),
            weights: Vec::new(),
            constants: Vec::new(),
            kv_groups: Vec::new(),
            ops: Vec::new(),
            input: None,
            logits: BufferId(0),
            arena_bytes: 0,
        };
        let layout = StepLayout { max_rows, max_outputs, groups: 1, sequences: 1, table_blocks: 1, max_chain: 64 };
        Self { program, file: Vec::new(), kv: Vec::new(), layout, aligned: false }
    }

    pub fn buffer(&mut self, per: Per, width: usize, layout: ActivationLayout) -> BufferId {
        let buffer = Buffer { name: "buffer", per, width, layout, offset: self.program.arena_bytes };
        self.program.arena_bytes += buffer.bytes(self.program.capacity(per));
        self.program.buffers.push(buffer);
        BufferId(self.program.buffers.len() as u32 - 1)
    }

    pub fn f32(&mut self, width: usize) -> BufferId {
        self.buffer(Per::Row, width, ActivationLayout::F32)
    }

    pub fn constant(&mut self, values: &[f32]) -> Arg {
        let constants = &mut self.program.constants;
        constants.resize(constants.len().next_multiple_of(16), f32::NAN);
        let vector = Vector { offset: constants.len() as u32, len: values.len() as u32 };
        constants.extend_from_slice(values);
        Arg::Vector(vector)
    }

    /// Random values in `dtype`; see [`Rig::aligned`].
    pub fn matrix(&mut self, noise: &mut Noise, dtype: DType, rows: usize, cols: usize) -> Matrix {
        let format = dtype.format();
        let encode = format.encode.expect("the tests use formats that can be written");
        let (row_bytes, side_bytes) = (dtype.row_bytes(cols).expect("whole blocks"), dtype.row_side_bytes(cols));
        let mut planes = [vec![0; rows * row_bytes], vec![0; rows * side_bytes], vec![0; rows * side_bytes]];
        let mut values = vec![0.0; rows * cols];
        for row in 0..rows {
            let [data, scales, biases] = &mut planes;
            let part = |plane: &mut Vec<u8>, bytes: usize| row * bytes..(row * bytes + bytes).min(plane.len());
            let (d, s, b) = (part(data, row_bytes), part(scales, side_bytes), part(biases, side_bytes));
            let source = noise.values(cols);
            let (data, scales, biases) = (&mut data[d], &mut scales[s], &mut biases[b]);
            encode(&source, PlanesMut { data, scales, biases });
            let planes = Planes { data, scales, biases };
            (format.decode)(planes, &mut values[row * cols..][..cols]);
        }
        let mut place = |bytes: &[u8]| {
            if bytes.is_empty() {
                return Addr::NONE;
            }
            let at = if self.aligned { self.file.len().next_multiple_of(32) } else { self.file.len() | 1 };
            self.file.resize(at, 0xAA);
            self.file.extend_from_slice(bytes);
            Addr::new(Region::file(0), at)
        };
        let [data, scales, biases] = [place(&planes[0]), place(&planes[1]), place(&planes[2])];
        self.program.weights.push(Weight { name: "weight".into(), dtype, rows, cols, data, scales, biases });
        let arg = Arg::Weight(WeightId(self.program.weights.len() as u32 - 1));
        let product = MatMulParams {
            n: rows as u32,
            k: cols as u32,
            dtype: dtype.index().into(),
            row_bytes: row_bytes as u32,
            side_bytes: side_bytes as u32,
            activation: Activation::None as u32,
            scale: 1.0,
            soft_cap: 0.0,
        };
        Matrix { arg, product, values }
    }

    pub fn op(&mut self, kind: OpKind, per: Per, args: &[Arg], params: Params) {
        let mut all = [Arg::None; MAX_SLOTS];
        all[..args.len()].copy_from_slice(args);
        self.program.ops.push(Op { kind, per, args: all, params, layer: None });
    }
}
