//! The tokens of a speech model's vocabulary that are no words: what to do, in which language, and when. All follow from how
//! many tokens the vocabulary has.

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

/// Words of the English vocabulary, its end included; the multilingual one has one more.
const ENGLISH: usize = 50_257;
/// Timestamps from 0 to 30 seconds.
const TIMESTAMPS: usize = 1501;
/// Tokens between the languages and the timestamps.
const TASKS: usize = 6;

/// Tokens by what they mean. Those of a task and a language are not in a vocabulary of English alone.
#[derive(Clone, Debug)]
pub struct SpeechMarks {
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

impl SpeechMarks {
    /// Those of a vocabulary of `size` tokens; `None` where no speech model has as many.
    pub fn of_size(size: usize) -> Option<Self> {
        let languages = size.checked_sub(ENGLISH + 1 + TASKS + TIMESTAMPS)?;
        // The vocabulary of English alone keeps the places of 99 languages.
        let multilingual = languages > 99;
        let languages = languages - usize::from(multilingual);
        if !(99..=LANGUAGES.len()).contains(&languages) {
            return None;
        }
        let end = (ENGLISH - 1 + usize::from(multilingual)) as u32;
        let tasks = end + 2 + languages as u32;
        Some(Self {
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
        })
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_hundred_languages_and_the_last_came_last() {
        assert_eq!(LANGUAGES.len(), 100);
        assert_eq!((LANGUAGES[0].0, LANGUAGES[99].0), ("en", "yue"));
    }

    #[test]
    fn marks_follow_from_the_number_of_tokens() {
        // The three vocabularies that the original models have.
        for (size, multilingual, end, first_timestamp) in
            [(51_864, false, 50_256, 50_363), (51_865, true, 50_257, 50_364), (51_866, true, 50_257, 50_365)]
        {
            let marks = SpeechMarks::of_size(size).unwrap();
            assert_eq!((marks.multilingual, marks.end, marks.first_timestamp), (multilingual, end, first_timestamp));
            assert_eq!(marks.first_timestamp as usize + TIMESTAMPS, size);
            assert_eq!(marks.mark(marks.end).unwrap(), "<|endoftext|>");
            assert_eq!(marks.mark(first_timestamp + 50).unwrap(), "<|1.00|>");
            assert_eq!(marks.mark(marks.language("German").unwrap()).unwrap(), "<|de|>");
            assert!(marks.mark(end - 1).is_none());
        }
        assert!(SpeechMarks::of_size(32_000).is_none() && SpeechMarks::of_size(51_900).is_none());
    }
}
