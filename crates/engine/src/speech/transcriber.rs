//! A model of speech at work: recordings, their windows, and what a window knows of those before it.

use super::decoding::{self, Decoded, Prompted};
use super::spans::{Spans, compression_ratio};
use super::vocabulary::FRAMES_PER_TIMESTAMP;
use super::{Event, MAX_CANDIDATES, Segment, Task, TranscribeOptions, Transcript, Vocabulary, vad, words};
use crate::{Engine, Error, LoadOptions, Sequence};
use akunu_audio::{FRAME_RATE, Features};
use akunu_formats::ModelFile;
use akunu_plan::rules::{Rules, log_sum};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a model was busy so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Windows that were encoded.
    pub windows: usize,
    /// The audio encoder.
    pub encoder: Duration,
    /// Languages, text and words, with what is decided between their steps.
    pub decoder: Duration,
}

/// A model of speech.
pub struct Transcriber {
    pub(super) engine: Engine,
    vocabulary: Vocabulary,
    times: Times,
}

impl Transcriber {
    /// Loads a whisper.cpp file, a GGUF or safetensors file, or an HF directory.
    pub fn load(path: &Path, options: LoadOptions) -> Result<Self, Error> {
        Self::from_file(ModelFile::open_within(path, options.limits)?, options)
    }

    /// Loads an opened file. How many sequences there are, it decides itself: `options.sequences` does not matter.
    pub fn from_file(file: ModelFile, mut options: LoadOptions) -> Result<Self, Error> {
        // Beams and samples are sequences of their own, beside the encoded window and its prompt.
        options.sequences = 2 * MAX_CANDIDATES + 2;
        let engine = Engine::from_file(file, options)?;
        if engine.encoder_positions() == 0 {
            return Err(Error::NoAudioEncoder);
        }
        let vocabulary = Vocabulary::new(engine.file(), engine.tokenizer(), engine.vocab())?;
        Ok(Self { engine, vocabulary, times: Times::default() })
    }

    /// The model.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Its words and marks.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// How long the model was busy since it was loaded.
    pub fn times(&self) -> Times {
        self.times
    }

    /// Bands of the frames that the model encodes.
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
        let mut transcription = Transcription::new(self, options)?;
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
                match vad::classify(&quiet, seek + count == total) {
                    vad::Content::Speech(frames) => count = frames,
                    silent => {
                        seek += silent.left_out(count);
                        transcription.forget();
                        if each(Event::Progress(seek.min(total))).is_break() {
                            break;
                        }
                        continue;
                    }
                }
            }
            let energies = &energies[..energies.len().min(count * bands)];
            let frames = akunu_audio::window(energies, most * bands, peak);
            let knew = transcription.history.language.is_some();
            quiet.truncate(count);
            let (segments, moved) =
                transcription.transcribe(self, &Window { frames: &frames, seek, count, quiet: &quiet })?;
            if !knew && each(Event::Language(transcription.language())).is_break() {
                break;
            }
            for segment in segments {
                if each(Event::Segment(&segment)).is_break() {
                    transcript.segments.push(segment);
                    transcript.language = transcription.language().to_string();
                    return Ok(transcript);
                }
                transcript.segments.push(segment);
            }
            seek += moved;
            if each(Event::Progress(seek.min(total))).is_break() {
                break;
            }
        }
        transcript.language = transcription.language().to_string();
        Ok(transcript)
    }

    /// The languages a window may be in with their probabilities, likeliest first.
    pub fn languages(&mut self, frames: &[f32]) -> Result<Vec<(&'static str, f32)>, Error> {
        let mut encoded = self.engine.sequence();
        self.engine.encode(&mut encoded, frames)?;
        self.languages_of(&encoded)
    }

    fn languages_of(&mut self, encoded: &Sequence) -> Result<Vec<(&'static str, f32)>, Error> {
        let logits = self.engine.prefill(&mut encoded.fork(), &[self.vocabulary.start])?;
        let mut found: Vec<(&str, f32)> =
            self.vocabulary.languages().map(|(code, token)| (code, logits[token as usize])).collect();
        let total = log_sum(&found.iter().map(|f| f.1).collect::<Vec<f32>>());
        found.iter_mut().for_each(|f| f.1 = (f.1 - total).exp());
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(found)
    }
}

/// A window of a recording.
pub(super) struct Window<'a> {
    /// As the model is given them; `count` from frame `seek` on are the recording's.
    pub frames: &'a [f32],
    pub seek: usize,
    pub count: usize,
    /// By frame of the recording, where it is known.
    pub quiet: &'a [bool],
}

/// A transcription on its way.
pub(super) struct Transcription {
    options: TranscribeOptions,
    rules: Rules,
    /// Tokens of the prompt.
    prompt: Vec<u32>,
    pub history: History,
}

/// What a window knows of those before it.
#[derive(Clone)]
pub(super) struct History {
    pub language: Option<String>,
    /// Tokens of the prompt and of all windows, as far as the next may see them.
    previous: Vec<u32>,
    last_end: f64,
    random: u64,
}

impl Transcription {
    pub fn new(transcriber: &Transcriber, options: &TranscribeOptions) -> Result<Self, Error> {
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
            Some(text) => vocabulary.encode(&format!(" {}", text.trim()))?,
            None => Vec::new(),
        };
        let rules = vocabulary.rules(options.timestamps)?;
        let random = options.decoding.seed;
        let mut options = options.clone();
        options.decoding.beams = options.decoding.beams.clamp(1, MAX_CANDIDATES);
        options.decoding.best_of = options.decoding.best_of.clamp(1, MAX_CANDIDATES);
        let history = History { language, previous: prompt.clone(), last_end: 0.0, random };
        Ok(Self { options, rules, prompt, history })
    }

    pub fn language(&self) -> &str {
        self.history.language.as_deref().unwrap_or("")
    }

    /// Forgets all text but the prompt, after a silence that was left out. Texts of short stretches, each with times that
    /// begin at zero, are not what a model was taught to go on from: with more and more of them before it, it says that a text
    /// ends where somebody still speaks.
    pub fn forget(&mut self) {
        self.history.previous.clone_from(&self.prompt);
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
    pub fn transcribe(
        &mut self,
        transcriber: &mut Transcriber,
        window: &Window<'_>,
    ) -> Result<(Vec<Segment>, usize), Error> {
        let began = Instant::now();
        let mut encoded = transcriber.engine.sequence();
        transcriber.engine.encode(&mut encoded, window.frames)?;
        transcriber.times.windows += 1;
        transcriber.times.encoder += began.elapsed();
        let began = Instant::now();
        let result = self.write(transcriber, &encoded, window);
        transcriber.times.decoder += began.elapsed();
        result
    }

    /// What is said in an encoded window.
    fn write(
        &mut self,
        transcriber: &mut Transcriber,
        encoded: &Sequence,
        &Window { seek, count, quiet, .. }: &Window<'_>,
    ) -> Result<(Vec<Segment>, usize), Error> {
        if self.history.language.is_none() {
            let found = transcriber.languages_of(encoded)?;
            self.history.language = found.first().map(|(code, _)| code.to_string());
        }
        let (engine, vocabulary) = (&mut transcriber.engine, &transcriber.vocabulary);
        let task = self.task(vocabulary);
        let most = engine.context() / 2 - 1;
        let previous = &self.history.previous[self.history.previous.len().saturating_sub(most)..];
        let prompted = Prompted::new(engine, vocabulary, encoded, previous, &task)?;
        let (decoded, ratio) = self.decode(engine, vocabulary, &prompted)?;
        let limits = &self.options.decoding;
        if prompted.no_speech > limits.no_speech && decoded.log_probability <= limits.log_probability {
            return Ok((Vec::new(), count));
        }
        let offset = seek as f64 / FRAME_RATE as f64;
        let mut spans = Spans::of(vocabulary, &decoded.tokens, count);
        spans.continue_after_pause(quiet);
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
            let language = self.history.language.as_deref().unwrap_or("");
            let (positions, last_end) = (count / FRAMES_PER_TIMESTAMP, self.history.last_end);
            let window = words::EncodedWindow { sequence: encoded, task: &task, positions, offset, language, last_end };
            words::time_words(engine, vocabulary, &window, &mut segments)?;
            let last = segments.iter().rev().find_map(|s| s.words.last().map(|w| w.end));
            if let Some(last) = last.filter(|end| *end > offset) {
                if !is_last {
                    moved = Features::frame_at(last).saturating_sub(seek);
                }
                self.history.last_end = last;
            }
        }
        segments.retain(|s| s.start != s.end && !s.text.trim().is_empty());
        self.history.previous.extend(segments.iter().flat_map(|s| &s.tokens));
        if !self.options.condition || decoded.temperature > 0.5 {
            self.history.previous.clear();
        }
        // No more than a window may see.
        let unseen = self.history.previous.len().saturating_sub(most);
        self.history.previous.drain(..unseen);
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
            let random = &mut self.history.random;
            let decoded = decoding::decode(engine, &self.rules, prompted, &limits, *temperature, random)?;
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
