//! Everything that can go wrong, one sentence each.

/// Everything that can go wrong; every variant says it in one sentence.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Format(#[from] akunu_formats::Error),
    #[error(transparent)]
    Model(#[from] akunu_arch::Error),
    #[error(transparent)]
    Build(#[from] akunu_plan::BuildError),
    #[error(transparent)]
    Kernel(#[from] akunu_plan::NoKernel),
    #[error(transparent)]
    Device(#[from] crate::DeviceError),
    #[error(transparent)]
    Load(#[from] akunu_plan::LoadError),
    #[error(transparent)]
    Submit(#[from] akunu_plan::SubmitError),
    #[error("could not start a thread: {0}")]
    Thread(#[source] std::io::Error),
    #[error(transparent)]
    Text(#[from] akunu_text::Error),
    #[error("{tokens} tokens do not fit a context of {context}: {} too many; make it larger or the prompt shorter", tokens - context)]
    ContextFull { tokens: usize, context: usize },
    #[error("a context of {context} is too long: at most {most} positions")]
    ContextTooLong { context: usize, most: usize },
    #[error("a text of {tokens} tokens is too large: the model reads at most {context}")]
    TextTooLong { tokens: usize, context: usize },
    #[error("all {blocks} blocks of the KV cache are in use")]
    KvFull { blocks: usize },
    #[error("token {token} is not in the vocabulary of {vocab}")]
    Token { token: u32, vocab: usize },
    #[error("a step of {rows} rows and {outputs} outputs: at most {max_rows} and {max_outputs} fit")]
    StepTooLarge { rows: usize, outputs: usize, max_rows: usize, max_outputs: usize },
    #[cfg(feature = "audio")]
    #[error(transparent)]
    Audio(#[from] akunu_audio::Error),
    #[error("a vocabulary of {vocab} tokens is not that of a model of speech")]
    NotSpeech { vocab: usize },
    #[error("{name:?} is not a language that the model knows; give a code such as en or de, or its English name")]
    Language { name: String },
    #[error("the model knows English only, not {name:?}")]
    EnglishOnly { name: String },
    #[error("the model knows English only and cannot translate")]
    CannotTranslate,
    #[error("at least one temperature is needed")]
    NoTemperature,
    #[error("{path}: is not Silero's voice detector for 16 kHz: {what}")]
    VoiceModel { path: String, what: String },
    #[error("the sequence has no encoded audio yet")]
    NoAudio,
    #[error("the model has no audio encoder: speech needs a model such as Whisper")]
    NoAudioEncoder,
    #[error(
        "{values} values are not audio frames that an empty sequence takes: up to {frames} frames of {bands} bands"
    )]
    Frames { values: usize, frames: usize, bands: usize },
    #[error("the model's results are not finite numbers: its weights are damaged, or do not fit this number format")]
    NotFinite,
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("{path}: the model has no tokenizer; give token ids instead of text")]
    NoTokenizer { path: String },
    #[error("the draft model has {what}: its vocabulary must be the model's own")]
    OtherVocabulary { what: String },
    #[error("the session file {path} cannot be used: {error}")]
    Session { path: String, error: crate::SessionError },
    #[error("{}", does_not_fit(needs, *context, *available, *longest))]
    DoesNotFit { needs: crate::Needs, context: usize, available: u64, longest: usize },
    #[error("the generation could not go on: {why}")]
    Stopped { why: String },
}

fn does_not_fit(needs: &crate::Needs, context: usize, available: u64, longest: usize) -> String {
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let advice = match longest {
        0 => "use a smaller model or a smaller number format".to_owned(),
        longest => format!("--context {longest} would fit, or --kv q8_0"),
    };
    format!(
        "the model needs {} ({} weights, {} KV cache for a context of {context}, {} scratch), and {} are free: {advice}",
        mb(needs.total()),
        mb(needs.weights),
        mb(needs.kv),
        mb(needs.scratch),
        mb(available),
    )
}
