//! Transcripts as people keep them: text, subtitles, JSON, tables.

use akunu::speech::{Segment, Transcript};
use serde_json::{Value, json};

/// One line of a subtitle or table.
struct Cue<'a> {
    start: f64,
    end: f64,
    text: &'a str,
}

/// A whole transcript in a format of the flag table.
pub fn write(transcript: &Transcript, format: &str, words: bool) -> String {
    let cues: Vec<Cue<'_>> = transcript.segments.iter().flat_map(|s| cues(s, words)).collect();
    match format {
        "srt" => srt(&cues),
        "vtt" => vtt(&cues),
        "csv" => csv(&cues),
        "json" => format!("{}\n", json(transcript, words)),
        _ => transcript.segments.iter().map(|s| format!("{}\n", s.text.trim())).collect(),
    }
}

fn cues(segment: &Segment, words: bool) -> Vec<Cue<'_>> {
    match words && !segment.words.is_empty() {
        true => segment.words.iter().map(|w| Cue { start: w.start, end: w.end, text: w.text.trim() }).collect(),
        false => vec![Cue { start: segment.start, end: segment.end, text: segment.text.trim() }],
    }
}

/// Hours, minutes, seconds and milliseconds.
fn clock(seconds: f64, point: char) -> String {
    let ms = (seconds.max(0.0) * 1000.0).round() as u64;
    let (h, m, s, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    format!("{h:02}:{m:02}:{s:02}{point}{ms:03}")
}

/// An arrow inside a cue would end it.
fn cue_text(text: &str) -> String {
    text.replace("-->", "->").replace('\n', " ")
}

fn srt(cues: &[Cue<'_>]) -> String {
    let cue = |(i, c): (usize, &Cue<'_>)| {
        format!("{}\n{} --> {}\n{}\n\n", i + 1, clock(c.start, ','), clock(c.end, ','), cue_text(c.text))
    };
    cues.iter().enumerate().map(cue).collect()
}

fn vtt(cues: &[Cue<'_>]) -> String {
    let escape = |text: &str| cue_text(text).replace('&', "&amp;").replace('<', "&lt;");
    let cue = |c: &Cue<'_>| format!("{} --> {}\n{}\n\n", clock(c.start, '.'), clock(c.end, '.'), escape(c.text));
    format!("WEBVTT\n\n{}", cues.iter().map(cue).collect::<String>())
}

/// Times in seconds; a quote in a text is written twice.
fn csv(cues: &[Cue<'_>]) -> String {
    let row = |c: &Cue<'_>| format!("{:.3},{:.3},\"{}\"\n", c.start, c.end, c.text.replace('"', "\"\""));
    format!("start,end,text\n{}", cues.iter().map(row).collect::<String>())
}

fn json(transcript: &Transcript, words: bool) -> Value {
    // Three digits are more than the times have.
    let time = |t: f64| (t * 1000.0).round() / 1000.0;
    let segments: Vec<Value> = transcript
        .segments
        .iter()
        .enumerate()
        .map(|(id, s)| {
            let mut value = json!({
                "id": id,
                "start": time(s.start),
                "end": time(s.end),
                "text": s.text,
                "tokens": s.tokens,
                "temperature": s.temperature,
                "avg_logprob": s.log_probability,
                "compression_ratio": s.compression_ratio,
                "no_speech_prob": s.no_speech,
            });
            if words {
                let word = |w: &akunu::speech::Word| {
                    json!({"word": w.text, "start": time(w.start), "end": time(w.end), "probability": w.probability})
                };
                value["words"] = s.words.iter().map(word).collect();
            }
            value
        })
        .collect();
    json!({"text": transcript.text(), "language": transcript.language, "segments": segments})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript() -> Transcript {
        let segment = Segment {
            start: 0.0,
            end: 3661.5,
            text: " He said \"a < b\" --> c.".into(),
            tokens: vec![1],
            words: Vec::new(),
            temperature: 0.0,
            log_probability: -0.5,
            compression_ratio: 1.0,
            no_speech: 0.0,
        };
        Transcript { language: "en".into(), segments: vec![segment] }
    }

    #[test]
    fn every_format_escapes_what_it_must() {
        let write = |format| write(&transcript(), format, false);
        assert_eq!(write("txt"), "He said \"a < b\" --> c.\n");
        assert_eq!(write("srt"), "1\n00:00:00,000 --> 01:01:01,500\nHe said \"a < b\" -> c.\n\n");
        assert_eq!(write("vtt"), "WEBVTT\n\n00:00:00.000 --> 01:01:01.500\nHe said \"a &lt; b\" -> c.\n\n");
        assert_eq!(write("csv"), "start,end,text\n0.000,3661.500,\"He said \"\"a < b\"\" --> c.\"\n");
        let value: Value = serde_json::from_str(&write("json")).unwrap();
        assert_eq!(value["segments"][0]["text"], " He said \"a < b\" --> c.");
        assert_eq!(value["text"], "He said \"a < b\" --> c.");
    }
}
