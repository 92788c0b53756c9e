//! What was said, and when.

/// A word, in seconds from the start of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// With the space before it.
    pub text: String,
    /// Its first sound.
    pub start: f64,
    /// Its last.
    pub end: f64,
    /// How likely the model finds it.
    pub probability: f32,
}

/// A stretch of speech, in seconds from the start of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Its first sound.
    pub start: f64,
    /// Its last.
    pub end: f64,
    /// What is said.
    pub text: String,
    /// The same as tokens, timestamps included.
    pub tokens: Vec<u32>,
    /// Where they were asked for.
    pub words: Vec<Word>,
    /// At which it was decoded.
    pub temperature: f32,
    /// Mean over its window's tokens.
    pub log_probability: f32,
    /// How well its window's text compresses: above 2.4 it repeats itself.
    pub compression_ratio: f32,
    /// The probability that nobody speaks in its window.
    pub no_speech: f32,
}

/// All that is said in a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// Its code.
    pub language: String,
    /// In their order.
    pub segments: Vec<Segment>,
}

impl Transcript {
    /// The text of all segments.
    pub fn text(&self) -> String {
        self.segments.iter().map(|s| s.text.as_str()).collect::<String>().trim().to_string()
    }
}

/// What happens on the way.
pub enum Event<'a> {
    /// The code of the language that was found.
    Language(&'a str),
    /// A segment is final.
    Segment(&'a Segment),
    /// Frames of the recording that are done.
    Progress(usize),
}
