//! Vocabularies that are empty, contradictory, damaged or huge: one sentence each, no panic, no long wait.

use std::time::{Duration, Instant};

use akunu_text::{Encode, GgufVocab, Tokenizer};
use serde_json::{Value, json};

/// Byte-level vocabulary of `a`, `b`, `ab` and a special token.
fn bpe() -> GgufVocab<'static> {
    GgufVocab {
        model: "gpt2",
        pre: Some("gpt-2"),
        tokens: vec!["a", "b", "ab", "<s>"],
        types: Some(vec![1, 1, 1, 3]),
        merges: vec!["a b"],
        bos: Some(3),
        ..GgufVocab::default()
    }
}

fn spm() -> GgufVocab<'static> {
    GgufVocab {
        model: "llama",
        tokens: vec!["<unk>", "<s>", "</s>", "<0x41>", "▁", "a"],
        types: Some(vec![2, 3, 3, 6, 1, 1]),
        scores: Some(vec![0.0, 0.0, 0.0, 0.0, -1.0, -2.0]),
        ..GgufVocab::default()
    }
}

#[test]
fn gguf_vocabularies() {
    assert_eq!(Tokenizer::from_gguf(bpe()).unwrap().encode("abba", Encode::default()).unwrap(), [2, 1, 0]);
    assert_eq!(Tokenizer::from_gguf(spm()).unwrap().encode("aA", Encode::default()).unwrap(), [4, 5, 3]);
    let huge = "x".repeat(100 << 20);
    let long = "x".repeat(2000);
    let t5 = |tokens: Vec<&'static str>, scores: Vec<f32>| GgufVocab {
        model: "t5",
        tokens,
        scores: Some(scores),
        ..GgufVocab::default()
    };
    let cases: Vec<(&str, GgufVocab<'_>, &str)> = vec![
        ("empty", GgufVocab { tokens: vec![], types: None, merges: vec![], ..bpe() }, "the vocabulary is empty"),
        ("duplicate", GgufVocab { tokens: vec!["a", "b", "ab", "a"], ..bpe() }, "tokens 0 and 3 are both \"a\""),
        ("fewer types", GgufVocab { types: Some(vec![1]), ..bpe() }, "token types has 1 entries for 4 tokens"),
        ("more scores", GgufVocab { scores: Some(vec![0.0; 9]), ..spm() }, "scores has 9 entries for 6 tokens"),
        ("no scores", GgufVocab { scores: None, ..spm() }, "scores has 0 entries for 6 tokens"),
        ("score", GgufVocab { scores: Some(vec![0.0, 0.0, f32::NAN, 0.0, 0.0, 0.0]), ..spm() }, "not a number"),
        ("type", GgufVocab { types: Some(vec![1, 1, 1, 77]), ..bpe() }, "token 3 has type 77"),
        ("type", GgufVocab { types: Some(vec![1, 1, 1, -1]), ..bpe() }, "token 3 has type -1"),
        (
            "byte -1",
            GgufVocab { tokens: vec!["<unk>", "<s>", "</s>", "<0x-1>", "▁", "a"], ..spm() },
            "\"<0x-1>\" is not",
        ),
        ("byte 1", GgufVocab { tokens: vec!["<unk>", "<s>", "</s>", "<0x1>", "▁", "a"], ..spm() }, "\"<0x1>\" is not"),
        (
            "byte +1",
            GgufVocab { tokens: vec!["<unk>", "<s>", "</s>", "<0x+1>", "▁", "a"], ..spm() },
            "\"<0x+1>\" is not",
        ),
        ("merge", GgufVocab { merges: vec!["a b", "ab c"], ..bpe() }, "merge 1 (\"ab c\") names \"c\""),
        ("merge result", GgufVocab { merges: vec!["b a"], ..bpe() }, "names \"ba\""),
        ("merge shape", GgufVocab { merges: vec!["ab"], ..bpe() }, "merge 0 (\"ab\") is not two tokens"),
        ("merge empty", GgufVocab { merges: vec![""], ..bpe() }, "is not two tokens"),
        ("bos", GgufVocab { bos: Some(4), ..bpe() }, "the BOS token id is 4"),
        ("eot", GgufVocab { eot: Some(u32::MAX), ..bpe() }, "the EOT token id"),
        ("no bos", GgufVocab { bos: None, add_bos: Some(true), ..bpe() }, "adds a BOS token but names none"),
        ("no eos", GgufVocab { add_eos: Some(true), ..bpe() }, "adds a EOS token but names none"),
        ("pre", GgufVocab { pre: Some("klingon"), ..bpe() }, "unknown pre-tokenizer \"klingon\""),
        ("model", GgufVocab { model: "rwkv", ..bpe() }, "unknown tokenizer model \"rwkv\""),
        ("long", GgufVocab { tokens: vec!["a", "b", "ab", &huge], ..bpe() }, "token 3 is 104857600 bytes long"),
        ("bert", GgufVocab { model: "bert", ..bpe() }, "names none"),
        ("t5", t5(vec!["a", "b"], vec![0.0, 0.0]), "adds a unknown token but names none"),
        (
            "t5 map",
            GgufVocab { precompiled_charsmap: Some(vec![9, 9]), ..t5(vec!["a", "b", "c"], vec![0.0; 3]) },
            "character map",
        ),
        (
            "t5 long",
            GgufVocab { tokens: vec!["a", "b", "c", &long], scores: Some(vec![0.0; 4]), ..t5(vec![], vec![]) },
            "2000 bytes long",
        ),
    ];
    for (name, vocab, expected) in cases {
        let started = Instant::now();
        let error = Tokenizer::from_gguf(vocab).err().unwrap_or_else(|| panic!("{name} was accepted")).to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(error.len() < 300 && !error.contains('\n'), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_secs(2), "{name}");
    }
}

fn json_file() -> Value {
    json!({
        "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    })
}

#[test]
fn tokenizer_json_files() {
    let load = |json: &Value| Tokenizer::from_tokenizer_json(json.to_string().as_bytes(), None);
    let tokenizer = load(&json_file()).unwrap();
    assert_eq!(tokenizer.encode("<s>abb", Encode { parse_special: true, add_special: true }).unwrap(), [3, 2, 1]);

    let with = |pointer: &str, value: Value| {
        let mut json = json_file();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        json.pointer_mut(parent).unwrap()[key] = value;
        json
    };
    let nested = (0..100).fold(json!({"type": "NFC"}), |inner, _| json!({"type": "Sequence", "normalizers": [inner]}));
    for (json, expected) in [
        (json!(null), "tokenizer.json is not valid"),
        (json!({}), "model"),
        (with("/model/vocab", json!({})), "names \"a\""),
        (with("/model/vocab", json!({"a": 0, "b": 0, "ab": 2})), "token 0 is both"),
        (with("/model/vocab", json!({"a": 0, "b": 1, "ab": 4_000_000_000u64})), "an id 4000000000"),
        (with("/model/vocab", json!({"a": -1})), "not valid"),
        (with("/model/vocab", json!([["a", 0.0]])), "not one of BPE"),
        (with("/model/merges", json!([["a", "c"]])), "names \"c\""),
        (with("/model/merges", json!(["ab"])), "merge"),
        (with("/model/merges", json!([["a", "b", "c"]])), "merge"),
        (with("/model/type", json!("Klingon")), "the model \"Klingon\""),
        (with("/model/end_of_word_suffix", json!("</w>")), "end_of_word_suffix"),
        (
            with("/model", json!({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "x"})),
            "unknown token but names none",
        ),
        (with("/model", json!({"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 99})), "the unknown token id is 99"),
        (with("/added_tokens", json!([{"id": 0, "content": "x"}])), "token 0 is both \"a\" and \"x\""),
        (with("/added_tokens", json!([{"id": 9, "content": "a"}])), "tokens 0 and 9 are both \"a\""),
        (with("/pre_tokenizer", json!({"type": "Klingon"})), "the pre-tokenizer \"Klingon\""),
        (with("/pre_tokenizer", json!({"kind": 1})), "no type"),
        (
            with("/pre_tokenizer", json!({"type": "Split", "pattern": {"Regex": "(?<=a)b"}, "behavior": "Isolated"})),
            "(?<=a)b",
        ),
        (with("/pre_tokenizer", json!({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Odd"})), "Odd"),
        (with("/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "????"})), "base64"),
        (with("/normalizer", nested), "not valid"),
        (with("/decoder", json!({"type": "Klingon"})), "the decoder \"Klingon\""),
        (with("/post_processor", json!({"type": "TemplateProcessing", "single": []})), "leaves the text out"),
        (with("/post_processor", json!({"type": "BertProcessing", "cls": ["x", 9], "sep": ["y", 1]})), "id is 9"),
    ] {
        let error = load(&json).err().unwrap_or_else(|| panic!("{json} was accepted")).to_string();
        assert!(error.contains(expected), "{json:.100}: {error}");
        assert!(error.len() < 300, "{error}");
    }
    assert!(Tokenizer::from_tokenizer_json(b"{", None).is_err());
    assert!(Tokenizer::from_tokenizer_json(&[0xff; 10], None).is_err());
    assert!(Tokenizer::from_tokenizer_json(json_file().to_string().as_bytes(), Some(b"[")).is_err());
    // Ids outside the vocabulary decode to nothing.
    assert_eq!(tokenizer.decode(&[0, 99, u32::MAX, 1], false), "ab");
    assert_eq!(tokenizer.token_text(99), None);
    assert!(tokenizer.token_bytes(99).is_empty());
}

#[test]
fn lines_without_a_break_take_linear_time() {
    let tokenizer = Tokenizer::from_gguf(bpe()).unwrap();
    let spaced = Tokenizer::from_gguf(spm()).unwrap();
    for unit in ["a", "ab", " ", "🚀", "1", "\n", "\u{301}", "'"] {
        let text = unit.repeat((2 << 20) / unit.len());
        for tokenizer in [&tokenizer, &spaced] {
            let started = Instant::now();
            tokenizer.encode(&text, Encode { add_special: true, parse_special: true }).unwrap();
            // A quadratic step would take hours; the bound is wide for slow machines.
            assert!(started.elapsed() < Duration::from_secs(30), "{unit:?}");
        }
    }
}
