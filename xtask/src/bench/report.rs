//! The table of a run, and its files under `bench/runs`.

use std::fs;

use serde_json::{Value, json};

use super::{Measured, Peers, machine};

/// The middle and the ends of some numbers.
pub(super) struct Spread {
    low: f64,
    pub median: f64,
    high: f64,
}

impl Spread {
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (&low, &high) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { low, median, high })
    }

    pub fn rate(&self) -> String {
        // Seconds are small numbers.
        let digits = if self.median < 10.0 { 2 } else { 1 };
        format!("{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.low, self.high)
    }

    pub fn ratio(&self) -> String {
        format!("{:.2}× ({:.2}–{:.2})", self.median, self.low, self.high)
    }
}

/// Prints the table and writes it and every number behind it.
pub fn write(options: &Peers, results: &[Measured], raw: Vec<Value>) -> anyhow::Result<()> {
    let level = options.level.as_ref().map_or(String::new(), |level| format!("-{level}"));
    let Peers { prompt, tokens, depth, threads, .. } = options;
    let name = format!("peers-p{prompt}-n{tokens}-d{depth}-t{threads}{level}");
    save(&name, &table(options, results), raw.into_iter().map(condensed).collect())
}

/// Prints a table, and keeps it with the numbers of every round.
pub fn save(name: &str, table: &str, rounds: Vec<Value>) -> anyhow::Result<()> {
    println!("{table}");
    let folder = crate::root().join("bench/runs").join(format!("{}-{}", machine::date(), machine::slug()));
    fs::create_dir_all(&folder)?;
    let all = json!({ "processor": machine::processor(), "date": machine::date(), "rounds": rounds });
    fs::write(folder.join(format!("{name}.json")), format!("{all}\n"))?;
    fs::write(folder.join(format!("{name}.md")), table)?;
    println!("written to {}", folder.join(name).display());
    Ok(())
}

/// A round with what matters of the peer's words, and without paths, which are of this machine alone.
fn condensed(mut round: Value) -> Value {
    const KEYS: [&str; 8] =
        ["build_commit", "type_k", "flash_attn", "n_prompt", "n_gen", "n_depth", "avg_ts", "stddev_ts"];
    if let Some(model) = round["akunu"].get_mut("model")
        && let Some(name) = model.as_str().and_then(|s| s.rsplit('/').next())
    {
        *model = json!(name);
    }
    let builds = round["llama_bench"].as_array_mut().into_iter().flatten();
    for entry in builds.filter_map(Value::as_array_mut).flatten().filter_map(Value::as_object_mut) {
        entry.retain(|key, _| KEYS.contains(&key.as_str()));
    }
    round
}

/// Three cells of a row: both rates, and the ratio of every round.
pub(super) fn cells(pairs: &[(f64, f64)], ratio: impl Fn((f64, f64)) -> f64) -> String {
    let cells = [
        Spread::of(pairs.iter().map(|p| p.0)).map(|s| s.rate()),
        Spread::of(pairs.iter().map(|p| p.1)).map(|s| s.rate()),
        Spread::of(pairs.iter().map(|p| ratio(*p))).map(|s| s.ratio()),
    ];
    cells.map(|c| format!(" {} |", c.unwrap_or_else(|| "–".into()))).concat()
}

fn table(o: &Peers, results: &[Measured]) -> String {
    let level = o.level.as_ref().map_or(String::new(), |level| format!(", {level} only"));
    let mut text = format!(
        "{} on {}{level}, {} threads, depth {}; tokens/s as median (lowest–highest) of {} interleaved rounds; \
         the ratio is of each round, the last column what decoding reads as a part of the memory bandwidth.\n\n",
        machine::date(),
        machine::processor(),
        o.threads,
        o.depth,
        o.rounds
    );
    text += &format!(
        "| model | prefill {} | llama.cpp | ratio | decode {} | llama.cpp | ratio | of memory |\n",
        o.prompt, o.tokens
    );
    text += "|---|---|---|---|---|---|---|---|\n";
    for result in results {
        text += &format!("| {} |", result.name);
        for pairs in [&result.prefill, &result.decode] {
            text += &cells(pairs, |(ours, theirs)| ours / theirs);
        }
        let share = |s: Spread| format!("{:.0} %", 100.0 * s.median);
        text += &format!(" {} |\n", Spread::of(result.memory.iter().copied()).map_or("–".into(), share));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_medians_and_ratios() {
        let results = [Measured {
            name: "m".into(),
            prefill: vec![(10.0, 5.0), (30.0, 10.0), (20.0, 10.0)],
            ..Measured::default()
        }];
        let options = Peers { rounds: 3, threads: 2, ..Peers::new(vec!["x".into()]) };
        let row = table(&options, &results).lines().last().unwrap().to_owned();
        assert_eq!(row, "| m | 20.0 (10.0–30.0) | 10.0 (5.0–10.0) | 2.00× (2.00–3.00) | – | – | – | – |");
    }

    #[test]
    fn paths_of_the_machine_stay_out_of_the_files() {
        let theirs = json!([[{ "model_filename": "/a/b.gguf", "avg_ts": 2.5 }]]);
        let round = condensed(json!({ "akunu": { "model": "/a/b.gguf" }, "llama_bench": theirs }));
        assert_eq!(round, json!({ "akunu": { "model": "b.gguf" }, "llama_bench": [[{ "avg_ts": 2.5 }]] }));
    }
}
