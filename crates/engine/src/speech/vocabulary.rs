//! The vocabulary of speech: words, and the tokens that say what to do, in which language, and when.

use super::STEPS;
use crate::Error;
use akunu_formats::ModelFile;
use akunu_plan::Rules;
use akunu_text::{Encode, Ranked, Tokenizer};
use bytemuck::Zeroable;

/// Every language by its code and name, in the order of their tokens.
#[rustfmt::skip]
pub const LANGUAGES: &[(&str, &str)] = &[
    ("en", "english"), ("zh", "chinese"), ("de", "german"), ("es", "spanish"), ("ru", "russian"), ("ko", "korean"),
    ("fr", "french"), ("ja", "japanese"), ("pt", "portuguese"), ("tr", "turkish"), ("pl", "polish"),
    ("ca", "catalan"), ("nl", "dutch"), ("ar", "arabic"), ("sv", "swedish"), ("it", "italian"),
    ("id", "indonesian"), ("hi", "hindi"), ("fi", "finnish"), ("vi", "vietnamese"), ("he", "hebrew"),
    ("uk", "ukrainian"), ("el", "greek"), ("ms", "malay"), ("cs", "czech"), ("ro", "romanian"), ("da", "danish"),
    ("hu", "hungarian"), ("ta", "tamil"), ("no", "norwegian"), ("th", "thai"), ("ur", "urdu"), ("hr", "croatian"),
    ("bg", "bulgarian"), ("lt", "lithuanian"), ("la", "latin"), ("mi", "maori"), ("ml", "malayalam"),
    ("cy", "welsh"), ("sk", "slovak"), ("te", "telugu"), ("fa", "persian"), ("lv", "latvian"), ("bn", "bengali"),
    ("sr", "serbian"), ("az", "azerbaijani"), ("sl", "slovenian"), ("kn", "kannada"), ("et", "estonian"),
    ("mk", "macedonian"), ("br", "breton"), ("eu", "basque"), ("is", "icelandic"), ("hy", "armenian"),
    ("ne", "nepali"), ("mn", "mongolian"), ("bs", "bosnian"), ("kk", "kazakh"), ("sq", "albanian"),
    ("sw", "swahili"), ("gl", "galician"), ("mr", "marathi"), ("pa", "punjabi"), ("si", "sinhala"), ("km", "khmer"),
    ("sn", "shona"), ("yo", "yoruba"), ("so", "somali"), ("af", "afrikaans"), ("oc", "occitan"), ("ka", "georgian"),
    ("be", "belarusian"), ("tg", "tajik"), ("sd", "sindhi"), ("gu", "gujarati"), ("am", "amharic"),
    ("yi", "yiddish"), ("lo", "lao"), ("uz", "uzbek"), ("fo", "faroese"), ("ht", "haitian creole"),
    ("ps", "pashto"), ("tk", "turkmen"), ("nn", "nynorsk"), ("mt", "maltese"), ("sa", "sanskrit"),
    ("lb", "luxembourgish"), ("my", "myanmar"), ("bo", "tibetan"), ("tl", "tagalog"), ("mg", "malagasy"),
    ("as", "assamese"), ("tt", "tatar"), ("haw", "hawaiian"), ("ln", "lingala"), ("ha", "hausa"), ("ba", "bashkir"),
    ("jw", "javanese"), ("su", "sundanese"), ("yue", "cantonese"),
];

/// Where the bytes of a token come from.
enum Words {
    Ranked(Ranked),
    Tokenizer(Tokenizer),
}

/// Tokens by what they mean. Those of a task and a language are not in a vocabulary of English alone.
pub struct Vocabulary {
    words: Words,
    pub multilingual: bool,
    /// The end of a text; tokens below it are words.
    pub end: u32,
    pub start: u32,
    languages: u32,
    pub translate: u32,
    pub transcribe: u32,
    pub start_of_model: u32,
    /// What was said before follows.
    pub previous: u32,
    pub no_speech: u32,
    pub no_timestamps: u32,
    /// 0.00 s; the next is 0.02 s later.
    pub first_timestamp: u32,
}

/// Words of the English vocabulary, its end included; the multilingual one has one more.
const ENGLISH: usize = 50_257;
/// Timestamps from 0 to 30 seconds.
const TIMESTAMPS: usize = 1501;
/// Tokens between the languages and the timestamps.
const TASKS: usize = 6;

impl Vocabulary {
    /// The tokens of a model with `size` of them: all follow from their number.
    pub fn new(file: &ModelFile, tokenizer: Option<&Tokenizer>, size: usize) -> Result<Self, Error> {
        let other = || Error::NotSpeech { vocab: size };
        let languages = size.checked_sub(ENGLISH + 1 + TASKS + TIMESTAMPS).ok_or_else(other)?;
        // The vocabulary of English alone keeps the places of 99 languages.
        let multilingual = languages > 99;
        let languages = languages - usize::from(multilingual);
        if !(99..=LANGUAGES.len()).contains(&languages) {
            return Err(other());
        }
        let words = match tokenizer {
            Some(tokenizer) => Words::Tokenizer(tokenizer.clone()),
            None => Words::Ranked(Ranked::new(file.tokens())?),
        };
        let end = (ENGLISH - 1 + usize::from(multilingual)) as u32;
        let tasks = end + 2 + languages as u32;
        let vocabulary = Self {
            words,
            multilingual,
            end,
            start: end + 1,
            languages: languages as u32,
            translate: tasks,
            transcribe: tasks + 1,
            start_of_model: tasks + 2,
            previous: tasks + 3,
            no_speech: tasks + 4,
            no_timestamps: tasks + 5,
            first_timestamp: tasks + 6,
        };
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

    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.words {
            Words::Ranked(words) => words.encode(text),
            Words::Tokenizer(words) => words.encode(text, Encode::default()),
        }
    }

    /// The words among `tokens` as text.
    pub fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|t| self.bytes(*t)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The token of a language, by its code or name.
    pub fn language(&self, name: &str) -> Option<u32> {
        let name = name.to_lowercase();
        let at = LANGUAGES.iter().position(|(code, full)| *code == name || *full == name)? as u32;
        (at < self.languages).then_some(self.start + 1 + at)
    }

    /// The codes and tokens of all languages there are.
    pub fn languages(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let first = self.start + 1;
        LANGUAGES.iter().take(self.languages as usize).enumerate().map(move |(i, (code, _))| (*code, first + i as u32))
    }

    /// The name of a token that is no word.
    pub fn mark(&self, token: u32) -> Option<String> {
        let language = || self.languages().find(|(_, t)| *t == token).map(|(code, _)| code);
        let name = match token {
            t if t < self.end => return None,
            t if t >= self.first_timestamp => {
                return Some(format!("<|{:.2}|>", f64::from(t - self.first_timestamp) * 0.02));
            }
            t if t == self.end => "endoftext",
            t if t == self.start => "startoftranscript",
            t if t == self.translate => "translate",
            t if t == self.transcribe => "transcribe",
            t if t == self.start_of_model => "startoflm",
            t if t == self.previous => "startofprev",
            t if t == self.no_speech => "nospeech",
            t if t == self.no_timestamps => "notimestamps",
            _ => language()?,
        };
        Some(format!("<|{name}|>"))
    }

    pub fn is_timestamp(&self, token: u32) -> bool {
        token >= self.first_timestamp
    }

    /// What a text obeys.
    pub fn rules(&self, timestamps: bool) -> Rules {
        let rules = Rules {
            end: self.end,
            first_timestamp: self.first_timestamp,
            timestamps: timestamps.into(),
            // One second.
            latest_start: STEPS as u32,
            ..Rules::zeroed()
        };
        let never = [self.unspoken(), vec![self.no_timestamps]].concat();
        let not_first = [self.encode(" "), vec![self.end]].concat();
        rules.listing(&never, &not_first)
    }

    /// Tokens that are never said: marks of speakers and noises, and those that ask instead of answer.
    pub fn unspoken(&self) -> Vec<u32> {
        const SINGLE: &str = "\"#()*+/:;<=>@[\\]^_`{|}~「」『』";
        const RUNS: &str = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪";
        const NOTES: &str = "♩♪♫♬♭♮♯";
        let first = |text: &str| self.encode(text).first().copied();
        // A hyphen or a quote may stand inside a word, not before one.
        let mut tokens: Vec<u32> = [" -", " '"].iter().filter_map(|t| first(t)).collect();
        let symbols = SINGLE.chars().map(String::from).chain(RUNS.split(' ').map(String::from));
        for symbol in symbols {
            for text in [symbol.clone(), format!(" {symbol}")] {
                if let [token] = self.encode(&text)[..] {
                    tokens.push(token);
                }
            }
        }
        // Notes may be several tokens; their first is no other character's.
        for note in NOTES.chars() {
            tokens.extend([note.to_string(), format!(" {note}")].iter().filter_map(|t| first(t)));
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
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_hundred_languages_and_the_last_came_last() {
        assert_eq!(LANGUAGES.len(), 100);
        assert_eq!((LANGUAGES[0].0, LANGUAGES[99].0), ("en", "yue"));
    }
}
