//! The JSON-Schema-Test-Suite: what a schema allows is reachable, what it forbids is not.

use akunu_formats::ModelFile;
use akunu_testkit::{fixtures, quarter_of_limits};
use akunu_text::{Encode, Grammar, Grammars, Tokenizer};
use serde_json::Value;
use std::collections::BTreeMap;

/// Valid instances that are written in another way than the one a grammar gives: file and test (or group and test), by reason.
#[rustfmt::skip]
const OTHERWISE: &[(&str, &str, &[&str])] = &[
    ("properties come in the schema's order", "allOf", &["allOf / allOf", "allOf with base schema / valid"]),
    ("properties come in the constant's order", "const", &["same object with different property order is valid"]),
    ("whole numbers are written without a fraction", "const", &["float zero is valid", "float one is valid", "float -2.0 is valid", "float is valid"]),
    ("whole numbers are written without a fraction", "enum", &["float zero is valid", "float one is valid", "[0.0] is valid", "[1.0] is valid"]),
    ("whole numbers are written without a fraction", "type", &["a float with zero fractional part is an integer"]),
];

/// Formats are kept, not only noted.
fn is_otherwise(file: &str, group: &str, test: &str) -> bool {
    let both = format!("{group} / {test}");
    OTHERWISE.iter().any(|(_, f, tests)| *f == file && (tests.contains(&test) || tests.contains(&both.as_str())))
        || file == "format" && test.ends_with("string is only an annotation by default")
}

/// Whether the grammar of a schema takes `data`, as it is usually written.
fn takes(grammars: &Grammars, tokenizer: &Tokenizer, schema: &Grammar, data: &Value) -> bool {
    let Ok(mut matcher) = grammars.compile(schema) else { return false };
    let text = data.to_string();
    for token in tokenizer.encode(&text, Encode::default()).unwrap() {
        let allowed = matcher.allowed().is_ok_and(|words| words[token as usize / 32] >> (token % 32) & 1 == 1);
        if !allowed || matcher.accept(token).is_err() {
            return false;
        }
    }
    matcher.may_end()
}

#[test]
fn what_a_schema_allows_is_reachable_and_what_it_forbids_is_not() {
    let file = ModelFile::open_within(&fixtures::path("gguf/stories-llama-Q4_0.gguf"), quarter_of_limits()).unwrap();
    let tokenizer = Tokenizer::from_model_file(&file).unwrap();
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    let suite: Value =
        serde_json::from_slice(&std::fs::read(fixtures::path("json-schema/draft2020-12.json")).unwrap()).unwrap();
    let (mut groups, mut tests) = (0, 0);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong: Vec<String> = Vec::new();
    for group in suite.as_array().unwrap() {
        let schema = Grammar::JsonSchema(group["schema"].to_string());
        if let Err(error) = grammars.compile(&schema) {
            *refused.entry(format!("{}: {error}", group["file"].as_str().unwrap())).or_default() += 1;
            continue;
        }
        groups += 1;
        for test in group["tests"].as_array().unwrap() {
            tests += 1;
            let valid = test[2].as_bool().unwrap();
            let named = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let otherwise = valid && is_otherwise(&named(&group["file"]), &named(&group["group"]), &named(&test[0]));
            if takes(&grammars, &tokenizer, &schema, &test[1]) != (valid && !otherwise) {
                let should = if valid { "unreachable" } else { "allowed" };
                wrong.push(format!("{should}: {} / {} / {}: {}", group["file"], group["group"], test[0], test[1]));
            }
        }
    }
    eprintln!("{groups} schemas with {tests} instances are kept");
    refused.iter().for_each(|(why, n)| eprintln!("{n} refused: {why}"));
    wrong.iter().for_each(|w| eprintln!("{w}"));
    assert!(groups > 140, "{groups}");
    assert_eq!(wrong, Vec::<String>::new());
}
