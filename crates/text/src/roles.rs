//! Which tokens end an answer: vocabularies say it by the token's text more often than by metadata.

use crate::vocab::{TokenKind, Vocab};

/// Special tokens after which a model has nothing more to say, in the vocabularies that have them.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<reponame>",
    "<|file_sep|>",
];

/// The ids after which generation stops, sorted. `named` are those that the metadata gives. Tokens of the list that are
/// ordinary text in this vocabulary do not count.
pub(crate) fn end_of_generation(vocab: &mut Vocab, named: impl Iterator<Item = u32>) -> Vec<u32> {
    let special = |vocab: &Vocab, text: &str| {
        vocab.id(text.as_bytes()).filter(|&id| matches!(vocab.kind(id), TokenKind::Control | TokenKind::UserDefined))
    };
    let mut ids: Vec<u32> = named.chain(ENDS.iter().filter_map(|text| special(vocab, text))).collect();
    let has = |text| special(vocab, text).is_some();
    // Where messages end in <|end|> and turns in another token, <|end|> ends nothing.
    if has("<|call|>") && has("<|return|>") || has("<|calls|>") && has("<|flush|>") {
        let end = special(vocab, "<|end|>");
        ids.retain(|&id| Some(id) != end);
    }
    // Gemma 4 has </s> as plain HTML.
    if has("<|tool_response>") {
        let end = special(vocab, "</s>");
        ids.retain(|&id| Some(id) != end);
    }
    ids.sort_unstable();
    ids.dedup();
    for &id in &ids {
        // Metadata may name a token that is typed as text; as an end it is never text.
        if vocab.kind(id) != TokenKind::UserDefined {
            vocab.set_kind(id, TokenKind::Control);
        }
    }
    ids
}
