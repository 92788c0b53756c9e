//! Where somebody may be speaking, by energy or by a model of voices: stretches of silence are not worth a model's time,
//! and a model without speech makes something up.

use super::voice::{CHUNK, VoiceModel, Voices};
use akunu_audio::{FRAME_RATE, HOP};
use std::collections::VecDeque;

/// Loudness below this (log10 of a frame's mean mel energy) is silence whatever else is there: some 80 dB below full scale.
const SILENCE: f32 = -6.5;
/// Loudness this far below the recording's loudest energy is silence: 60 dB.
const BELOW_PEAK: f32 = 6.0;
/// Silence before speech that is shorter stays.
const SHORTEST: usize = FRAME_RATE;
/// What is kept of silence before and after speech.
const MARGIN: usize = FRAME_RATE / 5;
/// A pause that ends a window: a model may pass over what follows it.
const PAUSE: usize = 2 * FRAME_RATE;
/// Sound after a text that says that it is the last, from which on that is not believed.
const MISSED: usize = FRAME_RATE;
/// Probabilities at which a voice begins and below which it ends: between them it goes on as it is.
const VOICE: (f32, f32) = (0.5, 0.35);

/// Tells speech from silence in a stream.
pub enum Detector {
    Energy,
    Voices(Box<Voiced>),
}

/// Which chunks have a voice in them.
pub struct Voiced {
    voices: Voices,
    speaking: bool,
    chunks: VecDeque<bool>,
    /// The first that is not forgotten.
    first: usize,
}

impl Detector {
    pub fn of(model: &VoiceModel) -> Self {
        let voices = Voices::new(model);
        Self::Voices(Box::new(Voiced { voices, speaking: false, chunks: VecDeque::new(), first: 0 }))
    }

    /// Takes the next samples.
    pub fn push(&mut self, samples: &[f32]) {
        let Self::Voices(voiced) = self else { return };
        let Voiced { voices, speaking, chunks, .. } = &mut **voiced;
        voices.push(samples, |probability| {
            let least = if *speaking { VOICE.1 } else { VOICE.0 };
            *speaking = probability >= least;
            chunks.push_back(*speaking);
        });
    }

    /// Whether nobody speaks, for the frames from `start` on, which are `energies` (`[frames][bands]`, log10). What lies
    /// before them is not asked for again.
    pub fn quiet(&mut self, start: usize, energies: &[f32], bands: usize, peak: f32) -> Vec<bool> {
        let frames = energies.chunks(bands.max(1));
        match self {
            Self::Energy => {
                let threshold = SILENCE.max(peak - BELOW_PEAK);
                frames.map(|frame| loudness(frame) < threshold).collect()
            }
            Self::Voices(voiced) => {
                let chunk = |frame: usize| frame * HOP / CHUNK;
                let gone = chunk(start).saturating_sub(voiced.first).min(voiced.chunks.len());
                voiced.chunks.drain(..gone);
                voiced.first += gone;
                // The last frames may be of a chunk that is not full yet.
                let speaks = |frame| voiced.chunks.get(chunk(frame).saturating_sub(voiced.first));
                (start..start + frames.len()).map(|frame| !speaks(frame).unwrap_or(&voiced.speaking)).collect()
            }
        }
    }
}

/// The loudness of a frame of log10 energies.
fn loudness(frame: &[f32]) -> f32 {
    let sum: f32 = frame.iter().map(|v| 10f32.powf(*v)).sum();
    (sum / frame.len().max(1) as f32).log10()
}

/// What frames begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// This many are silence and can be left out.
    Silence(usize),
    /// There is speech, and this many are one stretch of it.
    Speech(usize),
    /// There is no speech, but there may be at once.
    Undecided,
}

impl Content {
    /// Frames to leave out of `count` without speech.
    pub fn left_out(&self, count: usize) -> usize {
        if let Self::Silence(frames) = self { (*frames).max(1) } else { count }
    }

    /// Whether speech follows a silence among `count` frames: then it is known how long it is.
    pub fn is_over(&self, count: usize) -> bool {
        matches!(self, Self::Silence(frames) if frames + MARGIN < count)
    }
}

/// What frames begin with; `last`: none follow them.
pub fn classify(quiet: &[bool], last: bool) -> Content {
    let total = quiet.len();
    let silent = quiet.iter().take_while(|q| **q).count();
    match silent {
        n if n == total && last => return Content::Silence(n),
        n if n >= SHORTEST => return Content::Silence(n - MARGIN),
        n if n == total => return Content::Undecided,
        _ => {}
    }
    let mut pause = 0;
    for (at, quiet) in quiet.iter().enumerate().skip(silent) {
        pause = if *quiet { pause + 1 } else { 0 };
        if pause == PAUSE {
            return Content::Speech(at + 1 - PAUSE + MARGIN);
        }
    }
    Content::Speech(total)
}

/// Where somebody goes on speaking after a text that says that it is the last and ends about frame `end`: in the pause
/// before it. Sound without a pause before it is what the text is of.
pub fn resumes(quiet: &[bool], end: usize) -> Option<usize> {
    let mut pause = 0;
    for at in end.saturating_sub(MARGIN)..quiet.len() {
        if quiet[at] {
            pause += 1;
        } else if pause < MARGIN {
            pause = 0;
        } else {
            let sound = quiet[at..].iter().filter(|q| !**q).count();
            return (sound >= MISSED).then_some(at - MARGIN);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loudness and frames of it.
    fn quiet(levels: &[(f32, usize)], peak: f32) -> Vec<bool> {
        let frames: Vec<f32> = levels.iter().flat_map(|(level, n)| vec![*level; n * 4]).collect();
        Detector::Energy.quiet(0, &frames, 4, peak)
    }

    fn classify_all(levels: &[(f32, usize)], peak: f32) -> Content {
        classify(&quiet(levels, peak), true)
    }

    #[test]
    fn long_silence_before_speech_is_left_out_but_for_a_margin() {
        assert_eq!(classify_all(&[(-10.0, 500), (0.0, 100)], 1.0), Content::Silence(480));
        assert_eq!(classify_all(&[(-10.0, 50), (0.0, 100)], 1.0), Content::Speech(150));
    }

    #[test]
    fn nothing_but_silence_is_left_out_once_nothing_follows() {
        assert_eq!(classify_all(&[(-10.0, 30)], 1.0), Content::Silence(30));
        assert_eq!(classify_all(&[(-7.0, 3000)], -7.0), Content::Silence(3000));
        assert_eq!(classify(&[true; 30], false), Content::Undecided);
        assert_eq!(classify(&[true; 3000], false), Content::Silence(2980));
    }

    #[test]
    fn a_silence_is_over_where_speech_follows_it() {
        assert!(classify(&quiet(&[(-10.0, 100), (0.0, 1)], 1.0), false).is_over(101));
        assert!(!classify(&[true; 101], false).is_over(101));
        assert!(!classify(&[true; 101], true).is_over(101));
        assert!(!Content::Undecided.is_over(50));
    }

    #[test]
    fn a_long_pause_ends_a_stretch_of_speech() {
        assert_eq!(classify_all(&[(0.0, 100), (-10.0, 500), (0.0, 100)], 1.0), Content::Speech(120));
        assert_eq!(classify_all(&[(0.0, 100), (-10.0, 150), (0.0, 100)], 1.0), Content::Speech(350));
        assert_eq!(classify_all(&[(-10.0, 40), (0.0, 100), (-10.0, 200)], 1.0), Content::Speech(160));
    }

    #[test]
    fn quiet_speech_beside_loud_speech_stays() {
        assert_eq!(classify_all(&[(-3.0, 500)], 1.5), Content::Speech(500));
    }

    /// A sentence of 4 s, a pause of 1 s, a sentence of 3 s; the text says that it ends at a frame.
    #[test]
    fn a_sentence_after_the_last_text_begins_in_the_pause_before_it() {
        let frames = quiet(&[(0.0, 400), (-10.0, 100), (0.0, 300)], 1.0);
        for (end, wanted) in [(400, Some(480)), (390, Some(480)), (450, Some(480)), (500, Some(480)), (800, None)] {
            assert_eq!(resumes(&frames, end), wanted, "{end}");
        }
        // Too short, or all one sentence.
        assert_eq!(resumes(&quiet(&[(0.0, 400), (-10.0, 100), (0.0, 99)], 1.0), 400), None);
        assert_eq!(resumes(&quiet(&[(0.0, 800)], 1.0), 400), None);
        assert_eq!(resumes(&[], 400), None);
    }
}
