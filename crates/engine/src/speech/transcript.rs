//! What was said, and when.

/// A word, in seconds from the start of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    pub text: String,
    pub start: f64,
    pub end: f64,
    pub probability: f32,
}

/// A stretch of speech, in seconds from the start of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub start: f64,
    pub end: f64,
    pub text: String,
    pub tokens: Vec<u32>,
    pub words: Vec<Word>,
    pub temperature: f32,
    pub log_probability: f32,
    pub compression_ratio: f32,
    pub no_speech: f32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// Its code.
    pub language: String,
    pub segments: Vec<Segment>,
}

impl Transcript {
    pub fn text(&self) -> String {
        self.segments.iter().map(|s| s.text.as_str()).collect::<String>().trim().to_string()
    }
}

/// What happens on the way.
pub enum Event<'a> {
    Language(&'a str),
    Segment(&'a Segment),
    /// Frames of the recording that are done.
    Progress(usize),
}
