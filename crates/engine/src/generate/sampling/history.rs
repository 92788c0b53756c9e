//! What has been said changes what may be said: bias, penalties, DRY.

use super::candidates::Candidates;
use super::{Dry, SamplingOptions};
use akunu_text::Tokenizer;

/// Memory reused from token to token.
#[derive(Default)]
pub struct Scratch {
    window: Vec<u32>,
    matches: Vec<u32>,
    repeats: Vec<(u32, u32)>,
}

/// Adds the bias of single tokens.
pub fn bias(options: &SamplingOptions, kept: &mut Candidates) {
    for &(token, bias) in &options.logit_bias {
        kept.change(token, |logit| logit + bias);
    }
}

/// The logit of a token that came before.
pub fn repeated(logit: f32, penalty: f32) -> f32 {
    if logit > 0.0 { logit / penalty } else { logit * penalty }
}

/// Repetition, frequency and presence penalties over the last tokens.
pub fn penalties(options: &SamplingOptions, history: &[u32], kept: &mut Candidates, scratch: &mut Scratch) {
    let window = &mut scratch.window;
    window.clear();
    window.extend_from_slice(&history[history.len().saturating_sub(options.repeat_last)..]);
    window.sort_unstable();
    for same in window.chunk_by(|a, b| a == b) {
        kept.change(same[0], |logit| {
            repeated(logit, options.repeat_penalty)
                - options.frequency_penalty * same.len() as f32
                - options.presence_penalty
        });
    }
}

/// As good as infinite, and still finite.
const MOST: f32 = 1e30;

/// DRY: a token that would make the end of the text repeat an earlier passage becomes unlikely, exponentially in the
/// length of what is repeated already.
pub fn dry(dry: &Dry, tokenizer: Option<&Tokenizer>, history: &[u32], kept: &mut Candidates, scratch: &mut Scratch) {
    let history = &history[history.len().saturating_sub(dry.last)..];
    let breaks = |token: &u32| {
        let bytes = tokenizer.map(|t| t.token_bytes(*token)).unwrap_or_default();
        dry.breakers.iter().any(|b| !b.is_empty() && bytes.windows(b.len()).any(|w| w == b.as_bytes()))
    };
    // A repeated passage does not reach back over a breaker.
    let longest = history.iter().rev().take_while(|t| !breaks(t)).count() as u32;
    let allowed = dry.allowed_length as u32;
    let Scratch { matches, repeats, .. } = scratch;
    suffix_matches(history, matches);
    repeats.clear();
    // `matches[i]` tokens before `history[i]` are also the last ones: `history[i]` would go on repeating.
    let going_on = matches.iter().zip(history).map(|(len, token)| (*token, (*len).min(longest)));
    repeats.extend(going_on.filter(|(_, len)| *len > 0 && *len >= allowed));
    repeats.sort_unstable();
    for same in repeats.chunk_by(|a, b| a.0 == b.0) {
        // Sorted: the longest repetition is the last.
        let (token, len) = same[same.len() - 1];
        let penalty = (dry.multiplier * dry.base.powf((len - allowed) as f32)).min(MOST);
        kept.change(token, |logit| logit - penalty);
    }
}

/// For every position but the first: how many tokens before it equal the tokens at the end. The Z algorithm, backwards.
fn suffix_matches(text: &[u32], matches: &mut Vec<u32>) {
    let n = text.len();
    matches.clear();
    matches.resize(n, 0);
    let back = |i: usize| text[n - 1 - i];
    // The stretch `start..end`, counted from the end of the text, that is known to match the end.
    let (mut start, mut end) = (0, 0);
    for i in 1..n {
        // `z(i)` is stored at the position after the match: `n - i`.
        let known = if i < end { (matches[n - (i - start)] as usize).min(end - i) } else { 0 };
        let mut len = known;
        while i + len < n && back(len) == back(i + len) {
            len += 1;
        }
        if i + len > end {
            (start, end) = (i, i + len);
        }
        matches[n - i] = len as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in quadratic time.
    fn plainly(text: &[u32]) -> Vec<u32> {
        let len = |i: usize| text[..i].iter().rev().zip(text.iter().rev()).take_while(|(a, b)| a == b).count() as u32;
        (0..text.len()).map(len).collect()
    }

    #[test]
    fn suffix_matches_are_those_of_the_definition() {
        let mut state = 1u32;
        for len in [0, 1, 2, 3, 10, 100] {
            for letters in [1, 2, 3] {
                let text: Vec<u32> = (0..len)
                    .map(|_| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (state >> 16) % letters
                    })
                    .collect();
                let mut matches = Vec::new();
                suffix_matches(&text, &mut matches);
                assert_eq!(matches, plainly(&text), "{text:?}");
            }
        }
    }

    fn changed(logits: &[f32], change: impl FnOnce(&mut Candidates)) -> Vec<f32> {
        let mut kept = Candidates::default();
        kept.fill(logits, None);
        change(&mut kept);
        kept.logits().iter().map(|c| c.0).collect()
    }

    fn dried(options: Dry, history: &[u32]) -> Vec<f32> {
        changed(&[0.0; 8], |kept| dry(&options, None, history, kept, &mut Scratch::default()))
    }

    #[test]
    fn dry_grows_with_the_length_of_the_repetition() {
        let options = Dry { multiplier: 1.0, base: 2.0, allowed_length: 2, ..Dry::default() };
        // `1 2 3` came before and was followed by 4: three tokens repeat, one more than allowed.
        assert_eq!(dried(options.clone(), &[1, 2, 3, 4, 1, 2, 3]), [0.0, 0.0, 0.0, 0.0, -2.0, 0.0, 0.0, 0.0]);
        // Two tokens are just allowed: the penalty begins.
        assert_eq!(dried(options.clone(), &[2, 3, 4, 7, 2, 3])[4], -1.0);
        // One is free.
        assert_eq!(dried(options.clone(), &[3, 4, 7, 3]), [0.0; 8]);
        // Of two passages the longer counts.
        assert_eq!(dried(options.clone(), &[2, 3, 4, 1, 2, 3, 4, 1, 2, 3])[4], -8.0 * 2.0);
        assert!(dried(options, &[5; 500])[5].is_finite());
    }

    #[test]
    fn penalties_count_what_is_in_the_window() {
        let options = SamplingOptions {
            repeat_penalty: 2.0,
            frequency_penalty: 0.25,
            presence_penalty: 0.5,
            repeat_last: 4,
            ..Default::default()
        };
        let history = [3, 0, 0, 2, 99];
        let got = changed(&[4.0, 4.0, -4.0, 4.0], |k| penalties(&options, &history, k, &mut Scratch::default()));
        assert_eq!(got, [2.0 - 0.5 - 0.5, 4.0, -8.0 - 0.25 - 0.5, 4.0]);
    }
}
