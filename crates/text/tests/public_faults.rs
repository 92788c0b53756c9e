//! Faults that were found in other engines and published: vocabularies, texts and grammars that made them crash.
//!
//! | fault | what happened there | what we say |
//! |---|---|---|
//! | llama.cpp 27226 (`<0x-1>`) | the digits of a byte token were read with a sign: a token's id was written before the table of bytes | `token 3 is marked as a byte but its text "<0x-1>" is not of the form <0x00> to <0xFF>` |
//! | llama.cpp 24888 (type confusion) | scores and token types of 1 byte each were read as 4: past their end | numbers are read as what they are; others: `metadata key … has the wrong type: expected an array of numbers` |
//! | llama.cpp 21257, 26965, 27783 (tokenizer recursion) | a regular expression recursed for each character: 26,000 letters without a break overflowed the stack | the ids of the text |
//! | Hugging Face's `Sequence` of steps (tokenizer recursion) | steps that nest without end are read by recursion | `tokenizer.json is not valid` past 128 levels, `more than 64 pre-tokenizers` |
//! | llama.cpp 26600 (grammar nesting) | 60,000 open brackets, or 5,000 rules that each name the next, overflowed the stack | `groups are nested too deeply`, `at most 4096 rules` |
//! | llama.cpp 18988, 18604 (grammar nesting) | a repetition of what may be empty recursed without end; nested counts multiplied | a grammar that works; `nested too deeply` |
//! | llama.cpp 18990 | a grammar without its first rule was read outside its list of rules | `there is no rule called root` |

use std::fmt::Write;
use std::sync::OnceLock;

use akunu_formats::ModelFile;
use akunu_formats::gguf::{Array, Field, Writer};
use akunu_testkit::{TempDir, fixtures};
use akunu_text::{Encode, Error, GgufVocab, Grammar, Grammars, Matcher, Tokenizer};
use serde_json::json;

/// A stack that recursion for each character, bracket or rule would not fit on.
const SMALL_STACK: usize = 256 << 10;

fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work).unwrap().join().unwrap()
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, expected: &str) {
    let error = result.err().expect("it was accepted").to_string();
    assert!(error.contains(expected) && error.len() < 400 && !error.contains('\n'), "{error}");
}

#[test]
fn llama_cpp_27226_a_byte_token_0x_minus_1() {
    for text in ["<0x-1>", "<0x+1>", "<0x 1>", "<0x1>", "<0x100>", "<0x>", "<0x\u{661}>", "<0xé>", "<0x0G>"] {
        for model in ["llama", "gpt2", "t5", "bert", "gemma4"] {
            let vocab = GgufVocab {
                model,
                tokens: vec!["<unk>", "<s>", "</s>", text],
                scores: Some(vec![0.0; 4]),
                types: Some(vec![2, 3, 3, 6]),
                ..GgufVocab::default()
            };
            refused(Tokenizer::from_gguf(vocab), "token 3 is marked as a byte but its text");
        }
        // In tokenizer.json it is a token like any other, and stands for no byte.
        let vocab = json!({"<unk>": 0, "a": 1, text: 2});
        let model = json!({"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "<unk>", "byte_fallback": true});
        let file = json!({"model": model, "decoder": {"type": "ByteFallback"}});
        let tokenizer = Tokenizer::from_tokenizer_json(file.to_string().as_bytes(), None).unwrap();
        assert_eq!(tokenizer.encode("a\u{1}\u{ff}", Encode::default()).unwrap(), [1, 0, 0], "{text}");
        assert_eq!(tokenizer.token_bytes(2), text.as_bytes());
    }
}

#[test]
fn llama_cpp_24888_array_type_confusion() {
    fn load(key: &str, value: Array) -> Result<Tokenizer, Error> {
        let dir = TempDir::new();
        let path = dir.join("vocabulary.gguf");
        let mut writer = Writer::create(&path, false).unwrap();
        let sound: [(&str, Field); 4] = [
            ("tokenizer.ggml.model", "llama".into()),
            ("tokenizer.ggml.tokens", Array::from_strings(["<unk>", "<s>", "</s>", "a"]).into()),
            ("tokenizer.ggml.scores", Array::from_f32s([0.0; 4]).into()),
            ("tokenizer.ggml.token_type", Array::from_i32s([2, 3, 3, 1]).into()),
        ];
        let others = sound.into_iter().filter(|(name, _)| *name != key);
        for (name, field) in others.chain([(key, value.into())]) {
            writer.set(name, field).unwrap();
        }
        writer.begin().unwrap().finish().unwrap();
        Tokenizer::from_model_file(&ModelFile::open(&path).unwrap())
    }
    let (bools, floats, texts) =
        (|| Array::from_bools([true; 4]), || Array::from_f32s([1.0; 4]), || Array::from_strings(["1"; 4]));
    refused(load("tokenizer.ggml.scores", bools()), "tokenizer.ggml.scores");
    refused(load("tokenizer.ggml.scores", texts()), "tokenizer.ggml.scores");
    refused(load("tokenizer.ggml.token_type", bools()), "tokenizer.ggml.token_type");
    refused(load("tokenizer.ggml.token_type", floats()), "tokenizer.ggml.token_type");
    refused(load("tokenizer.ggml.token_type", texts()), "tokenizer.ggml.token_type");
    refused(load("tokenizer.ggml.tokens", Array::from_i32s([1; 4])), "tokenizer.ggml.tokens");
    refused(load("tokenizer.ggml.precompiled_charsmap", texts()), "tokenizer.ggml.precompiled_charsmap");
    refused(load("tokenizer.ggml.precompiled_charsmap", bools()), "tokenizer.ggml.precompiled_charsmap");
    // As many as there are tokens, whatever a number's width is.
    refused(load("tokenizer.ggml.scores", Array::from_i32s([1; 3])), "the list of scores");
    assert!(load("tokenizer.ggml.scores", Array::from_i32s([1; 4])).is_ok());
}

#[test]
fn llama_cpp_21257_tokenizer_recursion() {
    const LENGTH: usize = 300_000;
    let tokenizer_named = |pre| {
        // A token for each byte, and a pair.
        let letters: Vec<String> = (0..=255u8).map(byte_level).collect();
        let mut tokens: Vec<&str> = letters.iter().map(String::as_str).collect();
        tokens.push("AA");
        let vocab = GgufVocab { model: "gpt2", pre: Some(pre), tokens, merges: vec!["A A"], ..GgufVocab::default() };
        Tokenizer::from_gguf(vocab).unwrap()
    };
    for pre in ["gpt-2", "qwen2", "qwen35", "gpt-4o", "llama-bpe", "deepseek-v3", "tekken", "default", "jais-2"] {
        let tokenizer = tokenizer_named(pre);
        for unit in ["A", "Z", "é", " ", ".", "\n", "字", "1", "\u{301}", "A "] {
            let tokenizer = tokenizer.clone();
            let text = unit.repeat(LENGTH);
            let decoded = on_small_stack(move || {
                let ids = tokenizer.encode(&text, Encode { add_special: false, parse_special: true }).unwrap();
                tokenizer.decode(&ids, false) == text
            });
            assert!(decoded, "{pre} {unit:?}");
        }
    }
    // Vocabularies without words: one word of all.
    for model in ["llama", "t5", "bert"] {
        let vocab = GgufVocab {
            model,
            tokens: vec!["<unk>", "<s>", "</s>", "▁", "A", "AA", "▁A", "AAAA"],
            scores: Some(vec![0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0]),
            types: Some(vec![2, 3, 3, 1, 1, 1, 1, 1]),
            cls: Some(1),
            separator: Some(2),
            unknown: Some(0),
            ..GgufVocab::default()
        };
        let tokenizer = Tokenizer::from_gguf(vocab).unwrap();
        let count = on_small_stack(move || tokenizer.encode(&"A".repeat(LENGTH), Encode::default()).unwrap().len());
        // BERT's words have at most 100 characters; longer ones are unknown.
        assert!(count == 1 && model == "bert" || count >= LENGTH / 4, "{model}: {count}");
    }
}

/// How byte-level vocabularies write a byte.
fn byte_level(byte: u8) -> String {
    let shown = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let hidden = (0..byte).filter(|&b| !shown(b)).count() as u32;
    let code = if shown(byte) { u32::from(byte) } else { 256 + hidden };
    char::from_u32(code).unwrap().to_string()
}

#[test]
fn tokenizer_recursion_of_steps_that_nest() {
    for (place, list) in [
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("decoder", "decoders"),
        ("post_processor", "processors"),
    ] {
        let nested = |depth: usize| {
            let open = format!(r#"{{"type":"Sequence","{list}":["#).repeat(depth);
            let model = r#""model":{"type":"BPE","vocab":{"a":0},"merges":[]}"#;
            let file = format!(r#"{{{model},"{place}":{open}{}}}"#, "]}".repeat(depth));
            on_small_stack(move || Tokenizer::from_tokenizer_json(file.as_bytes(), None))
        };
        for depth in [200, 100_000] {
            refused(nested(depth), "tokenizer.json");
        }
        assert!(nested(20).is_ok(), "{place}");
    }
    for pattern in ["(".repeat(10_000), "[".repeat(10_000), "(?:".repeat(5_000) + &")".repeat(5_000)] {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"});
        let file =
            json!({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "pre_tokenizer": split}).to_string();
        let loaded = on_small_stack(move || Tokenizer::from_tokenizer_json(file.as_bytes(), None));
        refused(loaded, "not supported in a tokenizer pattern");
    }
}

fn compile(grammar: Grammar) -> Result<Matcher, Error> {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    let grammars = GRAMMARS.get_or_init(|| {
        let file = ModelFile::open(&fixtures::path("gguf/stories-llama-Q4_0.gguf")).unwrap();
        let tokenizer = Tokenizer::from_model_file(&file).unwrap();
        Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap()
    });
    on_small_stack(move || grammars.compile(&grammar))
}

fn gbnf(text: impl Into<String>) -> Result<Matcher, Error> {
    compile(Grammar::Gbnf(text.into()))
}

#[test]
fn llama_cpp_26600_grammar_nesting() {
    for depth in [13_000, 60_000, 400_000] {
        refused(gbnf(format!("root ::= {}\"a\"{}", "(".repeat(depth), ")".repeat(depth))), "nested too deeply");
        refused(gbnf(format!("root ::= {}", "(".repeat(depth))), "nested too deeply");
        refused(compile(Grammar::Lark(format!("start: {}\"a\"{}", "(".repeat(depth), ")".repeat(depth)))), "");
        refused(compile(Grammar::Regex(format!("{}a{}", "(".repeat(depth), ")".repeat(depth)))), "");
        let schema = format!("{}{{}}{}", r#"{"items":"#.repeat(depth), "}".repeat(depth));
        refused(compile(Grammar::JsonSchema(schema)), "not JSON");
    }
    let mut chain = String::new();
    for rule in 0..5000 {
        writeln!(chain, "r{rule} ::= r{}", rule + 1).unwrap();
    }
    refused(gbnf(format!("root ::= r0\n{chain}r5000 ::= \"x\" root?\n")), "rules");
    assert!(gbnf("root ::= ((((((((\"a\"))))))))").is_ok());
}

#[test]
fn llama_cpp_18988_grammar_nesting_of_repetitions() {
    for text in [
        "root ::= (\"a\"*)*",
        "root ::= (((\"a\"?)*)*)*",
        "root ::= (a | b)*\na ::= b*\nb ::= \"x\"*",
        "root ::= \"\"* \"a\"",
    ] {
        let mut matcher = gbnf(text).unwrap();
        assert!(matcher.allowed().unwrap().iter().any(|word| *word != 0), "{text}");
    }
    // Counts that multiply, and rules that lead to themselves before any text.
    refused(gbnf(format!("root ::= \"a\"{}", "{99}".repeat(9))), "nested too deeply");
    refused(gbnf("root ::= \"a\"{2147483648}"), "more than 10000 times");
    refused(gbnf("root ::= \"a\"{99999999999999999999999}"), "");
    for text in ["root ::= root", "root ::= a\na ::= b\nb ::= a"] {
        let mut matcher = gbnf(text).unwrap();
        assert!(matcher.allowed().map_or(true, |mask| mask.iter().all(|word| *word == 0)), "{text}");
    }
    for text in ["root ::= root \"a\" | \"b\"", "root ::= a? root \"a\" | \"b\"\na ::= \"c\"*"] {
        let mut matcher = gbnf(text).unwrap();
        assert!(matcher.allowed().unwrap().iter().any(|word| *word != 0), "{text}");
    }
}

#[test]
fn llama_cpp_18990_a_grammar_without_its_first_rule() {
    for text in ["", "a ::= \"b\"", "Root ::= \"b\"", "root ::= a"] {
        refused(gbnf(text), "rule");
    }
}
