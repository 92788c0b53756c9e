//! `cargo xtask bench revision`: our speed and an earlier build's, level by level, in rounds that alternate.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};

use super::{Peers, build, machine, models, ours, report};

/// What to measure and against what.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The earlier binary; its name says in the table which build it is.
    pub before: PathBuf,
    /// Our binary, models, rounds, tokens, depth and threads.
    pub ours: Peers,
    /// The machine's best where there are none.
    pub levels: Vec<String>,
}

/// Tokens a second of both builds, one pair a round: the earlier one first.
struct Measured {
    name: String,
    prefill: Vec<(f64, f64)>,
    decode: Vec<(f64, f64)>,
}

pub fn revision(options: &Revision) -> anyhow::Result<bool> {
    let after = options.ours.akunu.clone().map_or_else(build, Ok)?;
    let levels: Vec<Option<&String>> = match options.levels.is_empty() {
        true => vec![None],
        false => options.levels.iter().map(Some).collect(),
    };
    let (mut results, mut raw) = (Vec::new(), Vec::new());
    for level in levels {
        let one = Peers { level: level.cloned(), ..options.ours.clone() };
        for (model, path) in models(&one)? {
            let name = level.map_or(model.clone(), |level| format!("{model}, {level}"));
            eprintln!("{name}");
            let mut measured = Measured { name: name.clone(), prefill: Vec::new(), decode: Vec::new() };
            for round in 0..one.rounds {
                // The first of a pair meets another machine than the second.
                let mut builds = [&options.before, &after];
                if round % 2 == 1 {
                    builds.reverse();
                }
                let mut pair: Vec<Value> = builds.iter().map(|b| ours(b, &path, &one)).collect::<Result<_, _>>()?;
                if round % 2 == 1 {
                    pair.reverse();
                }
                let rate = |side: usize, kind: &str| pair[side][kind]["tokens_per_s"].as_f64().context("no rate");
                if one.prompt > 0 {
                    measured.prefill.push((rate(0, "prefill")?, rate(1, "prefill")?));
                }
                if one.tokens > 0 {
                    measured.decode.push((rate(0, "decode")?, rate(1, "decode")?));
                }
                pair.iter_mut().for_each(|build| build["model"] = json!(model));
                raw.push(json!({ "round": round, "model": name, "before": pair[0], "after": pair[1] }));
            }
            results.push(measured);
        }
    }
    let Peers { prompt, tokens, threads, .. } = options.ours;
    let levels = options.levels.iter().map(|level| format!("-{level}")).collect::<String>();
    report::save(
        &format!("revision-{}-p{prompt}-n{tokens}-t{threads}{levels}", before(options)),
        &table(options, &results),
        raw,
    )?;
    Ok(true)
}

/// The earlier build's name.
fn before(options: &Revision) -> String {
    options.before.file_name().map_or_else(|| "before".into(), |name| name.to_string_lossy().into_owned())
}

fn table(options: &Revision, results: &[Measured]) -> String {
    let Peers { prompt, tokens, threads, rounds, .. } = options.ours;
    let mut text = format!(
        "{} on {}, {threads} threads; tokens/s as median (lowest–highest) of {rounds} interleaved rounds; the ratio is of \
         each round, this build to the earlier one, {}.\n\n\
         | model | prefill {prompt}, before | after | ratio | decode {tokens}, before | after | ratio |\n\
         |---|---|---|---|---|---|---|\n",
        machine::date(),
        machine::processor(),
        before(options),
    );
    for result in results {
        text += &format!("| {} |", result.name);
        for pairs in [&result.prefill, &result.decode] {
            text += &report::cells(pairs, |(before, after)| after / before);
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_of_the_later_build_to_the_earlier() {
        let options = Revision { before: "x".into(), ours: Peers::new(Vec::new()), levels: Vec::new() };
        let results = [Measured { name: "m".into(), prefill: vec![(10.0, 20.0)], decode: Vec::new() }];
        let row = table(&options, &results).lines().last().unwrap().to_owned();
        assert_eq!(row, "| m | 10.0 (10.0–10.0) | 20.0 (20.0–20.0) | 2.00× (2.00–2.00) | – | – | – |");
    }
}
