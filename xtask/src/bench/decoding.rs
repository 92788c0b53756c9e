//! `cargo xtask bench decoding`: what drafts gain, and what grammars and draws cost, against plain greedy decoding of the
//! same model, in rounds that alternate.

use std::time::Instant;

use akunu::{Engine, GenerateOptions, Grammar, LoadOptions, SamplingOptions, Speculation};
use akunu_hub::Hub;
use akunu_text::{ChatTemplate, Encode};
use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::report::{Spread, save};
use super::{machine, synthesized};

/// Fields of the schema that constrains.
const FIELDS: usize = 30;
/// Their types, over and over.
const KINDS: [&str; 5] = [
    r#"{ "type": "string", "maxLength": 24 }"#,
    r#"{ "type": "integer", "minimum": 0, "maximum": 9999 }"#,
    r#"{ "type": "boolean" }"#,
    r#"{ "enum": ["red", "green", "blue"] }"#,
    r#"{ "type": "array", "items": { "type": "number" }, "maxItems": 2 }"#,
];

/// A file to repeat with one word changed.
const FILE: &str = "\
Dear Anna,

the meeting about the new garden is on Monday at ten o'clock. We will meet in front of the old library and walk to the river from there. Please bring the map of the paths, the list of plants, and a pair of strong shoes, because the ground is still wet. Peter will come with the tools and Maria with the seeds. If it rains, we will sit in the small room behind the kitchen and talk about the money that is left.

After the meeting there will be soup and bread for everybody. Tell me if you cannot eat something, and tell your brother that he is welcome too. The last bus leaves at eight in the evening.

With kind regards,
Thomas";
const EDIT: &str = "Repeat this file with the word Monday changed to Friday. Answer with the file alone.";
const PROSE: &str = "Tell me a long story about an old fisherman in the mountains.";

/// One comparison: tokens a second of plain decoding and of another way, by round.
struct Row {
    name: &'static str,
    model: &'static str,
    rates: Vec<(f64, f64)>,
    /// Of the last generation of the other way.
    run: Run,
}

/// What one generation took, after its prompt and first token.
#[derive(Clone, Copy, Default)]
struct Run {
    tokens: usize,
    seconds: f64,
    steps: usize,
    /// Steps of one row and their time: what a grammar forced is fed in steps of several.
    single: (usize, f64),
}

impl Run {
    fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

fn generate(engine: &mut Engine, prompt: &[u32], options: &GenerateOptions) -> anyhow::Result<(Run, Vec<u32>)> {
    let mut sequence = engine.sequence();
    // The prompt is read before this returns, and the first token chosen.
    let mut generation = engine.generate(&mut sequence, prompt, options.clone())?;
    let first = generation.steps();
    let mut run = Run::default();
    // Tokens that the last step gave: the next one feeds them.
    let mut fed = 0;
    loop {
        let (before, begun) = (generation.steps(), Instant::now());
        let Some(piece) = generation.next() else { break };
        piece?;
        let (steps, seconds) = (generation.steps() - before, begun.elapsed().as_secs_f64());
        run.seconds += seconds;
        if steps > 0 && fed == 1 {
            run.single = (run.single.0 + steps, run.single.1 + seconds);
        }
        fed = if steps > 0 { 1 } else { fed + 1 };
    }
    run.tokens = generation.generated().len().saturating_sub(1);
    run.steps = generation.steps() - first;
    ensure!(run.tokens > 0, "nothing was generated");
    Ok((run, generation.generated().to_vec()))
}

fn schema() -> anyhow::Result<String> {
    let mut properties = serde_json::Map::new();
    for (i, kind) in (0..FIELDS).zip(KINDS.iter().cycle()) {
        properties.insert(format!("field_{i}"), serde_json::from_str::<Value>(kind)?);
    }
    let required: Vec<&String> = properties.keys().collect();
    let schema =
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    Ok(schema.to_string())
}

fn load(hub: &Hub, model: &str) -> anyhow::Result<Engine> {
    let path = if model == QWEN3 { synthesized(hub, "qwen3-0.6b", "q4_0")? } else { hub.path(model)? };
    let options = LoadOptions { context: Some(2048), ..LoadOptions::default() };
    Engine::load(&path, options).with_context(|| model.to_owned())
}

/// With random weights.
const QWEN3: &str = "qwen3-0.6b-q4_0";

/// A question as the model's chat template puts it.
fn question(engine: &Engine, text: &str) -> anyhow::Result<Vec<u32>> {
    let tokenizer = engine.need_tokenizer()?;
    let special = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
    let messages = json!({ "messages": [{ "role": "user", "content": text }], "add_generation_prompt": true });
    let (bos, eos) = (special(tokenizer.bos()), special(tokenizer.eos()));
    let prompt = ChatTemplate::from_model_file(engine.file())?.render(&messages, bos, eos)?;
    Ok(tokenizer.encode(&prompt, Encode { add_special: false, parse_special: true })?)
}

/// All that there are, or those with these names.
pub fn decoding(rounds: usize, names: &[&str]) -> anyhow::Result<bool> {
    let hub = Hub::from_environment()?;
    let mut rows = Vec::new();
    let wanted = |model: &str| names.is_empty() || names.contains(&model);
    // The larger one takes its time: drafts alone.
    for (model, cases) in [("smollm2-135m", 5), ("qwen2.5-coder-1.5b", 2)].into_iter().filter(|(m, _)| wanted(m)) {
        match hub.path(model) {
            Ok(_) => drafts_and_draws(&mut load(&hub, model)?, model, cases, rounds, &mut rows)?,
            Err(_) => println!("skipped: {model} is not here (cargo xtask models fetch {model})"),
        }
    }
    if wanted(QWEN3) {
        grammars(&mut load(&hub, QWEN3)?, rounds, &mut rows)?;
    }
    let rounds_of = |r: &Row| json!({ "what": r.name, "model": r.model, "plain_and_so": r.rates, "tokens": r.run.tokens, "steps": r.run.steps });
    let name: String = ["decoding"].iter().chain(names).copied().collect::<Vec<_>>().join("-");
    save(&name, &table(rounds, &rows), rows.iter().map(rounds_of).collect())?;
    Ok(true)
}

fn drafts_and_draws(
    engine: &mut Engine,
    model: &'static str,
    most: usize,
    rounds: usize,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let edit = question(engine, &format!("{EDIT}\n\n{FILE}"))?;
    let prose = question(engine, PROSE)?;
    let warm = SamplingOptions { temperature: 0.8, seed: 7, ..SamplingOptions::default() };
    let answer = GenerateOptions::new().max_tokens(192);
    let plain = answer.clone().ignore_eos(true);
    let warm = plain.clone().sampling(warm);
    let drafting = |options: &GenerateOptions| options.clone().speculation(Speculation::Ngram);
    let cases = [
        ("n-gram drafts, a file with one word changed", &edit, &answer, drafting(&answer)),
        ("n-gram drafts, prose", &prose, &plain, drafting(&plain)),
        ("n-gram drafts, prose at temperature 0.8", &prose, &warm, drafting(&warm)),
        ("draws: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05", &prose, &plain, warm.clone()),
        ("plain decoding once more: what chance does", &prose, &plain, plain.clone()),
    ];
    for (name, prompt, plain, other) in cases.into_iter().take(most) {
        let mut row = Row { name, model, rates: Vec::new(), run: Run::default() };
        for _ in 0..rounds {
            let (run, text) = generate(engine, prompt, plain)?;
            let (other_run, other_text) = generate(engine, prompt, &other)?;
            ensure!(other.speculation == Speculation::Off || text == other_text, "{name}: drafts changed the text");
            row.rates.push((run.rate(), other_run.rate()));
            row.run = other_run;
            eprintln!("{model}: {name}: {:.1} and {:.1} tokens/s", run.rate(), other_run.rate());
        }
        rows.push(row);
    }
    Ok(())
}

fn grammars(engine: &mut Engine, rounds: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let prompt: Vec<u32> = (0..16).map(|i| 1000 + i * 37).collect();
    // The same number of positions, so that attention has the same to read.
    let plain = GenerateOptions::new().max_tokens(224).ignore_eos(true);
    let bound = plain.clone().grammar(Grammar::JsonSchema(schema()?));
    // The grammar's tables of the vocabulary are made once for a model.
    generate(engine, &prompt, &bound.clone().max_tokens(8))?;
    let new = |name| Row { name, model: QWEN3, rates: Vec::new(), run: Run::default() };
    let mut each = new("a schema of 30 fields: each pass that gives one token");
    let mut whole = new("a schema of 30 fields: all tokens, forced ones too");
    for _ in 0..rounds {
        let (run, _) = generate(engine, &prompt, &plain)?;
        let (bound, _) = generate(engine, &prompt, &bound)?;
        ensure!(bound.single.0 > 20, "the schema left hardly a choice");
        eprintln!("{QWEN3}: {:.1} and {:.1} tokens/s", run.rate(), bound.single.0 as f64 / bound.single.1);
        each.rates.push((run.rate(), bound.single.0 as f64 / bound.single.1));
        whole.rates.push((run.rate(), bound.rate()));
        (each.run, whole.run) = (Run { tokens: bound.single.0, steps: bound.single.0, ..bound }, bound);
    }
    rows.extend([each, whole]);
    Ok(())
}

fn table(rounds: usize, rows: &[Row]) -> String {
    let mut text = format!(
        "{} on {}, {} threads; tokens/s as median (lowest–highest) of {rounds} interleaved rounds, without the prompt; \
         the ratio is of each round. Drafts leave the text as it is, which is checked.\n\n\
         | what | model | plain | so | ratio | tokens in steps |\n|---|---|---|---|---|---|\n",
        machine::date(),
        machine::processor(),
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    for row in rows {
        let cells = [
            Spread::of(row.rates.iter().map(|r| r.0)).map(|s| s.rate()),
            Spread::of(row.rates.iter().map(|r| r.1)).map(|s| s.rate()),
            Spread::of(row.rates.iter().map(|r| r.1 / r.0)).map(|s| s.ratio()),
        ];
        text += &format!("| {} | {} |", row.name, row.model);
        text += &cells.map(|c| format!(" {} |", c.unwrap_or_else(|| "–".into()))).concat();
        text += &format!(" {} in {} |\n", row.run.tokens, row.run.steps);
    }
    text
}
