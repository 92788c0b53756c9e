//! Frames of log-mel energies, as Whisper's reference computes them.
//!
//! A frame is the power spectrum of 400 samples under a periodic Hann window, through triangles on Slaney's mel
//! scale, as a base-10 logarithm. Frames are centred on every 160th sample: the first mirrors the samples after it, the last
//! reach into silence.

use crate::{FRAME, HOP, SAMPLE_RATE};
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Power bins of a frame.
pub const BINS: usize = FRAME / 2 + 1;
/// Samples a frame sees before and after its centre.
const REACH: usize = FRAME / 2;
/// Energies below are taken for this.
const FLOOR: f32 = 1e-10;
/// Its logarithm: what silence is.
pub const SILENCE: f32 = -10.0;

/// Turns a stream of 16 kHz samples into frames `[bands]`.
pub struct Mel {
    bands: usize,
    /// By band: the first bin of its triangle, and its weights.
    triangles: Vec<(usize, Vec<f32>)>,
    window: Vec<f32>,
    fft: Arc<dyn RealToComplex<f32>>,
    work: Vec<f32>,
    spectrum: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    power: Vec<f32>,
    /// Samples from `REACH` before the next frame's centre.
    pending: Vec<f32>,
    mirrored: bool,
    taken: usize,
    given: usize,
}

impl Mel {
    pub fn new(bands: usize) -> Self {
        let fft = RealFftPlanner::<f32>::new().plan_fft_forward(FRAME);
        let dense = filters(bands);
        let triangles = dense
            .chunks(BINS)
            .map(|row| {
                let first = row.iter().position(|w| *w != 0.0).unwrap_or(0);
                let end = row.iter().rposition(|w| *w != 0.0).map_or(first, |last| last + 1);
                (first, row[first..end].to_vec())
            })
            .collect();
        let turn = 2.0 * std::f64::consts::PI / FRAME as f64;
        Self {
            bands,
            triangles,
            window: (0..FRAME).map(|i| (0.5 - 0.5 * (turn * i as f64).cos()) as f32).collect(),
            work: fft.make_input_vec(),
            spectrum: fft.make_output_vec(),
            scratch: fft.make_scratch_vec(),
            power: vec![0.0; BINS],
            fft,
            pending: Vec::new(),
            mirrored: false,
            taken: 0,
            given: 0,
        }
    }

    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Samples taken so far.
    pub fn samples(&self) -> usize {
        self.taken
    }

    /// Takes samples in and appends the frames they complete.
    pub fn push(&mut self, samples: &[f32], frames: &mut Vec<f32>) {
        self.taken += samples.len();
        self.pending.extend_from_slice(samples);
        if !self.mirrored && self.pending.len() > REACH {
            self.mirror();
        }
        if self.mirrored {
            self.drain(frames, usize::MAX);
        }
    }

    /// Appends the frames whose centres lie in the recording and that reach into the silence after it.
    pub fn finish(&mut self, frames: &mut Vec<f32>) {
        let total = self.taken / HOP;
        self.pending.resize(self.pending.len() + FRAME, 0.0);
        if !self.mirrored {
            self.pending.resize(self.pending.len().max(FRAME), 0.0);
            self.mirror();
        }
        self.drain(frames, total);
    }

    /// Puts the first samples, backwards and without the very first, before the recording.
    fn mirror(&mut self) {
        let mirrored: Vec<f32> = self.pending[1..=REACH].iter().rev().copied().collect();
        self.pending.splice(0..0, mirrored);
        self.mirrored = true;
    }

    fn drain(&mut self, frames: &mut Vec<f32>, total: usize) {
        let mut start = 0;
        while self.given < total && start + FRAME <= self.pending.len() {
            self.frame(start, frames);
            start += HOP;
            self.given += 1;
        }
        self.pending.drain(..start.min(self.pending.len()));
    }

    fn frame(&mut self, start: usize, frames: &mut Vec<f32>) {
        let samples = &self.pending[start..start + FRAME];
        for ((to, sample), weight) in self.work.iter_mut().zip(samples).zip(&self.window) {
            *to = sample * weight;
        }
        // Fails only where the lengths are not those the plan made its buffers of.
        let _ = self.fft.process_with_scratch(&mut self.work, &mut self.spectrum, &mut self.scratch);
        for (power, c) in self.power.iter_mut().zip(&self.spectrum) {
            *power = c.norm_sqr();
        }
        frames.extend(self.triangles.iter().map(|(first, weights)| {
            let energy: f32 = weights.iter().zip(&self.power[*first..]).map(|(w, p)| w * p).sum();
            energy.max(FLOOR).log10()
        }));
    }
}

/// What the model is given: at most 8 below the recording's loudest value `peak`, moved and scaled.
pub fn normalize(frames: &mut [f32], peak: f32) {
    let floor = peak - 8.0;
    frames.iter_mut().for_each(|v| *v = (v.max(floor) + 4.0) / 4.0);
}

/// Triangles of equal area, evenly spaced on Slaney's mel scale from 0 to 8 kHz: `[bands][BINS]`.
pub fn filters(bands: usize) -> Vec<f32> {
    let top = to_mel(SAMPLE_RATE as f64 / 2.0);
    let edges: Vec<f64> = (0..bands + 2).map(|i| to_hz(top * i as f64 / (bands + 1) as f64)).collect();
    let mut filters = Vec::with_capacity(bands * BINS);
    for edge in edges.windows(3) {
        let &[low, middle, high] = edge else { continue };
        for bin in 0..BINS {
            let hz = bin as f64 * SAMPLE_RATE as f64 / FRAME as f64;
            let slope = ((hz - low) / (middle - low)).min((high - hz) / (high - middle));
            filters.push((slope.max(0.0) * 2.0 / (high - low)) as f32);
        }
    }
    filters
}

/// Slaney's scale: linear below 1 kHz, logarithmic above.
const LINEAR: f64 = 200.0 / 3.0;
const KNEE_HZ: f64 = 1000.0;
const KNEE_MEL: f64 = KNEE_HZ / LINEAR;

fn octave() -> f64 {
    6.4f64.ln() / 27.0
}

fn to_mel(hz: f64) -> f64 {
    if hz < KNEE_HZ { hz / LINEAR } else { KNEE_MEL + (hz / KNEE_HZ).ln() / octave() }
}

fn to_hz(mel: f64) -> f64 {
    if mel < KNEE_MEL { mel * LINEAR } else { KNEE_HZ * ((mel - KNEE_MEL) * octave()).exp() }
}
