//! Rows of a tensor from one number format to another, a few at a time and on all threads.

use std::thread;

use akunu_dtype::{DType, Planes, PlanesMut};
use akunu_formats::gguf::TensorWriter;
use akunu_formats::{Error, ModelFile, Tensor};

/// Values that a thread converts at a time: what is in memory is some 8 bytes for each, per thread.
const SLICE: usize = 1 << 20;

/// Rows of a source tensor that become rows of the destination.
pub struct Rows<'a> {
    pub file: &'a ModelFile,
    pub tensor: &'a Tensor,
    /// The first row, and how many.
    pub start: usize,
    pub count: usize,
    /// The source's row for row `i` of these, counted from `start`.
    pub order: &'a (dyn Fn(usize) -> usize + Sync),
}

impl Rows<'_> {
    /// Writes the rows in `format`; `progress` is told the bytes written with every step.
    pub fn write(
        &self,
        format: DType,
        threads: usize,
        out: &mut TensorWriter,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let step = (SLICE / self.tensor.cols()).max(1);
        let slices: Vec<(usize, usize)> =
            (0..self.count).step_by(step).map(|first| (first, step.min(self.count - first))).collect();
        for batch in slices.chunks(threads.max(1)) {
            let converted: Vec<Vec<u8>> = thread::scope(|scope| {
                let workers: Vec<_> =
                    batch.iter().map(|&(first, rows)| scope.spawn(move || self.convert(format, first, rows))).collect();
                // A worker's panic goes on in this thread.
                workers.into_iter().map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
            });
            for bytes in converted {
                out.write(&bytes)?;
                progress(bytes.len() as u64);
            }
        }
        Ok(())
    }

    fn convert(&self, format: DType, first: usize, rows: usize) -> Vec<u8> {
        let cols = self.tensor.cols();
        let (from, to) = (self.tensor.dtype.format(), format.format());
        let row_bytes = cols / to.block * to.bytes;
        let mut bytes = vec![0; rows * row_bytes];
        let planes = |row: usize| self.planes(self.start + (self.order)(first + row));
        if self.tensor.dtype == format {
            for (row, bytes) in bytes.chunks_exact_mut(row_bytes).enumerate() {
                bytes.copy_from_slice(planes(row).data);
            }
        } else if let Some(encode) = to.encode {
            let mut values = vec![0.0; cols];
            for (row, bytes) in bytes.chunks_exact_mut(row_bytes).enumerate() {
                (from.decode)(planes(row), &mut values);
                encode(&values, PlanesMut { data: bytes, ..PlanesMut::default() });
            }
        }
        bytes
    }

    /// The bytes of one row of the source.
    fn planes(&self, row: usize) -> Planes<'_> {
        let (dtype, cols) = (self.tensor.dtype, self.tensor.cols());
        let whole = self.file.planes(self.tensor);
        let part = |bytes: &'_ [u8], len: usize| -> std::ops::Range<usize> {
            let start = (row * len).min(bytes.len());
            start..(start + len).min(bytes.len())
        };
        let (data, side) = (dtype.row_bytes(cols).unwrap_or(0), dtype.row_side_bytes(cols));
        Planes {
            data: &whole.data[part(whole.data, data)],
            scales: &whole.scales[part(whole.scales, side)],
            biases: &whole.biases[part(whole.biases, side)],
        }
    }
}

/// All values of a small tensor.
pub fn values(file: &ModelFile, tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.elements()];
    (tensor.dtype.format().decode)(file.planes(tensor), &mut values);
    values
}

/// Values in a format of one plane.
pub fn encode(format: DType, values: &[f32]) -> Vec<u8> {
    let f = format.format();
    let mut bytes = vec![0; values.len() / f.block * f.bytes];
    if let Some(encode) = f.encode {
        encode(values, PlanesMut { data: &mut bytes, ..PlanesMut::default() });
    }
    bytes
}
