//! Tokenizers, chat templates, grammars and replies: text to token ids and back, conversations to prompts, which tokens may
//! come next, and what a model's answer says.
//!
//! This crate knows no models and no tensors. A [`Tokenizer`] comes from a GGUF file's metadata or from `tokenizer.json`;
//! whichever way, it is the same machine: added tokens are cut out, the rest is normalized, split into words, and each
//! word is encoded by one of four models (byte-pair, SentencePiece, WordPiece, Unigram). Everything runs in time linear in
//! the text, whatever the text is; where a hostile file's rules would not, a budget ends them with an error.
#![forbid(unsafe_code)]

mod added;
mod bpe;
mod budget;
mod byte_level;
mod charsmap;
mod chat;
mod error;
mod gguf;
mod grammar;
mod guard;
mod hash;
mod hf;
mod matcher;
mod merge;
mod model_file;
mod normalize;
mod pattern;
mod pre_names;
mod ranked;
mod reply;
mod roles;
mod space_breaks;
mod speech;
mod split;
mod spm;
mod stream;
mod tokenizer;
mod unigram;
mod vocab;
mod wordpiece;

pub use chat::ChatTemplate;
pub use error::Error;
pub use gguf::GgufVocab;
pub use grammar::{Grammar, Grammars, Matcher};
pub use pre_names::{GPT2_PATTERN, pre_tokenizer_name};
pub use ranked::Ranked;
pub use reply::{ReplyFormat, ReplyPart, ReplyReader, ThinkTags, Tool, ToolChoice, ToolInput, closed_schema};
pub use speech::{LANGUAGES, SpeechMarks};
pub use stream::Detokenizer;
pub use tokenizer::{Encode, Tokenizer};
pub use vocab::TokenKind;
