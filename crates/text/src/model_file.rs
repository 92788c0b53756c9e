//! Tokenizers and chat templates of model files: GGUF metadata, or `tokenizer.json` and its neighbours beside safetensors.

use akunu_formats::gguf::Metadata as Gguf;
use akunu_formats::{Metadata, ModelFile};
use serde_json::Value;

use crate::chat::ChatTemplate;
use crate::error::{Error, excerpt};
use crate::gguf::GgufVocab;
use crate::tokenizer::Tokenizer;

impl Tokenizer {
    /// The tokenizer that a model file carries or has beside it, within the file's limits.
    pub fn from_model_file(file: &ModelFile) -> Result<Self, Error> {
        match file.metadata() {
            Metadata::Gguf(metadata) => Tokenizer::from_gguf_within(gguf_vocab(metadata)?, file.limits()),
            Metadata::Json(_) => {
                let Some(json) = file.side_file("tokenizer.json").transpose()? else {
                    return Err(Error::NoTokenizer("there is no tokenizer.json beside it".to_owned()));
                };
                let config = file.side_file("tokenizer_config.json").transpose()?;
                Tokenizer::from_tokenizer_json_within(&json, config.as_deref(), file.limits())
            }
        }
    }
}

impl ChatTemplate {
    /// The chat template that a model file carries or has beside it, within the file's limits. Without one there is no prompt to guess:
    /// [`Error::NoChatTemplate`].
    pub fn from_model_file(file: &ModelFile) -> Result<Self, Error> {
        if let Metadata::Gguf(metadata) = file.metadata() {
            let source = metadata.str("tokenizer.chat_template")?.ok_or(Error::NoChatTemplate)?;
            return ChatTemplate::new_within(source, file.limits());
        }
        if let Some(source) = file.side_file("chat_template.jinja").transpose()? {
            let source = String::from_utf8(source)
                .map_err(|_| Error::TemplateSyntax("chat_template.jinja is not UTF-8".to_owned()))?;
            return ChatTemplate::new_within(&source, file.limits());
        }
        for name in ["chat_template.json", "tokenizer_config.json"] {
            let Some(bytes) = file.side_file(name).transpose()? else { continue };
            let config: Value = serde_json::from_slice(&bytes)
                .map_err(|error| Error::InvalidJson { file: name, reason: excerpt(&error.to_string()) })?;
            if let Some(source) = default_template(&config["chat_template"]) {
                return ChatTemplate::new_within(source, file.limits());
            }
        }
        Err(Error::NoChatTemplate)
    }
}

/// A template, or the one called `default` in a list of named ones, or the only one.
fn default_template(value: &Value) -> Option<&str> {
    if let Some(source) = value.as_str() {
        return Some(source);
    }
    let named = value.as_array()?;
    let default = named.iter().find(|entry| entry["name"] == "default");
    default.or(named.first().filter(|_| named.len() == 1))?["template"].as_str()
}

fn gguf_vocab(metadata: &Gguf) -> Result<GgufVocab<'_>, Error> {
    let Some(model) = metadata.str("tokenizer.ggml.model")? else {
        return Err(Error::NoTokenizer("the file has no tokenizer.ggml.model".to_owned()));
    };
    if matches!(model, "no_vocab" | "none") {
        return Err(Error::NoTokenizer("the file says so".to_owned()));
    }
    let strings = |key: &'static str| match metadata.array(key)? {
        None => Ok(Vec::new()),
        Some(array) => match array.strings() {
            Some(strings) => Ok(strings.collect()),
            None => Err(Error::InvalidMetadata { key, expected: "an array of strings" }),
        },
    };
    let key = "tokenizer.ggml.scores";
    let scores = match metadata.array(key)? {
        None => None,
        Some(array) => match (array.f32s(), array.i64s()) {
            (Some(values), _) => Some(values.collect()),
            (None, Some(values)) => Some(values.map(|v| v as f32).collect()),
            (None, None) => return Err(Error::InvalidMetadata { key, expected: "an array of numbers" }),
        },
    };
    let integers = |key: &'static str| -> Result<Option<Vec<i64>>, Error> {
        let Some(array) = metadata.array(key)? else { return Ok(None) };
        let values = array.i64s().ok_or(Error::InvalidMetadata { key, expected: "an array of integers" })?;
        Ok(Some(values.collect()))
    };
    let id = |key: &'static str, what: &'static str| -> Result<Option<u32>, Error> {
        // Some writers put -1, or its unsigned twin, for "none".
        if matches!(metadata.get(key), Some(akunu_formats::gguf::Value::I64(-1))) {
            return Ok(None);
        }
        let Some(id) = metadata.u64(key)? else { return Ok(None) };
        if id == u64::from(u32::MAX) || id == u64::MAX {
            return Ok(None);
        }
        let count = metadata.array("tokenizer.ggml.tokens")?.map_or(0, |a| a.len());
        u32::try_from(id).map(Some).map_err(|_| Error::SpecialIdOutOfRange { what, id, count })
    };
    let charsmap = integers("tokenizer.ggml.precompiled_charsmap")?;
    Ok(GgufVocab {
        model,
        pre: metadata.str("tokenizer.ggml.pre")?,
        tokens: strings("tokenizer.ggml.tokens")?,
        scores,
        types: integers("tokenizer.ggml.token_type")?,
        merges: strings("tokenizer.ggml.merges")?,
        bos: id("tokenizer.ggml.bos_token_id", "BOS")?,
        eos: id("tokenizer.ggml.eos_token_id", "EOS")?,
        eot: id("tokenizer.ggml.eot_token_id", "EOT")?,
        eom: id("tokenizer.ggml.eom_token_id", "EOM")?,
        unknown: id("tokenizer.ggml.unknown_token_id", "unknown")?,
        // The misspelling is the key's name.
        separator: id("tokenizer.ggml.seperator_token_id", "SEP")?,
        pad: id("tokenizer.ggml.padding_token_id", "PAD")?,
        cls: id("tokenizer.ggml.cls_token_id", "CLS")?,
        mask: id("tokenizer.ggml.mask_token_id", "MASK")?,
        add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
        add_eos: metadata.bool("tokenizer.ggml.add_eos_token")?,
        add_separator: metadata.bool("tokenizer.ggml.add_sep_token")?,
        add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
        remove_extra_whitespaces: metadata.bool("tokenizer.ggml.remove_extra_whitespaces")?,
        lowercase: metadata.bool("tokenizer.ggml.normalizer.lowercase")?,
        strip_accents: metadata.bool("tokenizer.ggml.normalizer.strip_accents")?,
        precompiled_charsmap: charsmap.map(|values| values.into_iter().map(|v| v as u8).collect()),
        name: metadata.str("general.name")?,
    })
}

#[cfg(test)]
mod tests {
    use super::default_template;
    use serde_json::json;

    #[test]
    fn named_templates() {
        for (value, expected) in [
            (json!("a"), Some("a")),
            (json!([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]), Some("d")),
            (json!([{"name": "only", "template": "o"}]), Some("o")),
            (json!([{"name": "x", "template": "x"}, {"name": "y", "template": "y"}]), None),
            (json!(null), None),
        ] {
            assert_eq!(default_template(&value), expected, "{value}");
        }
    }
}
