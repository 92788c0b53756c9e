//! Prints how long the grammars of replies take with a real vocabulary: 128 tools compiled, and masks in free text and in calls.
//!
//! `cargo run --release -p akunu-text --example reply_masks -- VOCABULARY.gguf TEMPLATE.jinja`

use akunu_formats::ModelFile;
use akunu_text::{ChatTemplate, Encode, Grammar, Grammars, ReplyFormat, Tokenizer, Tool, ToolChoice, ToolInput};
use serde_json::json;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(vocabulary), Some(template)) = (arguments.next(), arguments.next()) else {
        return Err("give a vocabulary and a template".into());
    };
    let tokenizer = Tokenizer::from_model_file(&ModelFile::open(vocabulary.as_ref())?)?;
    let begun = Instant::now();
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size())?;
    println!("vocabulary of {}: {:?}", tokenizer.vocab_size(), begun.elapsed());
    let begun = Instant::now();
    let format = ReplyFormat::of(&ChatTemplate::new(&std::fs::read_to_string(template)?)?, &tokenizer);
    println!("format {}: {:?}", format.name(), begun.elapsed());
    let schema = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string" }, "limit": { "type": "integer", "minimum": 0 },
            "mode": { "type": "string", "enum": ["read", "write", "append"] },
            "filters": { "type": "array", "items": { "type": "object", "properties": { "key": { "type": "string" } } } },
            "dry_run": { "type": "boolean" },
        },
        "required": ["path", "mode"],
    });
    let tool = |n| Tool { name: format!("tool_{n}"), parameters: ToolInput::Schema(schema.clone()), strict: false };
    let text =
        "I think that I should look at the file first; it is called main.rs, and then I can say more. ".repeat(4);
    for count in [1, 16, 128] {
        let tools: Vec<Tool> = (0..count).map(tool).collect();
        for choice in [ToolChoice::Auto, ToolChoice::Required] {
            let begun = Instant::now();
            let grammar = format.grammar(&tools, &choice, true, None)?.ok_or("a grammar")?;
            let mut matcher = grammars.compile(&grammar)?;
            let compiled = begun.elapsed();
            let begun = Instant::now();
            matcher.allowed()?;
            println!("{count} tools, {choice:?}: compiled in {compiled:?}, first mask {:?}", begun.elapsed());
            if choice == ToolChoice::Auto {
                walk(&mut matcher, &tokenizer, &text, "free text")?;
            }
        }
    }
    let mut matcher = grammars.compile(&Grammar::JsonSchema(schema.to_string()))?;
    walk(&mut matcher, &tokenizer, &format!("{{\"path\": \"{text}"), "a string of a schema")?;
    Ok(())
}

fn walk(
    matcher: &mut akunu_text::Matcher,
    tokenizer: &Tokenizer,
    text: &str,
    what: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let tokens = tokenizer.encode(text, Encode::default())?;
    let mut times = Vec::new();
    for token in tokens {
        let begun = Instant::now();
        matcher.allowed()?;
        times.push(begun.elapsed());
        matcher.accept(token)?;
    }
    times.sort();
    println!("  masks in {what}: median {:?}, longest {:?}", times[times.len() / 2], times[times.len() - 1]);
    Ok(())
}
