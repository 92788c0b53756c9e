//! Windows of frames over a recording, moving forward, normalized as one recording.
//!
//! The reference scales by the loudest value of the whole recording, so a file is read twice: once to find it, once to give
//! frames out. A live stream has no whole: there the loudest so far counts.

use crate::mel::{SILENCE, normalize};
use crate::{Error, FRAME_RATE, Fault, HOP, Mel, SAMPLE_RATE, Source};
use akunu_limits::Limits;
use std::path::Path;

/// Frames as they come, log10, not normalized: a queue that forgets what it gave away.
#[derive(Default)]
pub struct Frames {
    /// `[frames][bands]` from frame `first` on.
    values: Vec<f32>,
    first: usize,
}

impl Frames {
    /// Frames so far, the forgotten ones included.
    pub fn end(&self, bands: usize) -> usize {
        self.first + self.values.len() / bands
    }

    pub fn values_mut(&mut self) -> &mut Vec<f32> {
        &mut self.values
    }

    /// Forgets what lies before frame `start`.
    pub fn forget(&mut self, start: usize, bands: usize) {
        let gone = start.saturating_sub(self.first).min(self.values.len() / bands);
        self.values.drain(..gone * bands);
        self.first += gone;
    }

    /// Frames `start..start + count` as far as they are there.
    pub fn get(&self, start: usize, count: usize, bands: usize) -> &[f32] {
        let from = (start.saturating_sub(self.first) * bands).min(self.values.len());
        let to = ((start + count).saturating_sub(self.first) * bands).min(self.values.len());
        &self.values[from..to]
    }
}

/// Energies as a model is given them, followed by silence up to `len` values.
pub fn window(energies: &[f32], len: usize, peak: f32) -> Vec<f32> {
    let mut frames = energies.to_vec();
    frames.resize(len.max(frames.len()), SILENCE);
    normalize(&mut frames, peak);
    frames
}

/// A recording's frames.
pub struct Features {
    source: Source,
    mel: Mel,
    samples: Vec<f32>,
    frames: Frames,
    ended: bool,
    /// The loudest log10 energy of the recording.
    peak: f32,
    total: usize,
    damaged: usize,
    cut_off: Option<(f64, f64)>,
}

impl Features {
    /// Reads a recording through once, and stands at its start. `progress` is called with the seconds read so far.
    pub fn open(path: &Path, bands: usize, progress: impl FnMut(f64)) -> Result<Self, Error> {
        Self::open_within(path, bands, Limits::default(), progress)
    }

    /// As [`Self::open`], within other limits.
    pub fn open_within(path: &Path, bands: usize, limits: Limits, progress: impl FnMut(f64)) -> Result<Self, Error> {
        Self::read(|| Source::open_within(path, limits), bands, progress)
    }

    /// As [`Self::open`], of a recording that `open` opens from its start, twice.
    pub fn read(
        open: impl Fn() -> Result<Source, Error>,
        bands: usize,
        mut progress: impl FnMut(f64),
    ) -> Result<Self, Error> {
        let mut source = open()?;
        let (mut mel, mut samples, mut frames) = (Mel::new(bands), Vec::new(), Vec::new());
        let mut peak = f32::NEG_INFINITY;
        let mut more = true;
        while more {
            more = source.read(&mut samples)?;
            mel.push(&samples, &mut frames);
            samples.clear();
            if !more {
                mel.finish(&mut frames);
            }
            peak = frames.drain(..).fold(peak, f32::max);
            progress(mel.samples() as f64 / SAMPLE_RATE as f64);
        }
        Ok(Self {
            total: mel.samples(),
            damaged: source.damaged(),
            cut_off: source.cut_off(),
            source: open()?,
            mel: Mel::new(bands),
            samples,
            frames: Frames::default(),
            ended: false,
            // The silence after the recording counts too.
            peak: peak.max(SILENCE),
        })
    }

    /// Frames of the recording.
    pub fn frames(&self) -> usize {
        self.total / HOP
    }

    pub fn seconds(&self) -> f64 {
        self.total as f64 / SAMPLE_RATE as f64
    }

    /// Packets that could not be decoded.
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    /// How long the recording is and how long it says it is, where it was cut off.
    pub fn cut_off(&self) -> Option<(f64, f64)> {
        self.cut_off
    }

    pub fn bands(&self) -> usize {
        self.mel.bands()
    }

    /// The loudest log10 energy of the recording.
    pub fn peak(&self) -> f32 {
        self.peak
    }

    /// Frames `start..start + count` as log10 energies, as far as the recording goes. `start` never moves back. `tap` sees
    /// all samples that are read for them, each once.
    pub fn energies(&mut self, start: usize, count: usize, tap: &mut dyn FnMut(&[f32])) -> Result<&[f32], Error> {
        let bands = self.mel.bands();
        self.frames.forget(start, bands);
        while !self.ended && self.frames.end(bands) < start + count {
            let more = self.source.read(&mut self.samples)?;
            tap(&self.samples);
            self.mel.push(&self.samples, self.frames.values_mut());
            self.samples.clear();
            if !more {
                self.mel.finish(self.frames.values_mut());
                self.ended = true;
                if self.mel.samples() != self.total {
                    return Err(Error { name: self.source.name().into(), fault: Fault::Changed });
                }
            }
            // Seeking far ahead does not gather what is skipped.
            self.frames.forget(start, bands);
        }
        Ok(self.frames.get(start, count, bands))
    }

    /// The same frames as the model is given them; after the recording there is silence.
    pub fn window(&mut self, start: usize, count: usize) -> Result<Vec<f32>, Error> {
        let (peak, bands) = (self.peak, self.mel.bands());
        Ok(window(self.energies(start, count, &mut |_| {})?, count * bands, peak))
    }

    /// The frame at a time.
    pub fn frame_at(seconds: f64) -> usize {
        (seconds.max(0.0) * FRAME_RATE as f64).round() as usize
    }
}
