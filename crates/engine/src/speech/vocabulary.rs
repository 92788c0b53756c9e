//! The vocabulary of a speech model: words, and the tokens that say what to do, in which language, and when.

use crate::Error;
use akunu_audio::FRAME_RATE;
use akunu_formats::ModelFile;
use akunu_plan::Rules;
use akunu_text::{Encode, Ranked, SpeechMarks, Tokenizer};
use bytemuck::Zeroable;
use std::ops::Deref;

/// Timestamps of a second, and audio frames from one to the next.
pub const TIMESTAMPS_PER_SECOND: usize = 50;
pub const FRAMES_PER_TIMESTAMP: usize = FRAME_RATE / TIMESTAMPS_PER_SECOND;

/// Where the bytes of a token come from.
enum Words {
    Ranked(Box<Ranked>),
    Tokenizer(Tokenizer),
}

/// Words, and the tokens beside them.
pub struct Vocabulary {
    words: Words,
    marks: SpeechMarks,
}

impl Deref for Vocabulary {
    type Target = SpeechMarks;

    fn deref(&self) -> &SpeechMarks {
        &self.marks
    }
}

impl Vocabulary {
    /// The tokens of a model with `size` of them.
    pub fn new(file: &ModelFile, tokenizer: Option<&Tokenizer>, size: usize) -> Result<Self, Error> {
        let marks = SpeechMarks::of_size(size).ok_or(Error::NotSpeech { vocab: size })?;
        let words = match tokenizer {
            Some(tokenizer) => Words::Tokenizer(tokenizer.clone()),
            None => Words::Ranked(Box::new(Ranked::new(file.tokens())?.within(file.limits()))),
        };
        let vocabulary = Self { words, marks };
        match vocabulary.bytes(0).is_empty() {
            true => Err(Error::NoTokenizer { path: file.path().display().to_string() }),
            false => Ok(vocabulary),
        }
    }

    /// The bytes of a word's token; nothing for others.
    pub fn bytes(&self, token: u32) -> &[u8] {
        match &self.words {
            _ if token >= self.end => &[],
            Words::Ranked(words) => words.bytes(token),
            Words::Tokenizer(words) => words.token_bytes(token),
        }
    }

    /// A text's tokens, without marks.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(match &self.words {
            Words::Ranked(words) => words.encode(text)?,
            Words::Tokenizer(words) => words.encode(text, Encode::default())?,
        })
    }

    /// The words among `tokens` as text.
    pub fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|t| self.bytes(*t)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What a text obeys.
    pub fn rules(&self, timestamps: bool) -> Result<Rules, Error> {
        let rules = Rules {
            end: self.end,
            first_timestamp: self.first_timestamp,
            timestamps: timestamps.into(),
            // One second.
            latest_start: TIMESTAMPS_PER_SECOND as u32,
            ..Rules::zeroed()
        };
        let never = [self.unspoken()?, vec![self.no_timestamps]].concat();
        let not_first = [self.encode(" ")?, vec![self.end]].concat();
        Ok(rules.listing(&never, &not_first))
    }

    /// Tokens that are never said: marks of speakers and noises, and those that ask instead of answer.
    pub fn unspoken(&self) -> Result<Vec<u32>, Error> {
        const SINGLE: &str = "\"#()*+/:;<=>@[\\]^_`{|}~「」『』";
        const RUNS: &str = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪";
        const NOTES: &str = "♩♪♫♬♭♮♯";
        let first = |text: &str| Ok::<_, Error>(self.encode(text)?.first().copied());
        // A hyphen or a quote may stand inside a word, not before one.
        let mut tokens: Vec<u32> = [first(" -")?, first(" '")?].into_iter().flatten().collect();
        let symbols = SINGLE.chars().map(String::from).chain(RUNS.split(' ').map(String::from));
        for symbol in symbols {
            for text in [symbol.clone(), format!(" {symbol}")] {
                if let [token] = self.encode(&text)?[..] {
                    tokens.push(token);
                }
            }
        }
        // Notes may be several tokens; their first is no other character's.
        for note in NOTES.chars() {
            tokens.extend([first(&note.to_string())?, first(&format!(" {note}"))?].into_iter().flatten());
        }
        tokens.extend([
            self.transcribe,
            self.translate,
            self.start,
            self.previous,
            self.start_of_model,
            self.no_speech,
        ]);
        tokens.sort_unstable();
        tokens.dedup();
        Ok(tokens)
    }
}
