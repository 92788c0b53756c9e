//! Rendering, encoding and masking, for counting their instructions, which a noisy machine does not change. Only `measured` counts:
//!
//! ```text
//! cargo bench -p akunu-text --bench instructions --no-run      # prints BINARY
//! valgrind --tool=callgrind --toggle-collect='*measured*' BINARY render TEMPLATE.jinja   # cases in TEMPLATE.json
//! valgrind --tool=callgrind --toggle-collect='*measured*' BINARY encode MODEL TEXT_FILE
//! valgrind --tool=callgrind --toggle-collect='*measured*' BINARY masks MODEL
//! ```

use std::hint::black_box;
use std::path::Path;

use akunu_formats::ModelFile;
use akunu_text::{ChatTemplate, Encode, Grammar, Grammars, Matcher, Tokenizer};
use serde_json::Value;

type Failure = Box<dyn std::error::Error>;

const USAGE: &str = "usage: instructions render TEMPLATE.jinja | encode MODEL TEXT_FILE | masks MODEL";
const ROUNDS: usize = 10;

/// What counts. The first round is not measured: it fills caches.
#[inline(never)]
fn measured<T>(mut work: impl FnMut() -> Result<T, Failure>) -> Result<(), Failure> {
    for _ in 0..ROUNDS {
        black_box(work()?);
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["render", template] => render(Path::new(template)),
        ["encode", model, text] => encode(Path::new(model), &std::fs::read_to_string(text)?),
        ["masks", model] => masks(Path::new(model)),
        _ => Err(USAGE.into()),
    }
}

/// Every conversation that the template does not refuse.
fn render(path: &Path) -> Result<(), Failure> {
    let template = ChatTemplate::new(&std::fs::read_to_string(path)?)?;
    let cases: Value = serde_json::from_slice(&std::fs::read(path.with_extension("json"))?)?;
    let inputs = cases.as_object().into_iter().flat_map(|cases| cases.values()).map(|case| &case["input"]);
    let inputs: Vec<&Value> = inputs.filter(|input| template.render(input, "<s>", "</s>").is_ok()).collect();
    measured(|| {
        for input in &inputs {
            black_box(template.render(input, "<s>", "</s>")?);
        }
        Ok(())
    })
}

fn tokenizer(model: &Path) -> Result<Tokenizer, Failure> {
    Ok(Tokenizer::from_model_file(&ModelFile::open(model)?)?)
}

fn encode(model: &Path, text: &str) -> Result<(), Failure> {
    let tokenizer = tokenizer(model)?;
    tokenizer.encode(text, Encode::default())?;
    measured(|| Ok(tokenizer.encode(text, Encode::default())?))
}

const SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0},
    "tags":{"type":"array","items":{"enum":["red","green","blue"]}}},"required":["name","age"]}"#;
const ARITHMETIC: &str = "root ::= sum \"\\n\"\nsum ::= product ([+-] product)*\nproduct ::= value ([*/] value)*\n\
    value ::= [0-9]+ | \"(\" sum \")\"\n";

/// A mask for every token of a text that the grammar takes.
fn masks(model: &Path) -> Result<(), Failure> {
    let tokenizer = tokenizer(model)?;
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size())?;
    for (grammar, text) in [
        (Grammar::Json, r#"{"a": [1, 2.5e3, true, null], "b": {"c": "some words of a text"}}"#),
        (Grammar::JsonSchema(SCHEMA.into()), r#"{"name": "Ada Lovelace", "age": 36, "tags": ["red", "blue"]}"#),
        (Grammar::Gbnf(ARITHMETIC.into()), "(12+345)*6/(7-(8+9))\n"),
        (Grammar::Regex("[a-z]+([, ]+[a-z]+)*\\.".into()), "words, commas, more words and a point."),
    ] {
        let tokens = tokenizer.encode(text, Encode { add_special: false, parse_special: false })?;
        let walk = |mut matcher: Matcher| {
            for token in &tokens {
                black_box(matcher.allowed()?);
                if !matcher.allows(*token) {
                    return Err(format!("{grammar:?} does not take {text:?}").into());
                }
                matcher.accept(*token)?;
            }
            Ok(())
        };
        walk(grammars.compile(&grammar)?)?;
        // Compiling is not measured: it runs on a thread of its own.
        let compiled: Result<Vec<Matcher>, _> = (0..ROUNDS).map(|_| grammars.compile(&grammar)).collect();
        let mut compiled = compiled?.into_iter();
        measured(|| compiled.next().map(walk).transpose())?;
    }
    Ok(())
}
