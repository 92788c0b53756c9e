//! Weights on their way to tiles: what is multiplied at a time, and its weights, unpacked piece by piece while what came
//! before is multiplied.

use crate::kernels::matmul::product::Weights;
use crate::simd::tiles::STEP;
use akunu_dots::dots::Dots;
use akunu_dots::strip::{STRIP, Strip};
use akunu_dots::table::StripRow;
use akunu_plan::op::MatMulParams;

/// What a worker multiplies at a time: weight rows, which are columns of the result, activation rows, and values of both.
#[derive(Clone, Copy)]
pub struct Unit {
    pub n: usize,
    pub cols: usize,
    pub m: usize,
    pub rows: usize,
    pub k: usize,
    pub len: usize,
}

impl Unit {
    pub fn steps(&self) -> usize {
        self.len.div_ceil(STEP)
    }

    /// Strips of each weight operand.
    pub fn strips(&self) -> usize {
        self.cols.div_ceil(STRIP)
    }
}

/// The weights of a worker's units.
#[derive(Clone, Copy)]
pub struct Strips<'a, const N: usize> {
    pub row: &'static StripRow,
    pub params: &'a MatMulParams,
    pub weights: [Weights; N],
    /// Where those of a unit are when they are unpacked.
    pub room: *mut u8,
    /// Weight rows and values that a unit has at most.
    pub cols: usize,
    pub len: usize,
}

impl<'a, const N: usize> Strips<'a, N> {
    /// The tiles of a unit's weight rows from `n` on, of a weight operand.
    #[inline]
    pub fn at(&self, operand: usize, n: usize) -> *mut u8 {
        self.room.wrapping_add(2 * (operand * self.cols + n) * self.len.next_multiple_of(STEP))
    }

    /// How many pieces [`Self::unpack`] makes of a unit.
    pub fn pieces(&self, unit: &Unit) -> usize {
        N * unit.strips() * unit.steps().div_ceil(self.row.steps)
    }

    /// Unpacks a piece of a unit's weights with every item.
    ///
    /// # Safety
    /// The unit has weight rows and values of the record's, and there is room.
    #[inline]
    pub unsafe fn unpack(self, unit: Unit) -> impl Iterator<Item = ()> + use<'a, N> {
        let strips = (0..N).flat_map(move |operand| (0..unit.cols).step_by(STRIP).map(move |n| (operand, n)));
        strips.flat_map(move |(operand, n)| {
            let of = self.part(operand, unit.n + n, STRIP.min(unit.cols - n));
            let steps = unit.steps();
            (0..steps).step_by(self.row.steps).map(move |from| {
                let strip = Strip { of: &of, k: unit.k, len: unit.len, out: self.at(operand, n) };
                // SAFETY: the caller's promise.
                unsafe { (self.row.run)(&strip, from..steps.min(from + self.row.steps)) };
            })
        })
    }

    /// Weight rows `n..n + cols` of a weight operand.
    fn part(&self, operand: usize, n: usize, cols: usize) -> Dots {
        let (p, weights) = (self.params, &self.weights[operand]);
        let (stride, side) = (p.row_bytes as usize, p.side_bytes as usize);
        Dots {
            w: weights.data.wrapping_add(n * stride),
            w_scales: weights.scales.wrapping_add(n * side),
            w_biases: weights.biases.wrapping_add(n * side),
            w_stride: stride,
            w_side_stride: side,
            next: std::ptr::null(),
            x: std::ptr::null(),
            x_stride: 0,
            rows: 0,
            cols,
            k: p.k as usize,
            out: std::ptr::null_mut(),
            out_stride: 0,
            dtype: p.dtype as u8,
        }
    }
}

/// Spreads some work evenly over more calls, or fewer.
#[derive(Default)]
pub struct Pace {
    due: usize,
    work: usize,
    calls: usize,
}

impl Pace {
    pub fn new(work: usize, calls: usize) -> Self {
        Self { due: 0, work, calls }
    }

    /// Whether more is due in this call, whose first question is `first`.
    #[inline]
    pub fn due(&mut self) -> usize {
        self.due += self.work;
        let mut now = 0;
        while self.due >= self.calls {
            self.due -= self.calls;
            now += 1;
        }
        now
    }
}
