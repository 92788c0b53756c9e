//! Silero's voice detector, 16 kHz: how likely somebody speaks, for every 512 samples.
//!
//! Of a chunk with the 64 samples before it and 64 mirrored after it, four magnitude spectra of 256 samples; four convolutions
//! over them; an LSTM cell, which remembers what came before; and one value of it through a sigmoid.

use crate::Error;
use akunu_formats::ModelFile;
use std::path::Path;
use std::sync::Arc;

/// Samples that one probability is for.
pub const CHUNK: usize = 512;
const CONTEXT: usize = 64;
const WINDOW: usize = 256;
const HOP: usize = 128;
const SPECTRA: usize = 4;
const BINS: usize = WINDOW / 2 + 1;
const HIDDEN: usize = 128;
/// Channels in and out, and the stride; all see three positions, with a silent one at each end.
const LAYERS: [(usize, usize, usize); 4] = [(BINS, 128, 1), (128, 64, 2), (64, 64, 2), (64, HIDDEN, 1)];

/// The detector's weights; clones share them.
#[derive(Clone)]
pub struct VoiceModel(Arc<Weights>);

impl std::fmt::Debug for VoiceModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VoiceModel")
    }
}

struct Weights {
    /// `[WINDOW]` to cosines and sines of every bin.
    spectrum: Matrix,
    /// Three positions after each other to one.
    layers: [(Matrix, Vec<f32>); 4],
    /// What was found and what is remembered, to four gates of `[HIDDEN]`.
    gates: Matrix,
    gate_bias: Vec<f32>,
    last: Vec<f32>,
    last_bias: f32,
}

impl VoiceModel {
    /// Opens the weights as Silero publishes them: `silero_vad_16k.safetensors`.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::from_file(&ModelFile::open(path)?)
    }

    /// Reads the weights of an opened file.
    pub fn from_file(file: &ModelFile) -> Result<Self, Error> {
        let fail = |what: String| Error::VoiceModel { path: file.path().display().to_string(), what };
        let tensor = |name: &str, shape: &[usize]| -> Result<Vec<f32>, Error> {
            let tensor = file.tensor(name).ok_or_else(|| fail(format!("tensor {name} is missing")))?;
            if tensor.shape != shape {
                return Err(fail(format!("tensor {name} is {:?}, not {shape:?}", tensor.shape)));
            }
            let mut values = vec![0.0; tensor.elements()];
            (tensor.dtype.format().decode)(file.planes(tensor), &mut values);
            match values.iter().all(|v| v.is_finite()) {
                true => Ok(values),
                false => Err(fail(format!("tensor {name} holds values that are no numbers"))),
            }
        };
        let layer = |index: usize| -> Result<(Matrix, Vec<f32>), Error> {
            let ((inputs, outputs, _), n) = (LAYERS[index], index + 1);
            let weights = tensor(&format!("conv{n}.weight"), &[outputs, inputs, 3])?;
            Ok((Matrix::of_filters(&weights, inputs, outputs), tensor(&format!("conv{n}.bias"), &[outputs])?))
        };
        let both = |kind: &str, shape: &[usize]| -> Result<[Vec<f32>; 2], Error> {
            Ok([tensor(&format!("lstm_cell.{kind}_ih"), shape)?, tensor(&format!("lstm_cell.{kind}_hh"), shape)?])
        };
        let [from_input, from_hidden] = both("weight", &[4 * HIDDEN, HIDDEN])?;
        let [input_bias, hidden_bias] = both("bias", &[4 * HIDDEN])?;
        let rows = from_input.chunks(HIDDEN).zip(from_hidden.chunks(HIDDEN));
        let gates: Vec<f32> = rows.flat_map(|(a, b)| [a, b].concat()).collect();
        Ok(Self(Arc::new(Weights {
            spectrum: Matrix::of_filters(&tensor("stft_conv.weight", &[2 * BINS, 1, WINDOW])?, 1, 2 * BINS),
            layers: [layer(0)?, layer(1)?, layer(2)?, layer(3)?],
            gates: Matrix::of_filters(&gates, 1, 4 * HIDDEN),
            gate_bias: input_bias.iter().zip(&hidden_bias).map(|(a, b)| a + b).collect(),
            last: tensor("final_conv.weight", &[1, HIDDEN, 1])?,
            last_bias: tensor("final_conv.bias", &[1])?[0],
        })))
    }
}

/// `[inputs][outputs]`, so that every input adds a row to the outputs.
struct Matrix {
    values: Vec<f32>,
    outputs: usize,
}

impl Matrix {
    /// Of `[outputs][channels][positions]`; its inputs are `[positions][channels]`.
    fn of_filters(weights: &[f32], channels: usize, outputs: usize) -> Self {
        let positions = weights.len() / (channels * outputs).max(1);
        let at = |position, channel, output| weights[(output * channels + channel) * positions + position];
        let inputs = (0..positions).flat_map(|p| (0..channels).map(move |c| (p, c)));
        Self { values: inputs.flat_map(|(p, c)| (0..outputs).map(move |o| at(p, c, o))).collect(), outputs }
    }

    /// Adds the product with `x` to `y`; four inputs at a time, so that `y` is read and written less often.
    fn add_product(&self, x: &[f32], y: &mut [f32]) {
        let (fours, rest) = x.as_chunks::<4>();
        let (first, last) = self.values.split_at(4 * fours.len() * self.outputs);
        for (x, rows) in fours.iter().zip(first.chunks_exact(4 * self.outputs)) {
            let (ab, cd) = rows.split_at(2 * self.outputs);
            let ((a, b), (c, d)) = (ab.split_at(self.outputs), cd.split_at(self.outputs));
            for ((((y, a), b), c), d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *y += x[0] * a + x[1] * b + x[2] * c + x[3] * d;
            }
        }
        for (x, row) in rest.iter().zip(last.chunks_exact(self.outputs)) {
            y.iter_mut().zip(row).for_each(|(y, w)| *y += x * w);
        }
    }
}

/// A detector at work on one stream.
pub struct Voices {
    model: VoiceModel,
    /// The end of the last chunk, then samples that do not fill one yet.
    samples: Vec<f32>,
    hidden: [f32; HIDDEN],
    cell: [f32; HIDDEN],
}

impl Voices {
    /// At the beginning of a stream.
    pub fn new(model: &VoiceModel) -> Self {
        let (hidden, cell) = ([0.0; HIDDEN], [0.0; HIDDEN]);
        Self { model: model.clone(), samples: vec![0.0; CONTEXT], hidden, cell }
    }

    /// Takes 16 kHz samples; `each` sees the probability of speech in every chunk they fill.
    pub fn push(&mut self, mut samples: &[f32], mut each: impl FnMut(f32)) {
        while CONTEXT + CHUNK <= self.samples.len() + samples.len() {
            let (now, later) = samples.split_at(CONTEXT + CHUNK - self.samples.len());
            self.samples.extend_from_slice(now);
            samples = later;
            each(self.chunk());
            self.samples.drain(..CHUNK);
        }
        self.samples.extend_from_slice(samples);
    }

    fn chunk(&mut self) -> f32 {
        let weights = &*self.model.0;
        let mirrored = self.samples.iter().rev().skip(1).take(CONTEXT);
        let samples: Vec<f32> = self.samples.iter().chain(mirrored).copied().collect();
        let mut positions = vec![0.0; (SPECTRA + 2) * BINS];
        for (i, bins) in positions[BINS..].chunks_mut(BINS).take(SPECTRA).enumerate() {
            let mut both = [0.0; 2 * BINS];
            weights.spectrum.add_product(&samples[i * HOP..][..WINDOW], &mut both);
            let (cosines, sines) = both.split_at(BINS);
            bins.iter_mut().zip(cosines.iter().zip(sines)).for_each(|(bin, (c, s))| *bin = (c * c + s * s).sqrt());
        }
        for ((inputs, outputs, stride), (matrix, bias)) in LAYERS.into_iter().zip(&weights.layers) {
            let count = (positions.len() / inputs - 3) / stride + 1;
            let mut next = vec![0.0; (count + 2) * outputs];
            for (i, y) in next[outputs..].chunks_mut(outputs).take(count).enumerate() {
                y.copy_from_slice(bias);
                matrix.add_product(&positions[i * stride * inputs..][..3 * inputs], y);
                y.iter_mut().for_each(|y| *y = y.max(0.0));
            }
            positions = next;
        }
        self.remember(&positions[HIDDEN..2 * HIDDEN])
    }

    /// One step of the LSTM cell, and the probability it comes to.
    fn remember(&mut self, found: &[f32]) -> f32 {
        let weights = &*self.model.0;
        let mut gates = weights.gate_bias.clone();
        weights.gates.add_product(&[found, &self.hidden].concat(), &mut gates);
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        let mut sum = weights.last_bias;
        for i in 0..HIDDEN {
            let [input, forget, new, output] = [0, 1, 2, 3].map(|gate| gates[gate * HIDDEN + i]);
            self.cell[i] = sigmoid(forget) * self.cell[i] + sigmoid(input) * new.tanh();
            self.hidden[i] = sigmoid(output) * self.cell[i].tanh();
            sum += weights.last[i] * self.hidden[i].max(0.0);
        }
        sigmoid(sum)
    }
}
