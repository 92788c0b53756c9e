//! Text that must have a form has it, whatever the model would rather say.

use akunu::{
    Engine, GenerateOptions, Grammar, LoadOptions, Request, SamplingOptions, Scheduler, SchedulerOptions, Speculation,
    Thinking,
};

fn engine() -> Engine {
    Engine::embedded(LoadOptions { sequences: 4, ..Default::default() }).unwrap()
}

fn options(grammar: Grammar, seed: u64) -> GenerateOptions {
    let sampling = SamplingOptions { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, ..Default::default() };
    GenerateOptions::new().max_tokens(400).grammar(grammar).sampling(sampling)
}

/// Texts that came to their end, for several seeds; greedy too.
fn texts(engine: &mut Engine, grammar: &Grammar, n: u64) -> Vec<String> {
    (0..n).map(|seed| engine.generate_text("Once upon a time", options(grammar.clone(), seed)).unwrap()).collect()
}

const PERSON: &str = r#"{
    "type": "object",
    "properties": {
        "name": { "type": "string", "maxLength": 12 },
        "age": { "type": "integer", "minimum": 0, "maximum": 120 },
        "pet": { "enum": ["cat", "dog", null] },
        "tags": { "type": "array", "items": { "type": "boolean" }, "maxItems": 3 }
    },
    "required": ["name", "age", "pet"],
    "additionalProperties": false
}"#;

#[test]
fn a_schema_is_kept() {
    let mut engine = engine();
    for text in texts(&mut engine, &Grammar::JsonSchema(PERSON.into()), 12) {
        let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert!(value["name"].as_str().unwrap().chars().count() <= 12, "{text}");
        assert!((0..=120).contains(&value["age"].as_i64().unwrap()), "{text}");
        assert!(["cat", "dog"].contains(&value["pet"].as_str().unwrap_or("cat")), "{text}");
        assert!(value.as_object().unwrap().keys().all(|k| ["name", "age", "pet", "tags"].contains(&k.as_str())));
    }
}

#[test]
fn a_regular_expression_a_lark_grammar_and_a_gbnf_grammar_are_kept() {
    let mut engine = engine();
    for text in texts(&mut engine, &Grammar::Regex("[0-9]{3}-[a-f]{2,4}".into()), 8) {
        let (digits, letters) = text.split_once('-').unwrap();
        assert!(digits.len() == 3 && digits.chars().all(|c| c.is_ascii_digit()), "{text}");
        assert!((2..=4).contains(&letters.len()) && letters.chars().all(|c| ('a'..='f').contains(&c)), "{text}");
    }
    let lark = "start: \"yes\" | \"no\" \", \" NAME\nNAME: /[A-Z][a-z]{2,5}/\n";
    for text in texts(&mut engine, &Grammar::Lark(lark.into()), 8) {
        assert!(text == "yes" || text.starts_with("no, ") && text.len() >= 7, "{text}");
    }
    let gbnf = "root ::= list\nlist ::= \"[\" (item (\",\" item)*)? \"]\"\nitem ::= [a-c] | list\n";
    let mut complete = 0;
    for text in texts(&mut engine, &Grammar::Gbnf(gbnf.into()), 8) {
        let depths = text.chars().scan(0, |depth, c| {
            *depth += i32::from(c == '[') - i32::from(c == ']');
            Some(*depth)
        });
        let depths: Vec<i32> = depths.collect();
        // Either complete, or cut at max_tokens: what is open is closed at the end only.
        let (last, inside) = depths.split_last().expect("a text");
        assert!(*last >= 0 && inside.iter().all(|depth| *depth > 0), "{text}");
        assert!(text.chars().all(|c| "[],abc".contains(c)) && !text.contains(",]") && !text.contains("[,"), "{text}");
        complete += usize::from(*last == 0);
    }
    assert!(complete > 0, "no list ends");
}

#[test]
fn forced_tokens_need_no_steps_of_their_own() {
    let mut engine = engine();
    let form = Grammar::Regex("The quick brown fox jumps over the lazy dog [0-9]".into());
    let mut sequence = engine.sequence();
    let mut generation = engine.generate(&mut sequence, &[1, 2, 3], options(form, 1)).unwrap();
    let text: String = generation.by_ref().map(|p| p.unwrap().text).collect();
    assert!(text.starts_with("The quick brown fox jumps over the lazy dog "), "{text}");
    let (tokens, steps) = (generation.generated().len(), generation.steps());
    assert!(tokens > 10 && steps < tokens / 2, "{steps} steps for {tokens} tokens");
}

#[test]
fn drafts_and_batches_change_nothing() {
    let mut engine = engine();
    let grammar = Grammar::JsonSchema(PERSON.into());
    let plain = texts(&mut engine, &grammar, 4);
    for (seed, plain) in plain.iter().enumerate() {
        let options = options(grammar.clone(), seed as u64).speculation(Speculation::Ngram);
        assert_eq!(&engine.generate_text("Once upon a time", options).unwrap(), plain);
    }
    let ids = engine
        .tokenizer()
        .unwrap()
        .encode("Once upon a time", akunu_text::Encode { add_special: true, parse_special: true })
        .unwrap();
    let mut scheduler = Scheduler::new(engine, SchedulerOptions::default());
    for seed in 0..4 {
        scheduler.submit(Request { tokens: ids.clone(), options: options(grammar.clone(), seed) }).unwrap();
    }
    let mut got = vec![String::new(); 4];
    while scheduler.step(|id, event| match event {
        akunu::Event::Piece(piece) => got[id.0 as usize].push_str(&piece.text),
        akunu::Event::Finished(summary) => got[id.0 as usize].push_str(&summary.rest),
        akunu::Event::Failed(why) => panic!("{why}"),
    }) {}
    assert_eq!(got, plain);
}

#[test]
fn the_grammar_begins_after_the_thoughts() {
    let mut engine = engine();
    let grammar = Grammar::Regex(" [0-9]{2}".into());
    let mut options = options(grammar, 1).thinking(Thinking::Open);
    options.sampling.temperature = 0.0;
    let plain = engine.generate_text("Tom said", GenerateOptions { grammar: None, ..options.clone() }).unwrap();
    let bound = engine.generate_text("Tom said", options.clone()).unwrap();
    assert_eq!(plain, bound, "thoughts that never end are not bound");
    let bound = engine.generate_text("Tom said", options.clone().thinking(Thinking::Not)).unwrap();
    assert!(bound.len() == 3 && bound[1..].chars().all(|c| c.is_ascii_digit()), "{bound:?}");
}

#[test]
fn grammars_that_cannot_be_kept_are_refused_by_name() {
    let engine = engine();
    let compile =
        |grammar| engine.grammars().unwrap().compile(&grammar).err().map(|e| e.to_string()).unwrap_or_default();
    let unknown = compile(Grammar::JsonSchema(r#"{ "type": "array", "uniqueItems": true }"#.into()));
    assert!(unknown.contains("uniqueItems"), "{unknown}");
    assert!(compile(Grammar::JsonSchema("{".into())).contains("not JSON"));
    assert!(compile(Grammar::Regex("(".into())).ends_with("unclosed group"));
    assert!(!compile(Grammar::Lark("start: gone".into())).is_empty());
    assert!(compile(Grammar::Gbnf("root ::= gone".into())).contains("gone"));
    for grammar in [Grammar::Regex("a{1,1000000000}".into()), Grammar::Regex("(a{1000}){1000}b".into())] {
        let started = std::time::Instant::now();
        let _ = compile(grammar);
        assert!(started.elapsed().as_secs() < 20);
    }
}
