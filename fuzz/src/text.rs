//! Vocabularies with a text to encode, and chat templates with a conversation.

use akunu_formats::ModelFile;
use akunu_testkit::TempDir;
use akunu_text::{ChatTemplate, Encode, Grammar, Grammars, Tokenizer};
use serde_json::{Value, json};

use crate::{halves, is_a_sentence};

const TEXT: &str = "It's 12:30,  \u{e9}t\u{e9} \u{4f60}\u{597d} <s>\n\t\u{1f600}!";

/// A `tokenizer.json`, and a text.
pub fn tokenizer_json(bytes: &[u8]) {
    let (json, text) = halves(bytes);
    match Tokenizer::from_tokenizer_json(json, None) {
        Ok(tokenizer) => exercise(&tokenizer, text),
        Err(error) => is_a_sentence(&error),
    }
}

/// A text, and a GGUF file with a vocabulary, which grammars are compiled for too.
pub fn gguf_vocabulary(bytes: &[u8]) {
    let (text, Some(file)) = halves(bytes) else { return };
    let dir = TempDir::new();
    let Ok(file) = ModelFile::open(&dir.write("m.gguf", file)) else { return };
    let tokenizer = match Tokenizer::from_model_file(&file) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return is_a_sentence(&error),
    };
    exercise(&tokenizer, Some(text));
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size());
    let mask = grammars.and_then(|grammars| {
        let mut matcher = grammars.compile(&Grammar::Regex("[a-z ]+".to_owned()))?;
        matcher.allowed().map(drop)
    });
    if let Err(error) = mask {
        is_a_sentence(&error);
    }
}

fn exercise(tokenizer: &Tokenizer, text: Option<&[u8]>) {
    let text = text.map_or(TEXT.into(), String::from_utf8_lossy);
    for (add_special, parse_special) in [(false, false), (true, true)] {
        match tokenizer.encode(&text, Encode { add_special, parse_special }) {
            Ok(ids) => {
                let ids: Vec<u32> = ids.into_iter().chain([u32::MAX]).collect();
                tokenizer.decode(&ids, add_special);
            }
            Err(error) => is_a_sentence(&error),
        }
    }
}

/// A chat template, and a conversation as JSON.
pub fn chat_template(bytes: &[u8]) {
    let (source, conversation) = halves(bytes);
    let Ok(source) = std::str::from_utf8(source) else { return };
    let given = conversation.and_then(|json| serde_json::from_slice(json).ok());
    let template = match ChatTemplate::new(source) {
        Ok(template) => template,
        Err(error) => return is_a_sentence(&error),
    };
    if let Err(error) = template.render(&given.unwrap_or_else(usual), "<s>", "</s>") {
        is_a_sentence(&error);
    }
}

/// A conversation with most of what templates look at.
fn usual() -> Value {
    json!({
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "Weather in \u{d6}rebro?" }] },
            { "role": "assistant", "content": null, "reasoning_content": "Ask.", "tool_calls": [
                { "type": "function", "id": "c1", "function": { "name": "weather", "arguments": { "city": "Örebro" } } },
            ] },
            { "role": "tool", "name": "weather", "tool_call_id": "c1", "content": "{\"degrees\": 7.5}" },
            { "role": "user", "content": "Thanks" },
        ],
        "tools": [{ "type": "function", "function": { "name": "weather", "description": "Now", "parameters": {
            "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
        } } }],
        "add_generation_prompt": true,
        "enable_thinking": false,
    })
}
