//! Models of speech against what whisper.cpp and OpenAI's code understand in the same recordings (`fixtures/real_speech.json`, made
//! by `fixtures/scripts/real_speech.py`): word errors, and when segments and words are said.
//!
//! The two differ from each other where beams are almost equally likely, and in what they suppress: whisper.cpp says
//! quotation marks unless it is told not to. No recording may have more errors than with OpenAI's code, whose rules are ours;
//! all of them together may not have more than with whisper.cpp; and times are as near to the one or the other.

use std::ops::ControlFlow;
use std::path::Path;

use akunu::LoadOptions;
use akunu::speech::{Decoding, Segment, Silence, TranscribeOptions, Transcriber, VoiceModel};
use akunu_audio::{Features, SAMPLE_RATE, Source};
use akunu_hub::Hub;
use anyhow::Context;
use serde_json::Value;

/// Seconds that times may be apart.
const APART: f64 = 0.1;

/// Of all recordings with one search.
#[derive(Default)]
struct Totals {
    words: usize,
    errors: usize,
    /// whisper.cpp's and OpenAI's.
    their_errors: [usize; 2],
    /// The furthest a segment is from whisper.cpp's, and from OpenAI's.
    apart: [f64; 2],
    /// The furthest a word's end is from OpenAI's.
    timed: f64,
}

pub fn run(hub: &Hub, names: &[&str]) -> anyhow::Result<bool> {
    let reference = super::read(&crate::root().join("fixtures/real_speech.json"))?;
    let voices = hub.path("silero-vad").ok().map(|path| VoiceModel::load(&path)).transpose()?;
    if voices.is_none() {
        println!("skipped: noise, silero-vad is not fetched (cargo xtask models fetch silero-vad)");
    }
    let mut agree = true;
    let mut all: Vec<Totals> = Vec::new();
    println!(
        "{:<20} {:>5} {:>6} {:>7} {:>12} {:>9} {:>12} {:>10} {:>10}  result",
        "model", "beams", "words", "errors", "whisper.cpp", "OpenAI", "times apart", "OpenAI", "word times"
    );
    for (name, recordings) in reference["models"].as_object().context("a reference without models")? {
        if !names.is_empty() && !names.contains(&name.as_str()) {
            continue;
        }
        let Ok(path) = hub.path(name) else {
            println!("{name:<20} skipped: not fetched (cargo xtask models fetch {name})");
            continue;
        };
        let mut transcriber = Transcriber::load(&path, LoadOptions::default())?;
        for beams in [1, 5] {
            let (right, totals) = compare(name, &mut transcriber, recordings, &reference["said"], beams)?;
            agree &= right;
            all.push(totals);
        }
        agree &= silence(name, &mut transcriber, voices.as_ref())?;
        agree &= joined(name, &mut transcriber, recordings, &reference["said"])?;
    }
    let ours: usize = all.iter().map(|t| t.errors).sum();
    let theirs: usize = all.iter().map(|t| t.their_errors[0]).sum();
    // One model alone may be on the wrong side of a coin.
    let right = ours <= theirs || all.len() < 4;
    println!("{:<20} {ours} errors, whisper.cpp {theirs}  {}", "together", if right { "agrees" } else { "DIFFERS" });
    Ok(agree && right)
}

fn compare(
    name: &str,
    transcriber: &mut Transcriber,
    recordings: &Value,
    said: &Value,
    beams: usize,
) -> anyhow::Result<(bool, Totals)> {
    let mut totals = Totals::default();
    let mut differing = Vec::new();
    for (recording, rows) in recordings.as_object().into_iter().flatten() {
        let path = crate::root().join("fixtures/audio/speech").join(recording);
        let row = &rows[beams.to_string()];
        let (cpp, openai) = (segments(&row["whisper.cpp"]), segments(&row["openai"]));
        let ours = transcribe(transcriber, &path, beams, false)?;
        let text = |segments: &[(f64, f64, String)]| segments.iter().map(|s| s.2.as_str()).collect::<String>();
        let plain: Vec<(f64, f64, String)> = ours.iter().map(|s| (s.start, s.end, s.text.clone())).collect();
        let said = said[recording].as_str().context("what is said in a recording")?;
        let [found, cpp_errors, openai_errors] = [&plain, &cpp, &openai].map(|s| errors(said, &text(s)));
        totals.words += spoken(said).len();
        totals.errors += found;
        totals.their_errors[0] += cpp_errors;
        totals.their_errors[1] += openai_errors;
        let apart = [apart(&plain, &cpp), apart(&plain, &openai)];
        let nearer = apart[0].min(apart[1]);
        for (most, apart) in totals.apart.iter_mut().zip(apart) {
            *most = most.max(apart);
        }
        if found > openai_errors || nearer > APART {
            differing.push(format!("    {recording}: {plain:?}\n    whisper.cpp {cpp:?}\n    OpenAI {openai:?}"));
        }
        // Words of the same text.
        if text(&plain) == text(&openai) {
            let timed = transcribe(transcriber, &path, beams, true)?;
            let words = timed.iter().flat_map(|s| &s.words);
            let ends = row["words"].as_array().into_iter().flatten().map(|w| w[2].as_f64().unwrap_or(f64::INFINITY));
            totals.timed = words.zip(ends).map(|(w, end)| (w.end - end).abs()).fold(totals.timed, f64::max);
        }
    }
    let right = differing.is_empty() && totals.timed <= APART;
    println!(
        "{name:<20} {beams:>5} {:>6} {:>7} {:>12} {:>9} {:>12.2} {:>10.2} {:>10.2}  {}",
        totals.words,
        totals.errors,
        totals.their_errors[0],
        totals.their_errors[1],
        totals.apart[0],
        totals.apart[1],
        totals.timed,
        if right { "agrees" } else { "DIFFERS" }
    );
    differing.iter().for_each(|line| println!("{line}"));
    Ok((right, totals))
}

/// In 40 seconds of silence nobody says anything, whatever a model makes up that encodes it; nor in noise, which only a model of
/// voices tells from speech.
fn silence(name: &str, transcriber: &mut Transcriber, voices: Option<&VoiceModel>) -> anyhow::Result<bool> {
    let path = std::env::temp_dir().join(format!("akunu-silence-{}.wav", std::process::id()));
    let noise = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e8 - 0.08;
    let quiet = (0.0, "silence", Silence::ByEnergy);
    let loud = voices.map(|model| (1.0, "noise", Silence::ByVoice(model.clone())));
    let mut right = true;
    for (loudness, what, skip) in [Some(quiet), loud].into_iter().flatten() {
        let samples: Vec<f32> = (0..40 * SAMPLE_RATE as u32).map(|i| loudness * noise(i)).collect();
        std::fs::write(&path, crate::bench::wav(&samples))?;
        let mut transcribe = |silence| -> anyhow::Result<String> {
            let options = TranscribeOptions { silence, ..TranscribeOptions::default() };
            let mut features = Features::open(&path, transcriber.bands(), |_| {})?;
            Ok(transcriber.transcribe(&mut features, &options, |_| ControlFlow::Continue(()))?.text())
        };
        let (skipped, kept) = (transcribe(skip)?, transcribe(Silence::Keep)?);
        right &= skipped.is_empty();
        let result = if skipped.is_empty() { "agrees" } else { "DIFFERS" };
        println!("{name:<20} in {what}: {skipped:?}, where it is encoded: {kept:?}  {result}");
    }
    std::fs::remove_file(&path)?;
    Ok(right)
}

/// All recordings ten times over with pauses between them: every sentence is there as often as it is said, so that no more
/// words are wrong than a few in a hundred.
fn joined(name: &str, transcriber: &mut Transcriber, recordings: &Value, said: &Value) -> anyhow::Result<bool> {
    let (mut samples, mut wanted) = (Vec::new(), String::new());
    for round in 0..10 {
        for (i, recording) in recordings.as_object().into_iter().flatten().map(|r| r.0).enumerate() {
            let mut source = Source::open(&crate::root().join("fixtures/audio/speech").join(recording))?;
            while source.read(&mut samples)? {}
            // From half a second to four; now and then twenty.
            let pause = if (6 * round + i) % 13 == 12 { 20.0 } else { 0.5 + 0.35 * ((7 * i + 3 * round) % 11) as f64 };
            samples.resize(samples.len() + (pause * SAMPLE_RATE as f64) as usize, 0.0);
            wanted.extend([said[recording].as_str().context("what is said in a recording")?, " "]);
        }
    }
    let path = std::env::temp_dir().join(format!("akunu-joined-{}.wav", std::process::id()));
    std::fs::write(&path, crate::bench::wav(&samples))?;
    let mut features = Features::open(&path, transcriber.bands(), |_| {})?;
    let found = transcriber.transcribe(&mut features, &TranscribeOptions::default(), |_| ControlFlow::Continue(()));
    std::fs::remove_file(&path)?;
    let (words, errors) = (spoken(&wanted).len(), errors(&wanted, &found?.text()));
    let right = 100 * errors <= 4 * words;
    let seconds = samples.len() / SAMPLE_RATE;
    println!(
        "{name:<20} joined with pauses to {seconds} s: {errors} errors in {words} words  {}",
        if right { "agrees" } else { "DIFFERS" }
    );
    Ok(right)
}

fn transcribe(transcriber: &mut Transcriber, path: &Path, beams: usize, words: bool) -> anyhow::Result<Vec<Segment>> {
    let decoding = Decoding { beams, temperatures: vec![0.0], ..Decoding::default() };
    let language = Some("en".to_owned());
    let options = TranscribeOptions { language, decoding, words, ..TranscribeOptions::default() };
    let mut features = Features::open(path, transcriber.bands(), |_| {})?;
    Ok(transcriber.transcribe(&mut features, &options, |_| ControlFlow::Continue(()))?.segments)
}

fn segments(value: &Value) -> Vec<(f64, f64, String)> {
    let segment = |s: &Value| Some((s[0].as_f64()?, s[1].as_f64()?, s[2].as_str()?.to_owned()));
    value.as_array().into_iter().flatten().filter_map(segment).collect()
}

/// How far the ends of segments are apart; very far where there are more of one.
fn apart(ours: &[(f64, f64, String)], theirs: &[(f64, f64, String)]) -> f64 {
    if ours.len() != theirs.len() {
        return f64::INFINITY;
    }
    ours.iter().zip(theirs).map(|(a, b)| (a.0 - b.0).abs().max((a.1 - b.1).abs())).fold(0.0, f64::max)
}

/// Words as they are compared: no case, no marks, no hyphens.
fn spoken(text: &str) -> Vec<String> {
    let text = text.to_lowercase().replace("mr.", "mister");
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// Words to put in, take out or change.
fn errors(said: &str, transcribed: &str) -> usize {
    let (said, transcribed) = (spoken(said), spoken(transcribed));
    let mut row: Vec<usize> = (0..=transcribed.len()).collect();
    for (i, word) in said.iter().enumerate() {
        let before = row.clone();
        row[0] = i + 1;
        for (j, other) in transcribed.iter().enumerate() {
            row[j + 1] = (before[j + 1] + 1).min(row[j] + 1).min(before[j] + usize::from(word != other));
        }
    }
    row[transcribed.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_without_marks() {
        assert_eq!(errors("He was not ill-disposed.", " he was not ill disposed"), 0);
        assert_eq!(errors("one two three", "one too three four"), 2);
        assert_eq!(errors("one two", ""), 2);
        assert_eq!(errors("Mister Dashwood", "Mr. Dashwood"), 0);
    }
}
