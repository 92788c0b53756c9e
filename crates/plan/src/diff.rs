//! `diff`: two executors side by side, op by op, and the first op whose output differs.

use crate::op::{Per, Use};
use crate::program::{Arg, BufferId, Program};
use crate::reference::Reference;

/// Something that can run a program one op at a time.
pub trait Stepper {
    fn run_op(&mut self, index: usize);
    /// `[rows][width]` of a buffer, as f32.
    fn read(&self, buffer: BufferId) -> Vec<f32>;
}

impl Stepper for Reference<'_> {
    fn run_op(&mut self, index: usize) {
        Reference::run_op(self, index);
    }

    fn read(&self, buffer: BufferId) -> Vec<f32> {
        self.buffer(buffer).to_vec()
    }
}

/// The first op whose results are too far apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub index: usize,
    pub op: &'static str,
    pub layer: Option<u32>,
    pub buffer: &'static str,
    /// ‖a − b‖ / ‖b‖ over the rows of the step.
    pub relative: f32,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { index, op, layer, buffer, relative } = self;
        write!(f, "op {index} ({op}")?;
        if let Some(layer) = layer {
            write!(f, ", layer {layer}")?;
        }
        write!(f, ") differs in {buffer:?} by {relative:.2e}")
    }
}

/// Runs one step of `a` and of `b`; both have their step variables set. `rows` and `outputs` are
/// the step's.
pub fn diff(
    program: &Program,
    a: &mut dyn Stepper,
    b: &mut dyn Stepper,
    (rows, outputs): (usize, usize),
    tolerance: f32,
) -> Option<Difference> {
    for (index, op) in program.ops.iter().enumerate() {
        a.run_op(index);
        b.run_op(index);
        for (arg, slot) in op.args.iter().zip(op.kind.spec().slots) {
            let (Arg::Buffer(id), Use::Write | Use::ReadWrite) = (arg, slot.used) else { continue };
            let buffer = program.buffer(*id);
            let count = buffer.width
                * match buffer.per {
                    Per::Row => rows,
                    Per::Output => outputs,
                    Per::Frame => 2 * rows,
                };
            let relative = relative(&a.read(*id)[..count], &b.read(*id)[..count]);
            if relative.is_nan() || relative > tolerance {
                let op_name = op.kind.spec().name;
                return Some(Difference { index, op: op_name, layer: op.layer, buffer: buffer.name, relative });
            }
        }
    }
    None
}

fn relative(a: &[f32], b: &[f32]) -> f32 {
    let square = |v: f64| v * v;
    let distance: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let size: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    (distance.sqrt() / size.sqrt().max(1e-12)) as f32
}
