//! Grammars, schemas and vocabularies that a library could choke on: each compiles, or is a typed error, soon.

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use akunu_formats::ModelFile;
use akunu_testkit::fixtures;
use akunu_text::{Encode, Error, GgufVocab, Grammar, Grammars, Tokenizer};
use serde_json::json;

fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        let file = ModelFile::open(&fixtures::path("gguf/stories-llama-Q4_0.gguf")).unwrap();
        let tokenizer = Tokenizer::from_model_file(&file).unwrap();
        Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap()
    })
}

/// Compiles, and takes a few of the first tokens that are allowed.
fn try_out(grammar: &Grammar) -> Result<(), Error> {
    let mut matcher = grammars().compile(grammar)?;
    for _ in 0..4 {
        let allowed = matcher.allowed()?;
        let Some(at) = allowed.iter().position(|word| *word != 0) else { return Ok(()) };
        let token = at as u32 * 32 + allowed[at].trailing_zeros();
        matcher.accept(token)?;
        if matcher.is_finished() {
            return Ok(());
        }
    }
    Ok(())
}

/// One test by the name of each case: it ends in time, with the error that is named or, where none is, without.
macro_rules! cases {
    ($($name:ident: $kind:ident $source:expr => $error:expr;)*) => {$(
        #[test]
        fn $name() {
            let grammar = Grammar::$kind($source.into());
            grammars();
            let started = Instant::now();
            let error = try_out(&grammar).err().map_or(String::new(), |error| error.to_string());
            println!("{:?}: {error}", started.elapsed());
            assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
            assert!(error.len() < 2000 && !error.contains('\n'), "{error:.300}");
            let expected: &str = $error;
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error:?}, not {expected:?}");
        }
    )*};
}

/// `start`, rules that each name the next, and `end`.
fn chain(start: &str, rules: usize, rule: impl Fn(usize) -> String, end: &str) -> String {
    let mut out = start.to_owned();
    (0..rules).for_each(|i| writeln!(out, "{}", rule(i)).unwrap());
    out + end
}

fn words(count: usize) -> String {
    let words: Vec<String> = (0..count).map(|i| format!("\"w{i:05}\" root")).collect();
    format!("root ::= {} | \".\"", words.join(" | "))
}

fn every_second(count: u32) -> String {
    (0..count).filter_map(|i| char::from_u32(0x4E00 + 2 * i)).collect()
}

cases! {
    gb_repeat_nest: Gbnf format!("root ::= \"a\"{}", "?".repeat(1_000_000)) => "";
    gb_repeat_nest_star: Gbnf format!("root ::= \"a\"{}", "*".repeat(1_000_000)) => "";
    gb_repeat_nest_counted: Gbnf format!("root ::= \"a\"{}", "{2}".repeat(100_000)) => "nested too deeply";
    gb_nested_groups: Gbnf format!("root ::= {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000)) => "nested too deeply";
    gb_rep_big: Gbnf "root ::= \"a\"{1,1000000000}" => "a repetition has more than 10000 times";
    gb_rules_1800: Gbnf chain("root ::= a0\n", 1900, |i| format!("a{i} ::= \"b\" a{}", i + 1), "a1900 ::= \"x\" root?\n") => "";
    gb_chain_rec_5k: Gbnf chain("root ::= a0\n", 5000, |i| format!("a{i} ::= \"b\" a{}", i + 1), "a5000 ::= \"x\" root?\n") => "rules";
    gb_chain_100k: Gbnf chain("root ::= a0\n", 40_000, |i| format!("a{i} ::= a{}", i + 1), "a40000 ::= \"x\"\n") => "rules";
    gb_words_500: Gbnf words(500) => "";
    gb_class_4000: Gbnf format!("root ::= [{}]+ root | \"x\"", every_second(4000)) => "";
    gb_class_mid: Gbnf format!("root ::= [{}]+ root | \"x\"", every_second(10_000)) => "";
    gb_text_3m: Gbnf format!("root ::= \"{}\"", "a".repeat(3_000_000)) => "bytes";
    gb_text_900k: Gbnf format!("root ::= \"{}\"", "a".repeat(900_000)) => "too long";
    gb_text_rec_1m: Gbnf format!("root ::= \"{}\" root? \"a\"", "a".repeat(200_000)) => "too many parts";
    gb_text_rec_100k: Gbnf format!("root ::= \"{}\" root? \"a\"", "a".repeat(100_000)) => "too many parts";
    lk_chain: Lark chain("start: a0\n", 50_000, |i| format!("a{i}: a{}", i + 1), "a50000: \"x\"\n") => "rules";
    lk_chain_4000: Lark chain("start: a0\n", 4000, |i| format!("a{i}: a{}", i + 1), "a4000: \"x\"\n") => "";
    lk_chain_t: Lark chain("start: A0\n", 20_000, |i| format!("A{i}: A{}", i + 1), "A20000: \"x\"\n") => "rules";
    lk_chain_t_4000: Lark chain("start: A0\n", 4000, |i| format!("A{i}: A{}", i + 1), "A4000: \"x\"\n") => "";
    lk_rep: Lark "start: \"a\"{1,1000000000}" => "";
    lk_text_3m: Lark format!("start: \"{}\"", "a".repeat(3_000_000)) => "bytes";
    rx_paren: Regex format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000)) => "invalid regex";
    rx_never: Regex "[^\\x{0}-\\x{10FFFF}]" => "no token";
    js_ref_deep: JsonSchema references(20_000, |next| json!({"$ref": next})) => "references";
    js_ref_deep_4000: JsonSchema references(4000, |next| json!({"$ref": next})) => "";
    js_ref_deep2: JsonSchema references(3000, |next| json!({"allOf": [{"$ref": next}, {"type": "string"}]})) => "";
    js_multiple9: JsonSchema r#"{"type":"integer","multipleOf":10000019}"# => "least common multiple";
    js_multiple_9973: JsonSchema r#"{"type":"integer","multipleOf":9973}"# => "";
    js_const_30m: JsonSchema json!({"const": "a".repeat(30_000_000)}).to_string() => "bytes";
    js_pattern_long: JsonSchema json!({"type": "string", "pattern": "a".repeat(3_000_000)}).to_string() => "";
    js_nest100k: JsonSchema format!("{}{{}}{}", "{\"items\":".repeat(100_000), "}".repeat(100_000)) => "not JSON";
}

/// A schema of definitions that each refer to the next.
fn references(count: usize, definition: impl Fn(&str) -> serde_json::Value) -> String {
    let mut definitions = serde_json::Map::new();
    for i in 0..count {
        definitions.insert(format!("d{i}"), definition(&format!("#/$defs/d{}", i + 1)));
    }
    definitions.insert(format!("d{count}"), json!({"type": "string"}));
    json!({"$defs": definitions, "$ref": "#/$defs/d0"}).to_string()
}

#[test]
fn gb_class_4000_takes_its_characters_only() {
    let file = ModelFile::open(&fixtures::path("gguf/stories-llama-Q4_0.gguf")).unwrap();
    let tokenizer = Tokenizer::from_model_file(&file).unwrap();
    let grammar = Grammar::Gbnf(format!("root ::= [{}]+ \"x\"", every_second(4000)));
    for (text, taken) in [("\u{4E00}\u{4E02}x", true), ("\u{4E01}x", false)] {
        let mut matcher = grammars().compile(&grammar).unwrap();
        let tokens = tokenizer.encode(text, Encode::default()).unwrap();
        let accepted = tokens.iter().all(|token| matcher.allows(*token) && matcher.accept(*token).is_ok());
        assert_eq!(accepted && matcher.may_end(), taken, "{text}");
    }
}

/// The name of a token may be longer than the library's trie is deep.
#[test]
fn trie_sp_1025() {
    for length in [511, 512, 1023, 1024, 1025, 60_000] {
        let long = "a".repeat(length);
        let mut tokens = vec!["<unk>", "<s>", "</s>", &long];
        let bytes: Vec<String> = (0..=255).map(|b| format!("<0x{b:02X}>")).collect();
        tokens.extend(bytes.iter().map(String::as_str));
        let mut types = vec![2, 3, 3, 3];
        types.resize(tokens.len(), 6);
        let vocab = GgufVocab {
            model: "llama",
            scores: Some(vec![0.0; tokens.len()]),
            types: Some(types),
            tokens,
            ..GgufVocab::default()
        };
        let tokenizer = Tokenizer::from_gguf(vocab).unwrap();
        let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
        let mut matcher = grammars.compile(&Grammar::Json).unwrap();
        assert!(matcher.allows(4 + u32::from(b'{')) && !matcher.allows(3));
    }
}

/// Tokens that are the same bytes lie side by side in the library's trie, which goes past all of them for the next.
#[test]
fn grammar_vocabulary_of_one_word() {
    let bytes: Vec<String> = (0..100_000).map(|i| format!("<0x{:02X}>", i % 256)).collect();
    let vocab = GgufVocab {
        model: "llama",
        scores: Some(vec![0.0; bytes.len()]),
        types: Some(vec![6; bytes.len()]),
        tokens: bytes.iter().map(String::as_str).collect(),
        ..GgufVocab::default()
    };
    if let Ok(tokenizer) = Tokenizer::from_gguf(vocab) {
        let started = Instant::now();
        let _ = Grammars::new(&tokenizer, tokenizer.vocab_size());
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
