//! The tokens of a window, cut into segments at its timestamps; and where the next window begins.

use super::vocabulary::{FRAMES_PER_TIMESTAMP, TIMESTAMPS_PER_SECOND};
use super::{Vocabulary, vad};
use akunu_audio::FRAME_RATE;

#[derive(Debug, PartialEq)]
pub struct Spans {
    /// Start and end in seconds of the window, and tokens.
    pub spans: Vec<(f64, f64, Vec<u32>)>,
    /// Whether a timestamp alone ends the text: nobody speaks after it.
    pub is_last: bool,
    /// Frames of the window that are done.
    pub moved: usize,
}

impl Spans {
    /// Cuts at pairs of timestamps a window of `count` frames.
    pub fn of(vocabulary: &Vocabulary, tokens: &[u32], count: usize) -> Self {
        Self::cut(vocabulary.first_timestamp, tokens, count)
    }

    fn cut(first_timestamp: u32, tokens: &[u32], count: usize) -> Self {
        let is_timestamp: Vec<bool> = tokens.iter().map(|t| *t >= first_timestamp).collect();
        let step = |token: u32| token.saturating_sub(first_timestamp) as usize;
        let seconds = |token: u32| step(token) as f64 / TIMESTAMPS_PER_SECOND as f64;
        let is_last = matches!(is_timestamp[..], [.., false, true]);
        let mut cuts: Vec<usize> = (1..tokens.len()).filter(|i| is_timestamp[i - 1] && is_timestamp[*i]).collect();
        if cuts.is_empty() {
            let last = tokens.iter().rev().find(|t| **t >= first_timestamp).map(|t| seconds(*t));
            let end = last.filter(|s| *s > 0.0).unwrap_or(count as f64 / FRAME_RATE as f64);
            return Self { spans: vec![(0.0, end, tokens.to_vec())], is_last, moved: count };
        }
        if is_last {
            cuts.push(tokens.len());
        }
        let mut spans = Vec::new();
        let mut from = 0;
        for cut in cuts {
            let part = &tokens[from..cut];
            if let (Some(first), Some(last)) = (part.first(), part.last()) {
                spans.push((seconds(*first), seconds(*last), part.to_vec()));
            }
            from = cut;
        }
        let moved = if is_last { count } else { step(tokens[from - 1]) * FRAMES_PER_TIMESTAMP };
        Self { spans, is_last, moved }
    }

    /// Does not believe that the text is the last where somebody goes on speaking after a pause: the next window begins there.
    pub fn continue_after_pause(&mut self, quiet: &[bool]) {
        let end = self.spans.last().map_or(0.0, |(_, end, _)| *end);
        let end = (end * FRAME_RATE as f64) as usize;
        if let Some(at) = vad::resumes(quiet, end).filter(|at| self.is_last && *at > 0) {
            (self.is_last, self.moved) = (false, at);
        }
    }
}

/// How well a text compresses: repetition does best.
pub fn compression_ratio(text: &str) -> f32 {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let written = std::io::Write::write_all(&mut encoder, text.as_bytes()).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    text.len() as f32 / written.map_or(1, |bytes| bytes.len().max(1)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first timestamp; a step is 0.02 s.
    const T: u32 = 100;

    #[test]
    fn repetition_compresses() {
        assert!(compression_ratio("A man went to the shore and saw the ships.") < 1.2);
        assert!(compression_ratio(&"and so on ".repeat(30)) > 2.4);
    }

    #[test]
    fn the_next_window_begins_at_the_last_pair_of_timestamps() {
        let found = Spans::cut(T, &[T, 1, 2, T + 50, T + 60, 3, T + 100, T + 100], 800);
        let wanted = vec![(0.0, 1.0, vec![T, 1, 2, T + 50]), (1.2, 2.0, vec![T + 60, 3, T + 100])];
        assert_eq!(found, Spans { spans: wanted, is_last: false, moved: 200 });
    }

    /// As the reference has it: 4 s of text, and the 8 s of the window are done.
    #[test]
    fn a_timestamp_alone_ends_the_window() {
        for tokens in [&[T, 1, T + 200][..], &[T, 1, T + 100, T + 100, 2, T + 200]] {
            let found = Spans::cut(T, tokens, 800);
            assert!(found.is_last && found.moved == 800, "{found:?}");
        }
    }

    /// 4 s of text, a pause, and 3 s of speech of which there is no text.
    #[test]
    fn what_follows_a_pause_after_the_last_text_is_not_lost() {
        let quiet: Vec<bool> = (0..800).map(|at| (400..500).contains(&at)).collect();
        for tokens in [&[T, 1, T + 200][..], &[T, 1, T + 100, T + 100, 2, T + 200]] {
            let mut found = Spans::cut(T, tokens, 800);
            found.continue_after_pause(&quiet);
            assert!(!found.is_last && found.moved == 480, "{found:?}");
        }
        // Where the text goes on itself, its timestamps say where the next window begins.
        let mut found = Spans::cut(T, &[T, 1, T + 100, T + 100], 800);
        found.continue_after_pause(&quiet);
        assert_eq!(found.moved, 200);
    }
}
