//! The audio encoder: frames of a recording into a sequence's KV cache, and the attention of its words over them.

use crate::engine::Class;
use crate::{Engine, Error, Sequence};
use akunu_arch::Model;
use akunu_plan::{KV_BLOCK, Output, RowVars, Want};

/// What a model of speech runs besides its decoder.
pub(crate) struct SpeechPrograms {
    pub encoder: Class,
    pub timing: Class,
}

impl SpeechPrograms {
    /// Takes its programs from the end of all that were made.
    pub fn split_off(classes: &mut Vec<Class>) -> Option<Self> {
        classes.iter().any(|c| c.program.input.is_some()).then_some(())?;
        let (timing, encoder) = (classes.pop()?, classes.pop()?);
        Some(Self { encoder, timing })
    }
}

/// Positions that the encoder fills; 0 for models without one.
pub(crate) fn positions(model: &Model) -> usize {
    model.encoder.as_ref().map_or(0, |e| e.config.context)
}

/// What a model of speech is built for besides text: result and rows, the encoder first.
pub(crate) fn programs(model: &Model, chunk: usize) -> impl Iterator<Item = (Output, usize)> {
    let positions = positions(model);
    [(Output::Encoded, positions), (Output::Timing, chunk)].into_iter().filter(move |_| positions > 0)
}

/// Frames for every position of the encoder.
const FRAMES_PER_POSITION: usize = 2;

impl Engine {
    /// Positions that the audio encoder fills; 0 for models without one.
    pub fn encoder_positions(&self) -> usize {
        positions(&self.model)
    }

    /// Frames that the audio encoder takes at a time, and bands of a frame.
    pub fn frames(&self) -> (usize, usize) {
        let bands = self.model.encoder.as_ref().map_or(0, |e| e.config.mels);
        (FRAMES_PER_POSITION * self.encoder_positions(), bands)
    }

    /// Encodes audio, `[frames][bands]`, into an empty sequence; zeros follow where there are fewer than [`Self::frames`].
    /// Its forks share it.
    pub fn encode(&mut self, sequence: &mut Sequence, frames: &[f32]) -> Result<(), Error> {
        self.encode_for(sequence, frames, Want::Tokens)
    }

    fn encode_for(&mut self, sequence: &mut Sequence, frames: &[f32], want: Want<'_>) -> Result<(), Error> {
        let (most, bands) = self.frames();
        let positions = self.encoder_positions();
        let Some(encoder) = self.speech.as_ref().map(|s| s.encoder.clone()) else { return Err(Error::NoAudioEncoder) };
        if bands == 0 || !frames.len().is_multiple_of(bands) || frames.len() > most * bands || !sequence.is_empty() {
            return Err(Error::Frames { values: frames.len(), frames: most, bands });
        }
        sequence.reserve_encoded(positions.div_ceil(KV_BLOCK))?;
        let mut vars = self.loaded.steps();
        vars.begin(positions, 0);
        for (position, row) in vars.rows_mut().iter_mut().enumerate() {
            *row = RowVars { position: position as u32, length: positions as u32, ..RowVars::default() };
        }
        for group in 0..encoder.program.kv_groups.len() {
            let table = sequence.table(group);
            vars.table_mut(group, 0)[..table.len()].copy_from_slice(table);
        }
        self.loaded.write_input(encoder.index, frames);
        Ok(self.loaded.submit(encoder.index, 1, want)?)
    }

    /// Encodes silence with all workers waiting after every op: the kernel of each, and its nanoseconds.
    pub fn time_encoder(&mut self) -> Result<Vec<(String, u64)>, Error> {
        let mut sequence = self.sequence();
        self.encode(&mut sequence, &[])?;
        let Some(speech) = &self.speech else { return Err(Error::NoAudioEncoder) };
        let times = self.loaded.time_ops(speech.encoder.index)?;
        let (backend, bound) = (self.loaded.backend(), self.loaded.bound(speech.encoder.index));
        let names = bound.records.iter().map(|r| backend.kernel_name(r.kernel).to_string());
        Ok(names.zip(times).collect())
    }

    /// What the encoder makes of frames: `[positions][dim]`. Nothing of it stays.
    pub fn encoded(&mut self, frames: &[f32]) -> Result<Vec<f32>, Error> {
        let mut sequence = self.sequence();
        self.encode_for(&mut sequence, frames, Want::All)?;
        Ok((0..self.encoder_positions()).flat_map(|position| self.loaded.output(position)).copied().collect())
    }

    /// Feeds tokens to a sequence with encoded audio; for each, the attention of every head that times words over the
    /// encoder's positions: `[heads][positions]`.
    pub fn timing(&mut self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Vec<&[f32]>, Error> {
        self.prepare_timing(sequence, tokens)?;
        let Some(speech) = &self.speech else { return Err(Error::NoAudioEncoder) };
        self.loaded.submit(speech.timing.index, 1, Want::All)?;
        sequence.set_len(sequence.len() + tokens.len());
        Ok((0..tokens.len()).map(|row| self.loaded.output(row)).collect())
    }
}
