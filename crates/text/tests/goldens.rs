//! Small vocabularies of every kind against what HF's library makes of the same strings (see `compare/make_goldens.py`).

use std::path::Path;

use akunu_testkit::quarter_of_limits;
use akunu_text::{Encode, GgufVocab, Tokenizer};
use serde_json::Value;

fn data(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

fn check(name: &str) {
    let tokenizer =
        Tokenizer::from_tokenizer_json_within(&data(&format!("{name}-tokenizer.json")), None, quarter_of_limits())
            .unwrap();
    let cases: Vec<(String, Vec<u32>, String)> = serde_json::from_slice(&data(&format!("{name}-golden.json"))).unwrap();
    assert!(cases.len() > 300);
    let mut failures = Vec::new();
    for (text, ids, decoded) in &cases {
        let got = tokenizer.encode(text, Encode { add_special: true, parse_special: true }).unwrap();
        if got != *ids {
            failures.push(format!("{text:?}\n  expected {ids:?}\n  got      {got:?}"));
        } else if tokenizer.decode(ids, false) != *decoded {
            failures.push(format!("{ids:?}\n  expected {decoded:?}\n  got      {:?}", tokenizer.decode(ids, false)));
        }
        let mut stream = tokenizer.stream().keep_special(true);
        let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
        streamed.push_str(&stream.flush());
        assert_eq!(streamed, tokenizer.decode(ids, false), "{text:?}");
    }
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn byte_level_bpe() {
    check("stories");
}

#[test]
fn word_piece() {
    check("wordpiece");
}

#[test]
fn unigram() {
    check("unigram");
}

#[test]
fn bpe_with_byte_fallback() {
    check("llama2");
}

/// The same vocabularies as a GGUF file would have them.
fn as_gguf(name: &str) -> (Value, Vec<String>) {
    let json: Value = serde_json::from_slice(&data(&format!("{name}-tokenizer.json"))).unwrap();
    let tokens = match &json["model"]["vocab"] {
        Value::Object(map) => {
            let mut tokens = vec![String::new(); map.len()];
            map.iter().for_each(|(token, id)| tokens[id.as_u64().unwrap() as usize] = token.clone());
            tokens
        }
        list => list.as_array().unwrap().iter().map(|pair| pair[0].as_str().unwrap().to_owned()).collect(),
    };
    (json, tokens)
}

fn compare(name: &str, gguf: &Tokenizer) {
    let hf = Tokenizer::from_tokenizer_json_within(&data(&format!("{name}-tokenizer.json")), None, quarter_of_limits())
        .unwrap();
    let cases: Vec<(String, Vec<u32>, String)> = serde_json::from_slice(&data(&format!("{name}-golden.json"))).unwrap();
    for (text, ..) in cases {
        for options in [(false, false), (false, true), (true, true)] {
            let options = Encode { add_special: options.0, parse_special: options.1 };
            assert_eq!(
                gguf.encode(&text, options).unwrap(),
                hf.encode(&text, options).unwrap(),
                "{text:?} {options:?}"
            );
        }
    }
}

#[test]
fn gguf_bpe_agrees_with_tokenizer_json() {
    let (json, tokens) = as_gguf("stories");
    let merges: Vec<String> = json["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
        .collect();
    let gguf = Tokenizer::from_gguf(GgufVocab {
        model: "gpt2",
        pre: Some("qwen2"),
        types: Some((0..tokens.len()).map(|id| if id < 3 { 3 } else { 1 }).collect()),
        tokens: tokens.iter().map(String::as_str).collect(),
        merges: merges.iter().map(String::as_str).collect(),
        bos: Some(0),
        eos: Some(0),
        ..GgufVocab::default()
    })
    .unwrap();
    compare("stories", &gguf);
    assert_eq!((gguf.bos(), gguf.eos()), (Some(0), Some(0)));
    assert_eq!(gguf.end_of_generation(), [0, 2]); // <|endoftext|> and <|im_end|>
    assert!(gguf.is_special(1) && !gguf.is_special(3));
    assert_eq!(gguf.id_of("<|im_start|>"), Some(1));
}

#[test]
fn gguf_word_piece_agrees_with_tokenizer_json() {
    let (_, tokens) = as_gguf("wordpiece");
    let tokens: Vec<String> = tokens
        .into_iter()
        .enumerate()
        .map(|(id, token)| match token.strip_prefix("##") {
            _ if id < 4 => token,
            Some(inside) => inside.to_owned(),
            None => format!("▁{token}"),
        })
        .collect();
    let gguf = Tokenizer::from_gguf(GgufVocab {
        model: "bert",
        types: Some((0..tokens.len()).map(|id| if id < 4 { 3 } else { 1 }).collect()),
        tokens: tokens.iter().map(String::as_str).collect(),
        unknown: Some(1),
        cls: Some(2),
        separator: Some(3),
        ..GgufVocab::default()
    })
    .unwrap();
    compare("wordpiece", &gguf);
}

#[test]
fn gguf_sentence_piece_agrees_with_tokenizer_json() {
    let (json, tokens) = as_gguf("llama2");
    // A token's score falls with the rank of the merge that makes it.
    let mut scores = vec![0.0; tokens.len()];
    for (rank, pair) in json["model"]["merges"].as_array().unwrap().iter().enumerate() {
        let merged = format!("{}{}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        let id = tokens.iter().position(|t| *t == merged).unwrap();
        scores[id] = -(rank as f32) - 1.0;
    }
    let gguf = Tokenizer::from_gguf(GgufVocab {
        model: "llama",
        types: Some(
            (0..tokens.len()).map(|id| [2, 3, 3].get(id).copied().unwrap_or(if id < 259 { 6 } else { 1 })).collect(),
        ),
        tokens: tokens.iter().map(String::as_str).collect(),
        scores: Some(scores),
        ..GgufVocab::default()
    })
    .unwrap();
    compare("llama2", &gguf);
}
