//! Speech as it is spoken: what is said so far, again and again, and for good once it is followed by a pause or fills
//! the window. Windows are those of a file, so that the text is, too: only the loudest sound is known later.

use super::transcriber::{Transcription, Window};
use super::vad::{self, Detector};
use super::{Event, Segment, TranscribeOptions, Transcriber};
use crate::Error;
use akunu_audio::{FRAME_RATE, Frames, Mel, SAMPLE_RATE};
use std::ops::ControlFlow;

/// A transcription of a stream.
pub struct Live {
    transcription: Transcription,
    mel: Mel,
    frames: Frames,
    /// The loudest energy so far: a stream has no whole to scale by.
    peak: f32,
    /// The first frame that is not written down for good.
    seek: usize,
    /// Frames at the last look.
    looked: usize,
    detector: Option<Detector>,
}

/// Frames between looks at speech that goes on.
const STEP: usize = 2 * FRAME_RATE;
/// Shorter speech is not decoded before it goes on.
const SHORTEST: usize = FRAME_RATE / 2;

impl Live {
    /// At the beginning of a stream.
    pub fn new(transcriber: &Transcriber, options: &TranscribeOptions) -> Result<Self, Error> {
        Ok(Self {
            transcription: Transcription::new(transcriber, options)?,
            mel: Mel::new(transcriber.bands()),
            frames: Frames::default(),
            peak: -10.0,
            seek: 0,
            looked: 0,
            detector: options.silence.detector(),
        })
    }

    /// Seconds of sound so far.
    pub fn seconds(&self) -> f64 {
        self.mel.samples() as f64 / SAMPLE_RATE as f64
    }

    /// Takes 16 kHz samples. `each` sees segments that are final; what else was understood comes back, and may change.
    pub fn push(
        &mut self,
        transcriber: &mut Transcriber,
        samples: &[f32],
        each: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Option<String>, Error> {
        let bands = self.mel.bands();
        self.mel.push(samples, self.frames.values_mut());
        if let Some(detector) = &mut self.detector {
            detector.push(samples);
        }
        let end = self.frames.end(bands);
        if end < self.looked + STEP {
            return Ok(None);
        }
        self.looked = end;
        self.look(transcriber, each, false)
    }

    /// Writes down what is left.
    pub fn finish(
        &mut self,
        transcriber: &mut Transcriber,
        each: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.mel.finish(self.frames.values_mut());
        while self.seek < self.frames.end(self.mel.bands()) {
            self.look(transcriber, each, true)?;
        }
        Ok(())
    }

    fn look(
        &mut self,
        transcriber: &mut Transcriber,
        each: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
        ending: bool,
    ) -> Result<Option<String>, Error> {
        let bands = self.mel.bands();
        let most = transcriber.engine.frames().0;
        self.frames.forget(self.seek, bands);
        let energies = self.frames.get(self.seek, most, bands);
        self.peak = energies.iter().copied().fold(self.peak, f32::max);
        let mut count = energies.len() / bands;
        let full = count == most;
        let mut done = full || ending;
        let mut quiet = Vec::new();
        if let Some(detector) = &mut self.detector {
            quiet = detector.quiet(self.seek, energies, bands, self.peak);
            match vad::classify(&quiet, ending && !full) {
                // One stretch, once a pause has followed it.
                vad::Content::Speech(frames) => (count, done) = (frames, done || frames < count),
                silent if done || silent.is_over(count) => {
                    self.seek += silent.left_out(count);
                    self.transcription.forget();
                    return if silent.is_over(count) { self.look(transcriber, each, ending) } else { Ok(None) };
                }
                // How long it is, is not known yet.
                _ => return Ok(None),
            }
        }
        if count < SHORTEST && !done {
            return Ok(None);
        }
        let frames = akunu_audio::window(&energies[..count * bands], most * bands, self.peak);
        let before = self.transcription.history.clone();
        quiet.truncate(count);
        let window = Window { frames: &frames, seek: self.seek, count, quiet: &quiet };
        let (segments, moved) = self.transcription.transcribe(transcriber, &window)?;
        let text = |segments: &[Segment]| segments.iter().map(|s| s.text.as_str()).collect::<String>();
        if !done {
            // Not for good: the next look begins at the same place, knowing what this one knew.
            self.transcription.history = before;
            return Ok(Some(text(&segments)));
        }
        if before.language.is_none() {
            let _ = each(Event::Language(self.transcription.language()));
        }
        for segment in &segments {
            if each(Event::Segment(segment)).is_break() {
                break;
            }
        }
        self.seek += moved;
        Ok(Some(String::new()))
    }
}
