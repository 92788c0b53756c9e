//! Vocabularies and texts that were made to exhaust memory, time or the stack: each is ids or one sentence, soon.

use std::time::{Duration, Instant};

use akunu_text::{Encode, Error, GgufVocab, Ranked, Tokenizer};
use serde_json::{Value, json};

/// What a slow machine may take for any case; without the bounds they take minutes to days.
const SOON: Duration = Duration::from_secs(5);

fn soon<T>(what: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = what();
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    result
}

/// A vocabulary of single characters as tokenizer.json, with other components.
fn file(components: Value) -> Value {
    let characters = "abcdefghijklmnopqrstuvwxyz .,!?0123456789".chars().enumerate();
    let vocab: serde_json::Map<String, Value> = characters.map(|(id, c)| (c.to_string(), json!(id))).collect();
    let mut file = json!({ "model": { "type": "BPE", "vocab": vocab, "merges": [] } });
    file.as_object_mut().unwrap().extend(components.as_object().unwrap().clone());
    file
}

fn load(components: Value) -> Result<Tokenizer, Error> {
    let bytes = file(components).to_string();
    soon(|| Tokenizer::from_tokenizer_json(bytes.as_bytes(), None))
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    soon(|| tokenizer.encode(text, Encode { add_special: true, parse_special: true }))
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, expected: &str) {
    let error = result.err().expect("it was accepted").to_string();
    assert!(error.contains(expected) && error.len() < 300 && !error.contains('\n'), "{error}");
}

const TOO_MUCH: &str = "too much work of this text";

fn sequence(list: &str, part: Value, count: usize) -> Value {
    json!({ "type": "Sequence", list: vec![part; count] })
}

fn doubling(list: &str) -> Value {
    sequence(list, json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" }), 40)
}

fn added(id: u32, content: &str, flag: &str) -> Value {
    json!([{ "id": id, "content": content, flag: true }])
}

fn gguf<'a>(tokens: Vec<&'a str>, types: Vec<i64>, pre: &'a str) -> GgufVocab<'a> {
    GgufVocab { model: "gpt2", pre: Some(pre), tokens, types: Some(types), ..GgufVocab::default() }
}

#[test]
fn tok_steps_deep() {
    let keep = json!({ "type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": false });
    let ends = json!({ "type": "Split", "pattern": { "Regex": "\\s+$" }, "behavior": "Isolated" });
    for step in [keep, ends] {
        let steps = sequence("pretokenizers", step.clone(), 20_000);
        refused(load(json!({ "pre_tokenizer": steps })), "more than 64 pre-tokenizers");
        let most = load(json!({ "pre_tokenizer": sequence("pretokenizers", step, 64) })).unwrap();
        assert_eq!(encode(&most, "ab").unwrap(), [0, 1]);
    }
}

#[test]
fn tok_norm_double() {
    let tokenizer = load(json!({ "normalizer": doubling("normalizers") })).unwrap();
    refused(encode(&tokenizer, "a"), TOO_MUCH);
    assert_eq!(encode(&tokenizer, "b").unwrap(), [1]);
}

#[test]
fn tok_norm_double_load() {
    let token = json!([{ "id": 41, "content": "a!", "normalized": true }]);
    let components = json!({ "normalizer": doubling("normalizers"), "added_tokens": token });
    refused(load(components), "too much work of its added tokens");
}

#[test]
fn tok_decoder_double() {
    refused(load(json!({ "decoder": doubling("decoders") })), "too much work of its tokens' texts");
}

#[test]
fn tok_norm_long() {
    let long = json!({ "type": "Replace", "pattern": { "Regex": "." }, "content": "b".repeat(10_000_000) });
    let tokenizer = load(json!({ "normalizer": long })).unwrap();
    refused(encode(&tokenizer, &"x".repeat(1000)), TOO_MUCH);
}

#[test]
fn tok_prefixspace_many() {
    let long = json!({ "type": "Prepend", "prepend": "b".repeat(100_000) });
    let tokenizer = load(json!({ "normalizer": sequence("normalizers", long, 50) })).unwrap();
    refused(encode(&tokenizer, "a"), TOO_MUCH);
}

#[test]
fn tok_metaspace_double() {
    // Every part is a word, and every other word gets one more part each time.
    let step =
        |mark: char| json!({ "type": "Metaspace", "replacement": mark, "prepend_scheme": "always", "split": false });
    let apart = json!({ "type": "Split", "pattern": { "Regex": "." }, "behavior": "Isolated" });
    let steps: Vec<Value> =
        ('A'..='T').flat_map(|mark| [step(mark), apart.clone()]).chain(std::iter::once(apart.clone())).collect();
    let tokenizer = load(json!({ "pre_tokenizer": { "type": "Sequence", "pretokenizers": steps } })).unwrap();
    refused(encode(&tokenizer, &"x".repeat(100_000)), TOO_MUCH);
}

#[test]
fn tok_charsmap_gguf() {
    // Every byte is a child and a leaf whose value is 0: all of a replacement text without a zero byte.
    for (replacement, place) in [("b", 0u32), ("é", 1)] {
        let mut units = vec![0u32; 1 << 12];
        units[0] = 256 << 10;
        for byte in 1..256u32 {
            units[256 ^ byte as usize] = byte | 1 << 8 | 0x300 << 10;
            units[256 ^ byte as usize ^ 0x300] = 1 << 31 | place;
        }
        let mut blob = (4 * units.len() as u32).to_le_bytes().to_vec();
        units.iter().for_each(|unit| blob.extend(unit.to_le_bytes()));
        blob.extend(replacement.repeat(4_000_000).bytes());
        let tokenizer = Tokenizer::from_gguf(GgufVocab {
            model: "t5",
            tokens: vec!["<pad>", "</s>", "<unk>", "a", "b", "▁"],
            scores: Some(vec![-1.0; 6]),
            types: Some(vec![3, 3, 2, 1, 1, 1]),
            precompiled_charsmap: Some(blob),
            ..GgufVocab::default()
        });
        refused(encode(&tokenizer.unwrap(), &"x".repeat(10_000)), TOO_MUCH);
    }
}

#[test]
fn tok_post_huge() {
    let token = json!({ "SpecialToken": { "id": "x" } });
    let single: Vec<Value> = (0..10_000).map(|_| token.clone()).chain([json!({ "Sequence": {} })]).collect();
    let special = json!({ "x": { "id": "x", "ids": vec![1; 1000] } });
    let template = json!({ "type": "TemplateProcessing", "single": single, "special_tokens": special });
    let refused_for = "a post-processor that adds more than 256 tokens";
    refused(load(json!({ "post_processor": template })), refused_for);
    let bert = json!({ "type": "BertProcessing", "cls": ["a", 0], "sep": ["b", 1] });
    refused(load(json!({ "post_processor": sequence("processors", bert, 1_000) })), refused_for);
}

#[test]
fn tok_pattern_slow() {
    for (pattern, count) in [("(?:a?){1000}".repeat(4), 60), ("(?:(?:(?:){1000}){1000}){1000}a".into(), 1)] {
        let split = json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated" });
        let loaded = load(json!({ "pre_tokenizer": sequence("pretokenizers", split, count) }));
        if count > 1 {
            refused(loaded, "a pattern this large");
        } else {
            assert_eq!(encode(&loaded.unwrap(), "ba").unwrap(), [1, 0]);
        }
    }
}

#[test]
fn tok_matcher_gguf() {
    let long = "a".repeat(65_000) + "b";
    let tokenizer = Tokenizer::from_gguf(gguf(vec!["a", "b", &long], vec![4, 1, 4], "default")).unwrap();
    let text = "a".repeat(1_000_000);
    assert_eq!(encode(&tokenizer, &text).unwrap(), vec![0; 1_000_000]);
    let mut expected = vec![0; 1_000_000 - 65_000];
    expected.push(2);
    assert_eq!(encode(&tokenizer, &(text + "b")).unwrap(), expected);
}

#[test]
fn tok_added_rstrip() {
    let text = "\n".repeat(1_000_000);
    for flag in ["rstrip", "lstrip"] {
        let tokenizer = load(json!({ "added_tokens": added(41, "\n", flag) })).unwrap();
        assert_eq!(encode(&tokenizer, &text).unwrap(), vec![41; 1_000_000], "{flag}");
    }
    // White space that is a token and white space that is none: what a token took along is gone over once.
    let tokens = json!([{ "id": 41, "content": "\n", "rstrip": true }, { "id": 42, "content": "\t" }]);
    let tokenizer = load(json!({ "added_tokens": tokens })).unwrap();
    assert_eq!(encode(&tokenizer, &"\n\t".repeat(500_000)).unwrap(), [41, 42].repeat(500_000));
}

#[test]
fn tok_added_phi3_gguf() {
    let vocab = GgufVocab { name: Some("phi-3"), ..gguf(vec!["a", "b", "\n"], vec![1, 1, 4], "default") };
    let tokenizer = Tokenizer::from_gguf(vocab).unwrap();
    assert_eq!(encode(&tokenizer, &"\n".repeat(1_000_000)).unwrap(), vec![2; 1_000_000]);
}

#[test]
fn tok_pattern_quadratic() {
    for (pattern, unit) in [("[^x]*x", "a"), ("(?:ab)+c|a|b", "ab"), (r"\s*[\r\n]+|\s", " ")] {
        let split = json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated" });
        let tokenizer = load(json!({ "pre_tokenizer": split })).unwrap();
        let text = unit.repeat(1_000_000 / unit.len());
        assert_eq!(encode(&tokenizer, &text).unwrap().len(), text.len(), "{pattern}");
    }
    let split = json!({ "type": "Split", "pattern": { "Regex": "(?:a{1000}){7}b" }, "behavior": "Isolated" });
    // States that count to 7,000, from every character: more than is remembered for.
    let tokenizer = load(json!({ "pre_tokenizer": split })).unwrap();
    refused(encode(&tokenizer, &"a".repeat(300_000)), TOO_MUCH);
}

#[test]
fn jais2() {
    let characters: Vec<String> = (0x21..0x144u32)
        .filter_map(char::from_u32)
        .filter(|c| !matches!(*c, '\x7f'..='\u{a0}' | '\u{ad}'))
        .map(String::from)
        .collect();
    let tokens: Vec<&str> = characters.iter().map(String::as_str).collect();
    let tokenizer = Tokenizer::from_gguf(gguf(tokens, vec![1; characters.len()], "jais-2")).unwrap();
    assert_eq!(encode(&tokenizer, &"\u{a0}".repeat(3_200_000)).unwrap().len(), 6_400_000);
}

#[test]
fn tok_wordpiece_long() {
    let long = "b".repeat(60_000);
    let model = json!({
        "type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 1_000_000_000,
        "vocab": { "[UNK]": 0, "a": 1, "##a": 2, long: 3 },
    });
    let tokenizer = load(json!({ "model": model })).unwrap();
    refused(encode(&tokenizer, &"a".repeat(100_000)), TOO_MUCH);
}

#[test]
fn tok_unigram_deep() {
    let tokens = (1..1024).map(|length| json!(["a".repeat(length), -1.0]));
    let vocab: Vec<Value> = std::iter::once(json!(["<unk>", 0.0])).chain(tokens).collect();
    let tokenizer = load(json!({ "model": { "type": "Unigram", "unk_id": 0, "vocab": vocab } })).unwrap();
    refused(encode(&tokenizer, &"a".repeat(1_000_000)), TOO_MUCH);
    assert_eq!(encode(&tokenizer, &"a".repeat(1023)).unwrap(), [1023]);
}

#[test]
fn no_bert() {
    let steps = sequence("normalizers", json!({ "type": "BertNormalizer" }), 60);
    let tokenizer = load(json!({ "normalizer": steps })).unwrap();
    refused(encode(&tokenizer, &"中".repeat(300_000)), TOO_MUCH);
    refused(load(json!({ "normalizer": sequence("normalizers", json!({ "type": "NFC" }), 100) })), "more than 64");
}

#[test]
fn no_nfkd10() {
    let tokenizer = load(json!({ "normalizer": sequence("normalizers", json!({ "type": "NFKD" }), 60) })).unwrap();
    refused(encode(&tokenizer, &"\u{fdfa}".repeat(100_000)), TOO_MUCH);
}

#[test]
fn long_runs_of_marks_flags_and_joiners_are_normalized_soon() {
    // A crafted table would do as well: this one changes nothing.
    let charsmap = json!({ "type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAA=" });
    for step in [json!({ "type": "NFC" }), json!({ "type": "NFKD" }), json!({ "type": "NFKC" }), charsmap] {
        let tokenizer = load(json!({ "normalizer": step.clone() })).unwrap();
        for unit in ["\u{316}\u{301}", "\u{1f1e6}", "\u{1f469}\u{200d}", "\u{915}\u{94d}", "\u{1100}\u{1161}"] {
            let text = String::from("e") + &unit.repeat(1_000_000 / unit.len());
            encode(&tokenizer, &text).unwrap_or_else(|e| panic!("{step} {unit:?}: {e}"));
        }
    }
}

#[test]
fn conv_whisper_merges2() {
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    tokens.extend((2..=128).map(|length| vec![b'a'; length]));
    for number in 0..8_000u32 {
        let inside = (0..8).map(|digit| b'b' + (number >> (2 * digit) & 3) as u8);
        let token = std::iter::repeat_n(b'a', 100 + number as usize % 28).chain(inside);
        tokens.push(token.chain([b'a'; 120]).collect());
    }
    let ranked = Ranked::new(tokens.iter().map(|token| &**token)).unwrap();
    let (texts, merges) = soon(|| ranked.as_byte_pairs());
    assert_eq!((texts.len(), merges.len()), (tokens.len(), 127));
    assert_eq!(soon(|| ranked.encode(&"a".repeat(1_280_000)).unwrap()).len(), 10_000);
}
