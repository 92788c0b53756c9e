//! `cargo xtask bench whisper`: recordings to text through us and whisper.cpp with the same weights and the same search, in
//! rounds that alternate.
//!
//! The whole time is that of the whole command, from its start to its end. The encoder's is what each engine says of
//! itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use akunu_audio::{SAMPLE_RATE, Source};
use akunu_hub::Hub;
use anyhow::{Context, bail, ensure};
use serde_json::json;

use super::report::{Spread, save};
use super::{build, machine};

/// What to measure and with what.
#[derive(Clone, Debug)]
pub struct SpeechPeers {
    pub whisper_cli: PathBuf,
    pub akunu: Option<PathBuf>,
    pub models: Vec<String>,
    pub rounds: usize,
    pub threads: usize,
}

/// One engine's time for one recording, in milliseconds.
#[derive(Clone, Copy)]
struct Times {
    whole: f64,
    encoder: f64,
}

/// Pairs of ours and theirs, one a round.
struct Measured {
    name: String,
    times: Vec<(Times, Times)>,
}

pub fn speech(options: &SpeechPeers) -> anyhow::Result<bool> {
    let akunu = options.akunu.clone().map_or_else(build, Ok)?;
    let hub = Hub::from_environment()?;
    let mut models = Vec::new();
    for name in &options.models {
        models.push((name.clone(), hub.path(name).with_context(|| format!("cargo xtask models fetch {name}"))?));
    }
    let folder = std::env::temp_dir().join(format!("akunu-whisper-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let recordings = recordings(&folder)?;
    let mut results: Vec<Measured> = Vec::new();
    let mut raw = Vec::new();
    for round in 0..options.rounds {
        let mut at = 0;
        for (model, path) in &models {
            for (recording, audio) in &recordings {
                for beams in [1, 5] {
                    let name = format!("{model}, {recording}, {}", if beams == 1 { "greedy" } else { "5 beams" });
                    eprintln!("round {} of {}: {name}", round + 1, options.rounds);
                    let ours = ours(&akunu, path, audio, beams, options.threads)?;
                    let theirs = theirs(&options.whisper_cli, path, audio, beams, options.threads)?;
                    let times = |t: Times| json!({ "whole_ms": t.whole, "encoder_ms": t.encoder });
                    let row =
                        json!({ "round": round, "what": name, "akunu": times(ours), "whisper_cli": times(theirs) });
                    raw.push(row);
                    if results.len() == at {
                        results.push(Measured { name, times: Vec::new() });
                    }
                    results[at].times.push((ours, theirs));
                    at += 1;
                }
            }
        }
    }
    fs::remove_dir_all(&folder)?;
    save(&format!("whisper-t{}", options.threads), &table(options, &results), raw)?;
    Ok(true)
}

/// One short recording, and one of a minute made of all there are.
fn recordings(to: &Path) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let folder = crate::root().join("fixtures/audio/speech");
    let mut clips: Vec<PathBuf> = fs::read_dir(&folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    clips.retain(|c| c.extension().is_some_and(|e| e == "flac" || e == "ogg"));
    clips.sort();
    let short = clips.iter().find(|c| c.ends_with("jfk.flac")).context("jfk.flac among the fixtures")?.clone();
    let mut samples = Vec::new();
    for clip in clips.iter().chain(&clips) {
        let mut source = Source::open(clip)?;
        while source.read(&mut samples)? {}
        samples.extend(vec![0.0; SAMPLE_RATE / 2]);
    }
    let long = to.join("minute.wav");
    fs::write(&long, wav(&samples))?;
    Ok(vec![("11 s", short), ("75 s", long)])
}

/// A recording of 16 kHz samples: 16 bits, mono.
pub fn wav(samples: &[f32]) -> Vec<u8> {
    let (rate, bytes) = (SAMPLE_RATE as u32, 2 * samples.len() as u32);
    let mut out = b"RIFF".to_vec();
    out.extend((36 + bytes).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend(rate.to_le_bytes());
    out.extend((2 * rate).to_le_bytes());
    out.extend(b"\x02\0\x10\0data");
    out.extend(bytes.to_le_bytes());
    out.extend(samples.iter().flat_map(|s| ((s * 32768.0).clamp(-32768.0, 32767.0) as i16).to_le_bytes()));
    out
}

fn ours(akunu: &Path, model: &Path, audio: &Path, beams: usize, threads: usize) -> anyhow::Result<Times> {
    let mut command = Command::new(akunu);
    command.arg("transcribe").args([model, audio]).args(["--language", "en", "--timings"]);
    command.args(["--beams", &beams.to_string(), "--threads", &threads.to_string()]);
    timed(&mut command, "encoder ")
}

fn theirs(cli: &Path, model: &Path, audio: &Path, beams: usize, threads: usize) -> anyhow::Result<Times> {
    let mut command = Command::new(cli);
    command.arg("-m").arg(model).arg("-f").arg(audio).args(["-l", "en", "-t", &threads.to_string()]);
    command.args(["-bs", &beams.to_string(), "-bo", &beams.to_string()]);
    timed(&mut command, "encode time =")
}

/// Runs a command that says how many milliseconds its encoder took after `label`.
fn timed(command: &mut Command, label: &str) -> anyhow::Result<Times> {
    let name = command.get_program().display().to_string();
    let start = Instant::now();
    let out = command.output().with_context(|| format!("cannot start {name}"))?;
    let whole = start.elapsed().as_secs_f64() * 1e3;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        bail!("{name} ended with {}: {said}", out.status);
    }
    ensure!(!out.stdout.is_empty(), "{name} transcribed nothing");
    let after = said.split(label).nth(1).with_context(|| format!("{name} gave no time of its encoder"))?;
    let encoder = after.split_whitespace().next().unwrap_or_default().parse()?;
    Ok(Times { whole, encoder })
}

fn table(o: &SpeechPeers, results: &[Measured]) -> String {
    let mut text = format!(
        "{} on {}, {} threads; milliseconds as median (lowest–highest) of {} interleaved rounds, the whole command and its \
         encoder; the ratio is of each round.\n\n\
         | model, recording, search | whole | whisper.cpp | ratio | encoder | whisper.cpp | ratio |\n\
         |---|---|---|---|---|---|---|\n",
        machine::date(),
        machine::processor(),
        o.threads,
        o.rounds
    );
    for result in results {
        text += &format!("| {} |", result.name);
        for part in [|t: Times| t.whole, |t: Times| t.encoder] {
            let pairs = || result.times.iter().map(|(ours, theirs)| (part(*ours), part(*theirs)));
            let cells = [
                Spread::of(pairs().map(|p| p.0)).map(|s| s.rate()),
                Spread::of(pairs().map(|p| p.1)).map(|s| s.rate()),
                Spread::of(pairs().map(|p| p.1 / p.0)).map(|s| s.ratio()),
            ];
            text += &cells.map(|c| format!(" {} |", c.unwrap_or_else(|| "–".into()))).concat();
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_whole_and_the_encoder() {
        let pair = |ours: f64, theirs: f64| {
            let times = |ms| Times { whole: ms, encoder: ms / 2.0 };
            (times(ours), times(theirs))
        };
        let results =
            [Measured { name: "m".into(), times: vec![pair(10.0, 40.0), pair(20.0, 40.0), pair(10.0, 30.0)] }];
        let options = SpeechPeers { whisper_cli: "x".into(), akunu: None, models: Vec::new(), rounds: 3, threads: 2 };
        let row = table(&options, &results).lines().last().unwrap().to_owned();
        let whole = "10.0 (10.0–20.0) | 40.0 (30.0–40.0) | 3.00× (2.00–4.00)";
        let encoder = "5.00 (5.00–10.00) | 20.0 (15.0–20.0) | 3.00× (2.00–4.00)";
        assert_eq!(row, format!("| m | {whole} | {encoder} |"));
    }
}
