//! Speech as it is spoken: what is said so far, again and again, and for good once it is followed by a pause or fills
//! the window.

use super::{Event, Segment, Session, TranscribeOptions, Transcriber, vad};
use crate::Error;
use akunu_audio::{FRAME_RATE, Frames, Mel, SAMPLE_RATE};
use std::ops::ControlFlow;

/// A transcription of a stream.
pub struct Live {
    session: Session,
    mel: Mel,
    frames: Frames,
    /// The loudest energy so far: a stream has no whole to scale by.
    peak: f32,
    /// The first frame that is not written down for good.
    seek: usize,
    /// Frames at the last look.
    looked: usize,
    skip_silence: bool,
}

/// Frames between looks at speech that goes on.
const STEP: usize = 2 * FRAME_RATE;
/// A pause that ends what was said.
const PAUSE: usize = 7 * FRAME_RATE / 10;
/// Shorter speech is not decoded before it goes on.
const SHORTEST: usize = FRAME_RATE / 2;

impl Live {
    pub fn new(transcriber: &Transcriber, options: &TranscribeOptions) -> Result<Self, Error> {
        Ok(Self {
            session: Session::new(transcriber, options)?,
            mel: Mel::new(transcriber.bands()),
            frames: Frames::default(),
            peak: -10.0,
            seek: 0,
            looked: 0,
            skip_silence: options.skip_silence,
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
        if self.skip_silence {
            let quiet = vad::silence(energies, bands, self.peak);
            if quiet > 0 {
                self.seek += quiet;
                return Ok(None);
            }
        }
        let count = energies.len() / bands;
        if count < SHORTEST && !ending {
            return Ok(None);
        }
        let full = count == most;
        let paused = vad::ends_quietly(energies, bands, self.peak, PAUSE);
        let window = akunu_audio::window(energies, most * bands, self.peak);
        let before = self.session.previous.clone();
        let knew = self.session.language.is_some();
        let (segments, moved) = self.session.window(transcriber, &window, (self.seek, count))?;
        if !knew {
            let _ = each(Event::Language(self.session.language()));
        }
        let text = |segments: &[Segment]| segments.iter().map(|s| s.text.as_str()).collect::<String>();
        if !(full || paused || ending) {
            // Not for good: the next look begins at the same place, knowing what this one knew.
            self.session.previous = before;
            return Ok(Some(text(&segments)));
        }
        for segment in &segments {
            if each(Event::Segment(segment)).is_break() {
                break;
            }
        }
        self.seek += if full { moved } else { count };
        Ok(Some(String::new()))
    }
}
