//! Speech to text: a recording window by window, as Whisper's reference decodes it.
//!
//! A window is 30 seconds; the next begins where the last timestamp of this one says. What is too repetitive or too
//! unlikely is decoded again at higher temperatures; what is likely no speech is skipped; silence is not even tried.

pub(crate) mod encoder;

#[cfg(feature = "audio")]
mod decoding;
#[cfg(feature = "audio")]
mod live;
#[cfg(feature = "audio")]
mod options;
#[cfg(feature = "audio")]
mod spans;
#[cfg(feature = "audio")]
mod subtitles;
#[cfg(feature = "audio")]
mod transcriber;
#[cfg(feature = "audio")]
mod transcript;
#[cfg(feature = "audio")]
mod vad;
#[cfg(feature = "audio")]
mod vocabulary;
#[cfg(feature = "audio")]
mod voice;
#[cfg(feature = "audio")]
mod words;

#[cfg(feature = "audio")]
pub use self::{
    live::Live,
    options::{Decoding, MAX_CANDIDATES, Silence, Task, TranscribeOptions},
    subtitles::{Cue, srt, vtt},
    transcriber::{Times, Transcriber},
    transcript::{Event, Segment, Transcript, Word},
    vocabulary::Vocabulary,
    voice::{VoiceModel, Voices},
};
#[cfg(feature = "audio")]
pub use akunu_audio::{Features, Pcm, SAMPLE_RATE, Source};
#[cfg(feature = "audio")]
pub use akunu_text::LANGUAGES;
