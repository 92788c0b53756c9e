//! Transcripts as subtitles.

use super::Transcript;

/// A line of a subtitle, in seconds from the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cue<'a> {
    /// Its first sound.
    pub start: f64,
    /// Its last.
    pub end: f64,
    /// Without space around it.
    pub text: &'a str,
}

impl Transcript {
    /// A cue for each segment; or for each word, where words were timed and are asked for.
    pub fn cues(&self, words: bool) -> Vec<Cue<'_>> {
        let mut cues = Vec::new();
        for segment in &self.segments {
            match words && !segment.words.is_empty() {
                true => {
                    cues.extend(segment.words.iter().map(|w| Cue { start: w.start, end: w.end, text: w.text.trim() }))
                }
                false => cues.push(Cue { start: segment.start, end: segment.end, text: segment.text.trim() }),
            }
        }
        cues
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

/// Cues as SubRip has them.
pub fn srt(cues: &[Cue<'_>]) -> String {
    let cue = |(i, c): (usize, &Cue<'_>)| {
        format!("{}\n{} --> {}\n{}\n\n", i + 1, clock(c.start, ','), clock(c.end, ','), cue_text(c.text))
    };
    cues.iter().enumerate().map(cue).collect()
}

/// Cues as WebVTT has them.
pub fn vtt(cues: &[Cue<'_>]) -> String {
    let escape = |text: &str| cue_text(text).replace('&', "&amp;").replace('<', "&lt;");
    let cue = |c: &Cue<'_>| format!("{} --> {}\n{}\n\n", clock(c.start, '.'), clock(c.end, '.'), escape(c.text));
    format!("WEBVTT\n\n{}", cues.iter().map(cue).collect::<String>())
}
