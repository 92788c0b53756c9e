//! Speech to text: a recording window by window, as Whisper's reference decodes it.
//!
//! A window is 30 seconds; the next begins where the last timestamp of this one says. What is too repetitive or too
//! unlikely is decoded again at higher temperatures; what is likely no speech is skipped; silence is not even tried.

mod decode;
mod live;
mod spans;
mod vad;
mod vocabulary;
mod voice;
mod words;

use crate::{Engine, Error, LoadOptions, Sequence};
use akunu_audio::{FRAME_RATE, Features};
use akunu_formats::ModelFile;
use akunu_plan::rules::{Rules, log_sum};
use decode::{Decoded, Prompted};
use spans::{Spans, compression_ratio};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};
use vad::Detector;

pub use akunu_text::LANGUAGES;
pub use live::Live;
pub use vocabulary::Vocabulary;
pub use voice::{VoiceModel, Voices};

/// What to write down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// What is said, in its language.
    #[default]
    Transcribe,
    /// What is said, in English.
    Translate,
}

/// What is done about silence before the model hears it.
#[derive(Clone, Debug, Default)]
pub enum Silence {
    /// The model hears it, and may make something up.
    Keep,
    /// What is not loud enough is left out.
    #[default]
    ByEnergy,
    /// What has no voice in it is left out, however loud it is.
    ByVoice(VoiceModel),
}

impl Silence {
    fn detector(&self) -> Option<Detector> {
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
    /// Whether a window knows the text of those before it, back to a silence that was left out.
    pub condition: bool,
    pub timestamps: bool,
    /// When each word was said.
    pub words: bool,
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
        let mut detector = options.silence.detector();
        let mut seek = 0;
        while seek < total {
            let (peak, mut count) = (features.peak(), most.min(total - seek));
            let mut quiet = Vec::new();
            let energies = features.energies(seek, count, &mut |samples| {
                if let Some(detector) = &mut detector {
                    detector.push(samples);
                }
            })?;
            if let Some(detector) = &mut detector {
                quiet = detector.quiet(seek, energies, bands, peak);
                match vad::hear(&quiet, seek + count == total) {
                    vad::Heard::Speech(frames) => count = frames,
                    silent => {
                        seek += silent.left_out(count);
                        session.forget();
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
            quiet.truncate(count);
            let (segments, moved) = session.window(self, &Stretch { frames: &frames, seek, count, quiet: &quiet })?;
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
        let total = log_sum(&found.iter().map(|f| f.1).collect::<Vec<f32>>());
        found.iter_mut().for_each(|f| f.1 = (f.1 - total).exp());
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(found)
    }
}

/// A window of a recording.
struct Stretch<'a> {
    /// As the model is given them; `count` from frame `seek` on are the recording's.
    frames: &'a [f32],
    seek: usize,
    count: usize,
    /// By frame of the recording, where it is known.
    quiet: &'a [bool],
}

/// A transcription on its way.
struct Session {
    options: TranscribeOptions,
    rules: Rules,
    /// Tokens of the prompt.
    prompt: Vec<u32>,
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
        let prompt = match &options.prompt {
            Some(text) => vocabulary.encode(&format!(" {}", text.trim())),
            None => Vec::new(),
        };
        let rules = vocabulary.rules(options.timestamps);
        let random = options.decoding.seed;
        let mut options = options.clone();
        options.decoding.beams = options.decoding.beams.clamp(1, MAX_CANDIDATES);
        options.decoding.best_of = options.decoding.best_of.clamp(1, MAX_CANDIDATES);
        let said = Said { language, previous: prompt.clone(), last_end: 0.0, random };
        Ok(Self { options, rules, prompt, said })
    }

    fn language(&self) -> &str {
        self.said.language.as_deref().unwrap_or("")
    }

    /// Forgets all text but the prompt, after a silence that was left out. Texts of short stretches, each with times that
    /// begin at zero, are not what a model was taught to go on from: with more and more of them before it, it says that a text
    /// ends where somebody still speaks.
    fn forget(&mut self) {
        self.said.previous.clone_from(&self.prompt);
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

    /// Decodes a window: its segments, and how many frames to move on.
    fn window(&mut self, transcriber: &mut Transcriber, stretch: &Stretch<'_>) -> Result<(Vec<Segment>, usize), Error> {
        let began = Instant::now();
        let mut heard = transcriber.engine.sequence();
        transcriber.engine.hear(&mut heard, stretch.frames)?;
        transcriber.took.windows += 1;
        transcriber.took.encoder += began.elapsed();
        let began = Instant::now();
        let result = self.write(transcriber, &heard, stretch);
        transcriber.took.decoder += began.elapsed();
        result
    }

    /// What is said in a window that was heard.
    fn write(
        &mut self,
        transcriber: &mut Transcriber,
        heard: &Sequence,
        &Stretch { seek, count, quiet, .. }: &Stretch<'_>,
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
        let mut spans = Spans::of(vocabulary, &decoded.tokens, count);
        spans.hear_on(quiet);
        let Spans { spans, is_last, mut moved } = spans;
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
                if !is_last {
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
            let decoded = decode::decode(engine, &self.rules, prompted, &limits, *temperature, random)?;
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
