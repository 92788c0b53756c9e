//! One window of speech to tokens: greedy, the best of several samples, or beams, all rows of the same steps.

use super::rules::{Rules, exp, log_sum};
use super::{Decoding, Vocabulary};
use crate::engine::{Outputs, Part};
use crate::{Engine, Error, Sequence};

/// A window that was heard, with the tokens before its text already fed.
pub struct Prompted {
    sequence: Sequence,
    /// After the last of the tokens.
    logits: Vec<f32>,
    /// How likely it is that nobody speaks.
    pub no_speech: f32,
}

/// What was decoded.
#[derive(Clone, Debug)]
pub struct Decoded {
    pub tokens: Vec<u32>,
    /// Mean over the tokens and the end.
    pub log_probability: f32,
    pub temperature: f32,
}

impl Prompted {
    /// Feeds a fork of `heard` what was said before, and what to do: `task` begins with the start token.
    pub fn new(
        engine: &mut Engine,
        vocabulary: &Vocabulary,
        heard: &Sequence,
        previous: &[u32],
        task: &[u32],
    ) -> Result<Self, Error> {
        let mut sequence = heard.fork();
        let mut tokens = Vec::new();
        if !previous.is_empty() {
            tokens.push(vocabulary.previous);
            tokens.extend_from_slice(previous);
        }
        tokens.extend_from_slice(task);
        // All in one step where it has room for them; the first and the last row of the task matter.
        let rows = task.len();
        let (at_start, logits) = if tokens.len() <= engine.chunk() {
            let outputs = Outputs::Tail(rows);
            engine.step(&mut [Part { sequence: &mut sequence, tokens: &tokens, outputs, prompt: true }])?;
            (engine.logits_of(0).to_vec(), engine.logits_of(rows - 1).to_vec())
        } else {
            let (before, rest) = tokens.split_at(tokens.len() + 1 - rows);
            let at_start = engine.prefill(&mut sequence, before)?.to_vec();
            let logits = if rest.is_empty() { at_start.clone() } else { engine.prefill(&mut sequence, rest)?.to_vec() };
            (at_start, logits)
        };
        let no_speech = (at_start[vocabulary.no_speech as usize] - log_sum(&at_start)).exp();
        Ok(Self { sequence, logits, no_speech })
    }
}

/// One text in the making.
struct Candidate {
    sequence: Sequence,
    tokens: Vec<u32>,
    sum: f32,
    /// After its last token, rules applied.
    logits: Vec<f32>,
}

impl Candidate {
    fn first(prompted: &Prompted, rules: &Rules) -> Self {
        let mut logits = prompted.logits.clone();
        rules.apply(&mut logits, &[]);
        Self { sequence: prompted.sequence.fork(), tokens: Vec::new(), sum: 0.0, logits }
    }

    /// The mean that candidates are compared by.
    fn score(tokens: &[u32], sum: f32) -> f32 {
        sum / tokens.len().max(1) as f32
    }
}

/// Feeds every candidate its last token and gives it the logits after it.
fn advance(engine: &mut Engine, rules: &Rules, candidates: &mut [Candidate]) -> Result<(), Error> {
    let mut parts: Vec<Part<'_>> = candidates
        .iter_mut()
        .map(|c| {
            let last = c.tokens.len().saturating_sub(1);
            Part { sequence: &mut c.sequence, tokens: &c.tokens[last..], outputs: Outputs::Last, prompt: false }
        })
        .collect();
    engine.step(&mut parts)?;
    for (i, candidate) in candidates.iter_mut().enumerate() {
        candidate.logits.copy_from_slice(engine.logits_of(i));
        rules.apply(&mut candidate.logits, &candidate.tokens);
    }
    Ok(())
}

/// Decodes a window at a temperature.
pub fn decode(
    engine: &mut Engine,
    vocabulary: &Vocabulary,
    rules: &Rules,
    prompted: &Prompted,
    decoding: &Decoding,
    temperature: f32,
    random: &mut u64,
) -> Result<Decoded, Error> {
    // The text may have half of the context, and no more than is left of it.
    let room = engine.context().saturating_sub(prompted.sequence.len());
    let most = (engine.context() / 2).min(room);
    let first = Candidate::first(prompted, rules);
    let (tokens, sum) = if temperature > 0.0 {
        sample(engine, vocabulary, rules, first, (decoding.best_of, most), temperature, random)?
    } else if decoding.beams > 1 {
        beams(engine, vocabulary, rules, first, decoding.beams, most)?
    } else {
        sample(engine, vocabulary, rules, first, (1, most), 0.0, random)?
    };
    let log_probability = sum / (tokens.len() + 1) as f32;
    Ok(Decoded { tokens, log_probability, temperature })
}

/// The best of `count` samples; at temperature 0 there is one, of the likeliest tokens.
fn sample(
    engine: &mut Engine,
    vocabulary: &Vocabulary,
    rules: &Rules,
    first: Candidate,
    (count, most): (usize, usize),
    temperature: f32,
    random: &mut u64,
) -> Result<(Vec<u32>, f32), Error> {
    let mut open: Vec<Candidate> = Vec::with_capacity(count);
    for _ in 1..count {
        let Candidate { sequence, tokens, sum, logits } = &first;
        let (sequence, tokens, logits) = (sequence.fork(), tokens.clone(), logits.clone());
        open.push(Candidate { sequence, tokens, sum: *sum, logits });
    }
    open.push(first);
    let mut done: Vec<(Vec<u32>, f32)> = Vec::new();
    for step in 0..most {
        for candidate in &mut open {
            let token = match temperature > 0.0 {
                true => draw(&candidate.logits, temperature, random),
                false => crate::argmax(&candidate.logits),
            };
            candidate.sum += candidate.logits[token as usize] - log_sum(&candidate.logits);
            candidate.tokens.push(token);
        }
        let ended = |c: &mut Candidate| c.tokens.last() == Some(&vocabulary.end);
        done.extend(open.extract_if(.., ended).map(|mut c| {
            c.tokens.pop();
            (c.tokens, c.sum)
        }));
        if open.is_empty() || step + 1 == most {
            break;
        }
        advance(engine, rules, &mut open)?;
    }
    done.extend(open.into_iter().map(|c| (c.tokens, c.sum)));
    Ok(best(done))
}

/// The candidate with the best mean; the first of equals.
fn best(done: Vec<(Vec<u32>, f32)>) -> (Vec<u32>, f32) {
    let better = |a: (Vec<u32>, f32), b: (Vec<u32>, f32)| {
        if Candidate::score(&b.0, b.1) > Candidate::score(&a.0, a.1) { b } else { a }
    };
    done.into_iter().reduce(better).unwrap_or_default()
}

/// One token by its probability at a temperature.
fn draw(logits: &[f32], temperature: f32, random: &mut u64) -> u32 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |l: &f32| if *l == f32::NEG_INFINITY { 0.0 } else { exp((l - max) / temperature) };
    let total: f32 = logits.iter().map(weight).sum();
    let mut left = uniform(random) * total;
    for (token, logit) in logits.iter().enumerate() {
        left -= weight(logit);
        if left < 0.0 {
            return token as u32;
        }
    }
    crate::argmax(logits)
}

/// 0 to 1, repeatable.
fn uniform(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
}

/// Beam search: the likeliest continuations of all beams go on together, as forks that share their past.
fn beams(
    engine: &mut Engine,
    vocabulary: &Vocabulary,
    rules: &Rules,
    first: Candidate,
    width: usize,
    most: usize,
) -> Result<(Vec<u32>, f32), Error> {
    let mut open = vec![first];
    let mut done: Vec<(Vec<u32>, f32)> = Vec::new();
    for step in 0..most {
        // (sum so far, beam, token), best first.
        let mut next: Vec<(f32, usize, u32)> = Vec::new();
        for (beam, candidate) in open.iter().enumerate() {
            let total = log_sum(&candidate.logits);
            let scored = likeliest(&candidate.logits, width + 1);
            next.extend(scored.into_iter().map(|(logit, token)| (candidate.sum + logit - total, beam, token)));
        }
        next.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut kept: Vec<(f32, usize, u32)> = Vec::new();
        for (sum, beam, token) in next {
            if sum == f32::NEG_INFINITY || kept.len() == width {
                break;
            }
            if token != vocabulary.end {
                kept.push((sum, beam, token));
            } else if done.len() < width {
                done.push((open[beam].tokens.clone(), sum));
            }
        }
        open = fork(open, &kept);
        if done.len() >= width || open.is_empty() || step + 1 == most {
            break;
        }
        advance(engine, rules, &mut open)?;
    }
    // Where too few ended, the best of those that did not stand beside them.
    open.sort_by(|a, b| b.sum.total_cmp(&a.sum));
    let missing = width.saturating_sub(done.len());
    done.extend(open.into_iter().take(missing).map(|c| (c.tokens, c.sum)));
    Ok(best(done))
}

/// The next beams. A beam that goes on in several ways is forked, its last way takes it over.
fn fork(open: Vec<Candidate>, kept: &[(f32, usize, u32)]) -> Vec<Candidate> {
    let mut left: Vec<usize> = (0..open.len()).map(|b| kept.iter().filter(|k| k.1 == b).count()).collect();
    let mut open: Vec<Option<Candidate>> = open.into_iter().map(Some).collect();
    let mut next = Vec::with_capacity(kept.len());
    for &(sum, beam, token) in kept {
        left[beam] -= 1;
        let taken = if left[beam] == 0 { open[beam].take() } else { None };
        let mut candidate = match (taken, &open[beam]) {
            (Some(candidate), _) => candidate,
            (None, Some(c)) => {
                Candidate { sequence: c.sequence.fork(), tokens: c.tokens.clone(), sum, logits: c.logits.clone() }
            }
            (None, None) => continue,
        };
        candidate.sum = sum;
        candidate.tokens.push(token);
        next.push(candidate);
    }
    next
}

/// The `count` largest logits and their tokens, largest first; ties to the lower token.
fn likeliest(logits: &[f32], count: usize) -> Vec<(f32, u32)> {
    let mut top: Vec<(f32, u32)> = Vec::with_capacity(count + 1);
    for (token, &logit) in logits.iter().enumerate() {
        if top.len() == count && top.last().is_some_and(|(least, _)| logit <= *least) {
            continue;
        }
        let at = top.partition_point(|(l, _)| *l >= logit);
        top.insert(at, (logit, token as u32));
        top.truncate(count);
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_come_first_and_ties_to_the_lower() {
        assert_eq!(likeliest(&[1.0, 3.0, 2.0, 3.0, 0.0], 3), [(3.0, 1), (3.0, 3), (2.0, 2)]);
        assert_eq!(likeliest(&[1.0], 3), [(1.0, 0)]);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let logits = [0.0, f32::NEG_INFINITY, 3f32.ln()];
        let mut counts = [0; 3];
        let mut random = 1;
        (0..10_000).for_each(|_| counts[draw(&logits, 1.0, &mut random) as usize] += 1);
        assert_eq!(counts[1], 0);
        assert!((7_300..7_700).contains(&counts[2]), "{counts:?}");
    }
}
