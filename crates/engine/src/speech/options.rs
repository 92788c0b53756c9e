//! What to transcribe, and how.

use super::VoiceModel;
use super::vad::Detector;

/// What to write down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// What is said, in its language.
    #[default]
    Transcribe,
    /// What is said, in English.
    Translate,
}

/// What is done about silence before the model encodes it.
#[derive(Clone, Debug, Default)]
pub enum Silence {
    /// The model encodes it, and may make something up.
    Keep,
    /// What is not loud enough is left out.
    #[default]
    ByEnergy,
    /// What has no voice in it is left out, however loud it is.
    ByVoice(VoiceModel),
}

impl Silence {
    pub(crate) fn detector(&self) -> Option<Detector> {
        match self {
            Self::Keep => None,
            Self::ByEnergy => Some(Detector::Energy),
            Self::ByVoice(model) => Some(Detector::of(model)),
        }
    }
}

/// How tokens are chosen.
#[derive(Clone, Debug)]
pub struct Decoding {
    /// Beams at temperature 0; 1: the likeliest token each time.
    pub beams: usize,
    /// Samples at temperatures above 0, of which the best counts.
    pub best_of: usize,
    /// Tried one after the other until a result is good enough.
    pub temperatures: Vec<f32>,
    /// A result that compresses better than this repeats itself.
    pub compression_ratio: f32,
    /// A result with a lower mean log-probability is not good enough.
    pub log_probability: f32,
    /// With this probability of no speech, a result that is not good enough is silence.
    pub no_speech: f32,
    /// The same seed draws the same samples.
    pub seed: u64,
}

impl Default for Decoding {
    fn default() -> Self {
        Self {
            beams: 5,
            best_of: 5,
            temperatures: vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
            compression_ratio: 2.4,
            log_probability: -1.0,
            no_speech: 0.6,
            seed: 0,
        }
    }
}

/// What to transcribe, and how.
#[derive(Clone, Debug)]
pub struct TranscribeOptions {
    /// A code or name; `None`: found out from the first window.
    pub language: Option<String>,
    /// What to write down.
    pub task: Task,
    /// How tokens are chosen.
    pub decoding: Decoding,
    /// What was said before, or words to expect.
    pub prompt: Option<String>,
    /// Whether a window knows the text of those before it, back to a silence that was left out.
    pub condition: bool,
    /// Whether the model says when segments begin and end.
    pub timestamps: bool,
    /// When each word was said.
    pub words: bool,
    /// What is done about silence.
    pub silence: Silence,
}

impl Default for TranscribeOptions {
    fn default() -> Self {
        Self {
            language: None,
            task: Task::Transcribe,
            decoding: Decoding::default(),
            prompt: None,
            condition: true,
            timestamps: true,
            words: false,
            silence: Silence::default(),
        }
    }
}

/// The most beams or samples there can be.
pub const MAX_CANDIDATES: usize = 8;
