//! When each word was said: the path through what the timing heads looked at, token by token.

use super::{Segment, Vocabulary, Word};
use crate::step::{Outputs, StepInput};
use crate::{Engine, Error, Sequence};
use akunu_plan::rules::log_sum;

/// A word of a window, in seconds from its start.
struct Timed {
    text: String,
    tokens: usize,
    start: f64,
    end: f64,
    probability: f32,
}

/// Seconds of a position of the encoder.
const POSITION: f64 = 0.02;
/// Neighbours whose median smooths the weights in time.
const MEDIAN: usize = 7;
const OPENING: &str = "\"'“¿([{-";
const CLOSING: &str = "\"'.。,，!！?？:：”)]}、";
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const SENTENCE_ENDS: &str = ".。!！?？";
/// Written without spaces: every character is a word.
const UNSPACED: &[&str] = &["zh", "ja", "th", "lo", "my", "yue"];

/// A window after the audio encoder.
pub struct EncodedWindow<'a> {
    pub sequence: &'a Sequence,
    pub task: &'a [u32],
    /// Positions of the encoder that are sound and not padding.
    pub positions: usize,
    /// Seconds of the recording before it.
    pub offset: f64,
    pub language: &'a str,
    /// When the word before it ended.
    pub last_end: f64,
}

/// Gives every segment its words, and moves its ends to them.
pub fn time_words(
    engine: &mut Engine,
    vocabulary: &Vocabulary,
    window: &EncodedWindow<'_>,
    segments: &mut [Segment],
) -> Result<(), Error> {
    let words_of = |s: &Segment| s.tokens.iter().copied().filter(|t| *t < vocabulary.end).collect::<Vec<u32>>();
    let by_segment: Vec<Vec<u32>> = segments.iter().map(words_of).collect();
    let tokens = by_segment.concat();
    let mut timed = align(engine, vocabulary, window, &tokens)?;
    let mut lengths: Vec<f64> = timed.iter().map(|w| w.end - w.start).filter(|d| *d != 0.0).collect();
    lengths.sort_by(f64::total_cmp);
    let median = match lengths.len() {
        0 => 0.0,
        n => ((lengths[(n - 1) / 2] + lengths[n / 2]) / 2.0).min(0.7),
    };
    if !lengths.is_empty() {
        shorten_at_sentences(&mut timed, 2.0 * median);
    }
    join_punctuation(&mut timed);
    let mut timed = timed.into_iter();
    let mut last_end = window.last_end;
    for (segment, tokens) in segments.iter_mut().zip(by_segment) {
        let mut words = Vec::new();
        let mut taken = 0;
        while taken < tokens.len() {
            let Some(word) = timed.next() else { break };
            taken += word.tokens;
            if !word.text.is_empty() {
                let round = |t: f64| ((window.offset + t) * 100.0).round() / 100.0;
                let (start, end) = (round(word.start), round(word.end));
                words.push(Word { text: word.text, start, end, probability: word.probability });
            }
        }
        fit(segment, &mut words, last_end, median);
        if !words.is_empty() {
            last_end = segment.end;
        }
        segment.words = words;
    }
    Ok(())
}

/// Words that are far too long after a pause are shortened, and the segment's ends agree with its words'.
fn fit(segment: &mut Segment, words: &mut [Word], last_end: f64, median: f64) {
    let most = 2.0 * median;
    let count = words.len();
    if count == 0 {
        return;
    }
    let length = |w: &Word| w.end - w.start;
    let long = length(&words[0]) > most || count > 1 && words[1].end - words[0].start > 2.0 * most;
    if words[0].end - last_end > 4.0 * median && long {
        if count > 1 && length(&words[1]) > most {
            let boundary = (words[1].end / 2.0).max(words[1].end - most);
            words[0].end = boundary;
            words[1].start = boundary;
        }
        words[0].start = (words[0].end - most).max(0.0);
    }
    if segment.start < words[0].end && segment.start - 0.5 > words[0].start {
        words[0].start = (words[0].end - median).min(segment.start).max(0.0);
    } else {
        segment.start = words[0].start;
    }
    let last = &mut words[count - 1];
    if segment.end > last.start && segment.end + 0.5 < last.end {
        last.end = (last.start + median).max(segment.end);
    } else {
        segment.end = last.end;
    }
}

/// Every word of `tokens` with its times.
fn align(
    engine: &mut Engine,
    vocabulary: &Vocabulary,
    window: &EncodedWindow<'_>,
    tokens: &[u32],
) -> Result<Vec<Timed>, Error> {
    if tokens.is_empty() || window.positions == 0 {
        return Ok(Vec::new());
    }
    let before = window.task.len();
    let mut all = window.task.to_vec();
    all.push(vocabulary.no_timestamps);
    all.extend_from_slice(tokens);
    all.push(vocabulary.end);
    let probabilities = probabilities(engine, vocabulary, window.sequence, &all, before)?;
    let heads = engine.model().config.timing_heads.len();
    let encoded = engine.encoder_positions();
    let mut sequence = window.sequence.fork();
    let rows = engine.timing(&mut sequence, &all)?;
    let matrix = matrix(&rows, heads, encoded, window.positions);
    // From the token before the first word's to the last word's: each looks at what it predicts.
    let matrix = &matrix[before..all.len() - 1];
    let starts = path(matrix);
    let words = split(vocabulary, tokens, UNSPACED.contains(&window.language));
    let mut timed = Vec::new();
    let mut at = 0;
    for (text, count) in words {
        let (start, end) = (starts[at] as f64 * POSITION, starts[at + count] as f64 * POSITION);
        let probability = probabilities[at..at + count].iter().sum::<f32>() / count as f32;
        timed.push(Timed { text, tokens: count, start, end, probability });
        at += count;
    }
    Ok(timed)
}

/// The probability of every word token among the words.
fn probabilities(
    engine: &mut Engine,
    vocabulary: &Vocabulary,
    encoded: &Sequence,
    all: &[u32],
    before: usize,
) -> Result<Vec<f32>, Error> {
    const ROWS: usize = 32;
    let mut sequence = encoded.fork();
    let mut out = Vec::new();
    for (part, tokens) in all.chunks(ROWS).enumerate() {
        engine.step(&mut [StepInput { sequence: &mut sequence, tokens, outputs: Outputs::All, prompt: true }])?;
        for i in 0..tokens.len() {
            let at = part * ROWS + i;
            let Some(&next) = all.get(at + 1).filter(|t| at >= before && **t < vocabulary.end) else { continue };
            let words = &engine.logits_of(i)[..vocabulary.end as usize];
            out.push((words[next as usize] - log_sum(words)).exp());
        }
    }
    Ok(out)
}

/// `[tokens][positions]`: weights of all heads, each normalized over the tokens, smoothed in time, averaged.
fn matrix(rows: &[&[f32]], heads: usize, encoded: usize, positions: usize) -> Vec<Vec<f32>> {
    let tokens = rows.len();
    let mut out = vec![vec![0.0; positions]; tokens];
    for head in 0..heads {
        let mut weights: Vec<Vec<f32>> = rows
            .iter()
            .map(|row| {
                let row = &row[head * encoded..][..positions];
                // The softmax of these positions alone.
                let total: f32 = row.iter().sum();
                row.iter().map(|w| w / total.max(f32::MIN_POSITIVE)).collect()
            })
            .collect();
        for position in 0..positions {
            let column = || weights.iter().map(|row| f64::from(row[position]));
            let mean = column().sum::<f64>() / tokens as f64;
            let deviation = (column().map(|w| (w - mean).powi(2)).sum::<f64>() / tokens as f64).sqrt();
            // Where all tokens look alike, no token stands out.
            let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
            weights.iter_mut().for_each(|row| row[position] = ((f64::from(row[position]) - mean) * scale) as f32);
        }
        for (out, row) in out.iter_mut().zip(&weights) {
            for (position, value) in out.iter_mut().enumerate() {
                *value += median(row, position) / heads as f32;
            }
        }
    }
    out
}

/// The median around a position; mirrored at the ends.
fn median(row: &[f32], position: usize) -> f32 {
    let (n, reach) = (row.len() as isize, (MEDIAN / 2) as isize);
    if n <= reach {
        return row[position];
    }
    let mut around = [0.0; MEDIAN];
    for (value, offset) in around.iter_mut().zip(-reach..) {
        let at = (position as isize + offset).abs();
        *value = row[if at >= n { 2 * (n - 1) - at } else { at } as usize];
    }
    around.sort_unstable_by(f32::total_cmp);
    around[MEDIAN / 2]
}

/// Where each token begins on the path of most weight from the first token and position to the last: dynamic time
/// warping.
fn path(matrix: &[Vec<f32>]) -> Vec<usize> {
    let (rows, cols) = (matrix.len(), matrix.first().map_or(0, Vec::len));
    let width = cols + 1;
    let mut cost = vec![f32::INFINITY; (rows + 1) * width];
    // 0: from both before, 1: from the token before, 2: from the position before.
    let mut from = vec![2u8; (rows + 1) * width];
    cost[0] = 0.0;
    for i in 1..=rows {
        for j in 1..=cols {
            let [both, token, position] =
                [cost[(i - 1) * width + j - 1], cost[(i - 1) * width + j], cost[i * width + j - 1]];
            let (least, step) = if both < token && both < position {
                (both, 0)
            } else if token < both && token < position {
                (token, 1)
            } else {
                (position, 2)
            };
            cost[i * width + j] = least - matrix[i - 1][j - 1];
            from[i * width + j] = step;
        }
    }
    let mut starts = vec![0; rows];
    let (mut i, mut j) = (rows, cols);
    while i > 0 && j > 0 {
        starts[i - 1] = j - 1;
        match from[i * width + j] {
            0 => (i, j) = (i - 1, j - 1),
            1 => i -= 1,
            _ => j -= 1,
        }
    }
    starts
}

/// Words and how many tokens each has: cut where characters are whole, and before spaces and punctuation.
fn split(vocabulary: &Vocabulary, tokens: &[u32], unspaced: bool) -> Vec<(String, usize)> {
    let mut words: Vec<(String, usize)> = Vec::new();
    let (mut bytes, mut count) = (Vec::new(), 0);
    for (i, token) in tokens.iter().enumerate() {
        bytes.extend_from_slice(vocabulary.bytes(*token));
        count += 1;
        // A character goes on in the next token, unless there is none.
        if std::str::from_utf8(&bytes).is_err() && i + 1 < tokens.len() && count < 4 {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let punctuation = PUNCTUATION.contains(text.trim());
        match words.last_mut() {
            Some((word, n)) if !unspaced && !text.starts_with(' ') && !punctuation => {
                word.push_str(&text);
                *n += count;
            }
            _ => words.push((text, count)),
        }
        bytes.clear();
        count = 0;
    }
    words
}

fn shorten_at_sentences(words: &mut [Timed], most: f64) {
    for i in 1..words.len() {
        if words[i].end - words[i].start <= most {
            continue;
        }
        if SENTENCE_ENDS.contains(&*words[i].text) {
            words[i].end = words[i].start + most;
        } else if SENTENCE_ENDS.contains(&*words[i - 1].text) {
            words[i].start = words[i].end - most;
        }
    }
}

/// Opening marks join the word after them, closing ones the word before.
fn join_punctuation(words: &mut [Timed]) {
    let take = |word: &mut Timed| (std::mem::take(&mut word.text), std::mem::take(&mut word.tokens));
    let mut following = words.len().saturating_sub(1);
    for i in (0..following).rev() {
        let text = &words[i].text;
        if text.starts_with(' ') && !text.trim().is_empty() && OPENING.contains(text.trim()) {
            let (text, tokens) = take(&mut words[i]);
            words[following].text.insert_str(0, &text);
            words[following].tokens += tokens;
        } else {
            following = i;
        }
    }
    let mut previous = 0;
    for i in 1..words.len() {
        let text = &words[i].text;
        if text.is_empty() {
            continue;
        }
        if !words[previous].text.ends_with(' ') && CLOSING.contains(&**text) {
            let (text, tokens) = take(&mut words[i]);
            words[previous].text.push_str(&text);
            words[previous].tokens += tokens;
        } else {
            previous = i;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_follows_the_weight() {
        // Token 0 looks at positions 0..3, token 1 at 3..5, token 2 at 5..9.
        let spans = [0..3, 3..5, 5..9];
        let matrix: Vec<Vec<f32>> =
            spans.iter().map(|s| (0..9).map(|j| if s.contains(&j) { 1.0 } else { -1.0 }).collect()).collect();
        assert_eq!(path(&matrix), [0, 3, 5]);
    }

    #[test]
    fn medians_mirror_at_the_ends() {
        let row = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        // 3 2 1 9 1 2 3
        assert_eq!(median(&row, 0), 2.0);
        assert_eq!(median(&row, 4), 4.0);
        // 4 5 6 7 6 5 4
        assert_eq!(median(&row, 7), 5.0);
    }

    #[test]
    fn punctuation_joins_its_word() {
        let word = |text: &str| Timed { text: text.into(), tokens: 1, start: 0.0, end: 0.1, probability: 1.0 };
        let mut words = [word(" \""), word(" Yes"), word(","), word(" he"), word("."), word("\"")];
        join_punctuation(&mut words);
        let texts: Vec<&str> = words.iter().map(|w| &*w.text).collect();
        assert_eq!(texts, ["", " \" Yes,", "", " he.\"", "", ""]);
        let tokens: Vec<usize> = words.iter().map(|w| w.tokens).collect();
        assert_eq!(tokens, [0, 3, 0, 3, 0, 0]);
    }
}
