//! Speech to text: a recording window by window, as Whisper's reference decodes it.
//!
//! A window is 30 seconds; the next begins where the last timestamp of this one says. What is too repetitive or too
//! unlikely is decoded again at higher temperatures; what is likely no speech is skipped; silence is not even tried.

mod decode;
mod live;
mod rules;
mod vad;
mod vocabulary;
mod words;

use crate::{Engine, Error, LoadOptions, Sequence};
use akunu_audio::{FRAME_RATE, Features};
use akunu_formats::ModelFile;
use decode::{Decoded, Prompted};
use rules::Rules;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

pub use live::Live;
pub use vocabulary::{LANGUAGES, Vocabulary};

/// What to write down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// What is said, in its language.
    #[default]
    Transcribe,
    /// What is said, in English.
    Translate,
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

#[derive(Clone, Debug)]
pub struct TranscribeOptions {
    /// A code or name; `None`: found out from the first window.
    pub language: Option<String>,
    pub task: Task,
    pub decoding: Decoding,
    /// What was said before, or words to expect.
    pub prompt: Option<String>,
    /// Whether a window knows the text of those before it.
    pub condition: bool,
    pub timestamps: bool,
    /// When each word was said.
    pub words: bool,
    /// Whether silence is left out before the model hears it.
    pub skip_silence: bool,
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
            skip_silence: true,
        }
    }
}

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

/// How long a model was busy so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// Windows that were heard.
    pub windows: usize,
    pub encoder: Duration,
    /// Languages, text and words, with what is decided between their steps.
    pub decoder: Duration,
}

/// A model of speech.
pub struct Transcriber {
    engine: Engine,
    vocabulary: Vocabulary,
    took: Took,
}

/// The most beams or samples there can be.
pub const MAX_CANDIDATES: usize = 8;

/// Steps of a timestamp in a second, and frames in such a step.
const STEPS: usize = 50;
const FRAMES_PER_STEP: usize = FRAME_RATE / STEPS;

impl Transcriber {
    pub fn load(path: &Path, options: LoadOptions) -> Result<Self, Error> {
        Self::from_file(ModelFile::open(path)?, options)
    }

    pub fn from_file(file: ModelFile, mut options: LoadOptions) -> Result<Self, Error> {
        // Beams and samples are sequences of their own, beside the window they have heard and its prompt.
        options.sequences = 2 * MAX_CANDIDATES + 2;
        let engine = Engine::from_file(file, options)?;
        if engine.heard() == 0 {
            return Err(Error::CannotHear);
        }
        let vocabulary = Vocabulary::new(engine.file(), engine.tokenizer(), engine.vocab())?;
        Ok(Self { engine, vocabulary, took: Took::default() })
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    pub fn took(&self) -> Took {
        self.took
    }

    /// Bands of the frames the model hears.
    pub fn bands(&self) -> usize {
        self.engine.frames().1
    }

    /// Transcribes a recording. `each` sees what comes as it comes, and may end it.
    pub fn transcribe(
        &mut self,
        features: &mut Features,
        options: &TranscribeOptions,
        mut each: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Transcript, Error> {
        let (most, bands) = self.engine.frames();
        let total = features.frames();
        let mut session = Session::new(self, options)?;
        let mut transcript = Transcript::default();
        let mut seek = 0;
        while seek < total {
            let (peak, mut count) = (features.peak(), most.min(total - seek));
            let energies = features.energies(seek, count)?;
            if options.skip_silence {
                match vad::hear(energies, bands, peak, seek + count == total) {
                    vad::Heard::Speech(frames) => count = frames,
                    silent => {
                        seek += silent.left_out(count);
                        if each(Event::Progress(seek.min(total))).is_break() {
                            break;
                        }
                        continue;
                    }
                }
            }
            let energies = &energies[..energies.len().min(count * bands)];
            let frames = akunu_audio::window(energies, most * bands, peak);
            let knew = session.said.language.is_some();
            let (segments, moved) = session.window(self, &frames, (seek, count))?;
            if !knew && each(Event::Language(session.language())).is_break() {
                break;
            }
            for segment in segments {
                if each(Event::Segment(&segment)).is_break() {
                    transcript.segments.push(segment);
                    transcript.language = session.language().to_string();
                    return Ok(transcript);
                }
                transcript.segments.push(segment);
            }
            seek += moved;
            if each(Event::Progress(seek.min(total))).is_break() {
                break;
            }
        }
        transcript.language = session.language().to_string();
        Ok(transcript)
    }

    /// The languages a window may be in with their probabilities, likeliest first.
    pub fn languages(&mut self, frames: &[f32]) -> Result<Vec<(&'static str, f32)>, Error> {
        let mut heard = self.engine.sequence();
        self.engine.hear(&mut heard, frames)?;
        self.languages_of(&heard)
    }

    fn languages_of(&mut self, heard: &Sequence) -> Result<Vec<(&'static str, f32)>, Error> {
        let logits = self.engine.prefill(&mut heard.fork(), &[self.vocabulary.start])?;
        let mut found: Vec<(&str, f32)> =
            self.vocabulary.languages().map(|(code, token)| (code, logits[token as usize])).collect();
        let total = rules::log_sum(&found.iter().map(|f| f.1).collect::<Vec<f32>>());
        found.iter_mut().for_each(|f| f.1 = (f.1 - total).exp());
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(found)
    }
}

/// A transcription on its way.
struct Session {
    options: TranscribeOptions,
    rules: Rules,
    said: Said,
}

/// What a window knows of those before it.
#[derive(Clone)]
struct Said {
    language: Option<String>,
    /// Tokens of the prompt and of all windows, as far as the next may see them.
    previous: Vec<u32>,
    last_end: f64,
    random: u64,
}

impl Session {
    fn new(transcriber: &Transcriber, options: &TranscribeOptions) -> Result<Self, Error> {
        let vocabulary = &transcriber.vocabulary;
        let language = match &options.language {
            None if vocabulary.multilingual => None,
            None => Some("en".to_string()),
            Some(name) => {
                let token = vocabulary.language(name).ok_or_else(|| Error::Language { name: name.clone() })?;
                let code = vocabulary.languages().find(|(_, t)| *t == token).map_or("en", |(code, _)| code);
                if code != "en" && !vocabulary.multilingual {
                    return Err(Error::EnglishOnly { name: name.clone() });
                }
                Some(code.to_string())
            }
        };
        if options.task == Task::Translate && !vocabulary.multilingual {
            return Err(Error::CannotTranslate);
        }
        let previous = match &options.prompt {
            Some(text) => vocabulary.encode(&format!(" {}", text.trim())),
            None => Vec::new(),
        };
        let rules = Rules::new(vocabulary, options.timestamps);
        let random = options.decoding.seed;
        let mut options = options.clone();
        options.decoding.beams = options.decoding.beams.clamp(1, MAX_CANDIDATES);
        options.decoding.best_of = options.decoding.best_of.clamp(1, MAX_CANDIDATES);
        Ok(Self { options, rules, said: Said { language, previous, last_end: 0.0, random } })
    }

    fn language(&self) -> &str {
        self.said.language.as_deref().unwrap_or("")
    }

    /// The tokens that say what to do.
    fn task(&self, vocabulary: &Vocabulary) -> Vec<u32> {
        let mut task = vec![vocabulary.start];
        if vocabulary.multilingual {
            task.extend(vocabulary.language(self.language()));
            task.push(match self.options.task {
                Task::Transcribe => vocabulary.transcribe,
                Task::Translate => vocabulary.translate,
            });
        }
        if !self.options.timestamps {
            task.push(vocabulary.no_timestamps);
        }
        task
    }

    /// Decodes the window of `frames`, of which `count` from frame `seek` on are the recording's: its segments, and how
    /// many frames to move on.
    fn window(
        &mut self,
        transcriber: &mut Transcriber,
        frames: &[f32],
        (seek, count): (usize, usize),
    ) -> Result<(Vec<Segment>, usize), Error> {
        let began = Instant::now();
        let mut heard = transcriber.engine.sequence();
        transcriber.engine.hear(&mut heard, frames)?;
        transcriber.took.windows += 1;
        transcriber.took.encoder += began.elapsed();
        let began = Instant::now();
        let result = self.write(transcriber, &heard, (seek, count));
        transcriber.took.decoder += began.elapsed();
        result
    }

    /// What is said in a window that was heard.
    fn write(
        &mut self,
        transcriber: &mut Transcriber,
        heard: &Sequence,
        (seek, count): (usize, usize),
    ) -> Result<(Vec<Segment>, usize), Error> {
        if self.said.language.is_none() {
            let found = transcriber.languages_of(heard)?;
            self.said.language = found.first().map(|(code, _)| code.to_string());
        }
        let (engine, vocabulary) = (&mut transcriber.engine, &transcriber.vocabulary);
        let task = self.task(vocabulary);
        let most = engine.context() / 2 - 1;
        let previous = &self.said.previous[self.said.previous.len().saturating_sub(most)..];
        let prompted = Prompted::new(engine, vocabulary, heard, previous, &task)?;
        let (decoded, ratio) = self.decode(engine, vocabulary, &prompted)?;
        let limits = &self.options.decoding;
        if prompted.no_speech > limits.no_speech && decoded.log_probability <= limits.log_probability {
            return Ok((Vec::new(), count));
        }
        let offset = seek as f64 / FRAME_RATE as f64;
        let (spans, single_ending, mut moved) = spans(vocabulary, &decoded.tokens, count);
        let mut segments: Vec<Segment> = spans
            .into_iter()
            .map(|(start, end, tokens)| Segment {
                start: offset + start,
                end: offset + end,
                text: vocabulary.text(&tokens),
                tokens,
                words: Vec::new(),
                temperature: decoded.temperature,
                log_probability: decoded.log_probability,
                compression_ratio: ratio,
                no_speech: prompted.no_speech,
            })
            .collect();
        drop(prompted);
        if self.options.words {
            let language = self.said.language.as_deref().unwrap_or("");
            let (positions, last_end) = (count / FRAMES_PER_STEP, self.said.last_end);
            let window = words::Window { heard, task: &task, positions, offset, language, last_end };
            words::time_words(engine, vocabulary, &window, &mut segments)?;
            let last = segments.iter().rev().find_map(|s| s.words.last().map(|w| w.end));
            if let Some(last) = last.filter(|end| *end > offset) {
                if !single_ending {
                    moved = Features::frame_at(last).saturating_sub(seek);
                }
                self.said.last_end = last;
            }
        }
        segments.retain(|s| s.start != s.end && !s.text.trim().is_empty());
        self.said.previous.extend(segments.iter().flat_map(|s| &s.tokens));
        if !self.options.condition || decoded.temperature > 0.5 {
            self.said.previous.clear();
        }
        // No more than a window may see.
        let unseen = self.said.previous.len().saturating_sub(most);
        self.said.previous.drain(..unseen);
        // A window that does not move on would be decoded for ever.
        Ok((segments, if moved == 0 { count } else { moved }))
    }

    /// Decodes at higher and higher temperatures until the result is good enough.
    fn decode(
        &mut self,
        engine: &mut Engine,
        vocabulary: &Vocabulary,
        prompted: &Prompted,
    ) -> Result<(Decoded, f32), Error> {
        let limits = self.options.decoding.clone();
        let mut result = None;
        for temperature in &limits.temperatures {
            let random = &mut self.said.random;
            let decoded = decode::decode(engine, vocabulary, &self.rules, prompted, &limits, *temperature, random)?;
            let ratio = compression_ratio(vocabulary.text(&decoded.tokens).trim());
            let unlikely = decoded.log_probability < limits.log_probability;
            let silence = prompted.no_speech > limits.no_speech && unlikely;
            let good = silence || ratio <= limits.compression_ratio && !unlikely;
            result = Some((decoded, ratio));
            if good {
                break;
            }
        }
        result.ok_or(Error::NoTemperature)
    }
}

/// Cuts tokens at pairs of timestamps: (start, end, tokens) in seconds of the window, whether a timestamp alone ends it,
/// and how many of the `count` frames are done.
#[allow(clippy::type_complexity)]
fn spans(vocabulary: &Vocabulary, tokens: &[u32], count: usize) -> (Vec<(f64, f64, Vec<u32>)>, bool, usize) {
    let is_timestamp: Vec<bool> = tokens.iter().map(|t| vocabulary.is_timestamp(*t)).collect();
    let step = |token: u32| token.saturating_sub(vocabulary.first_timestamp) as usize;
    let seconds = |token: u32| step(token) as f64 / STEPS as f64;
    let single_ending = matches!(is_timestamp[..], [.., false, true]);
    let mut cuts: Vec<usize> = (1..tokens.len()).filter(|i| is_timestamp[i - 1] && is_timestamp[*i]).collect();
    if cuts.is_empty() {
        let last = tokens.iter().rev().find(|t| vocabulary.is_timestamp(**t)).map(|t| seconds(*t));
        let end = last.filter(|s| *s > 0.0).unwrap_or(count as f64 / FRAME_RATE as f64);
        return (vec![(0.0, end, tokens.to_vec())], single_ending, count);
    }
    if single_ending {
        cuts.push(tokens.len());
    }
    let mut spans = Vec::new();
    let mut from = 0;
    for cut in cuts {
        let part = &tokens[from..cut];
        if let (Some(first), Some(last)) = (part.first(), part.last()) {
            spans.push((seconds(*first), seconds(*last), part.to_vec()));
        }
        from = cut;
    }
    let moved = if single_ending { count } else { step(tokens[from - 1]) * FRAMES_PER_STEP };
    (spans, single_ending, moved)
}

/// How well a text compresses: repetition does best.
fn compression_ratio(text: &str) -> f32 {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let written = std::io::Write::write_all(&mut encoder, text.as_bytes()).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    text.len() as f32 / written.map_or(1, |bytes| bytes.len().max(1)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_compresses() {
        assert!(compression_ratio("A man went to the shore and saw the ships.") < 1.2);
        assert!(compression_ratio(&"and so on ".repeat(30)) > 2.4);
    }
}
