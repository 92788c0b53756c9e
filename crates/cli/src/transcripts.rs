//! Transcripts as people keep them: text, subtitles, JSON, tables.

use akunu::speech::{Cue, Transcript, srt, vtt};
use serde_json::{Value, json};

/// A whole transcript in a format of the flag table.
pub fn write(transcript: &Transcript, format: &str, words: bool) -> String {
    let cues = transcript.cues(words);
    match format {
        "srt" => srt(&cues),
        "vtt" => vtt(&cues),
        "csv" => csv(&cues),
        "json" => format!("{}\n", json(transcript, words)),
        _ => transcript.segments.iter().map(|s| format!("{}\n", s.text.trim())).collect(),
    }
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
    use akunu::speech::Segment;

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
