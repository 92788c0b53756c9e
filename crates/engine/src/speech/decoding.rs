//! One window of speech to tokens: greedy, the best of several samples, or beams, all rows of the same steps.

use super::{Decoding, Vocabulary};
use crate::step::{Outputs, StepInput};
use crate::{Engine, Error, Sequence};
use akunu_plan::DrawVars;
use akunu_plan::rules::{Chosen, RuleVars, Rules, log_sum};

/// An encoded window, with the tokens before its text already fed.
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
    /// Feeds a fork of `encoded` what was said before, and what to do: `task` begins with the start token.
    pub fn new(
        engine: &mut Engine,
        vocabulary: &Vocabulary,
        encoded: &Sequence,
        previous: &[u32],
        task: &[u32],
    ) -> Result<Self, Error> {
        let mut sequence = encoded.fork();
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
            engine.step(&mut [StepInput { sequence: &mut sequence, tokens: &tokens, outputs, prompt: true }])?;
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
    /// Where it stands in the rules, and how likely it is.
    text: RuleVars,
    /// How its tokens are drawn.
    draw: DrawVars,
}

impl Candidate {
    fn new(prompted: &Prompted, draw: DrawVars) -> Self {
        Self { sequence: prompted.sequence.fork(), tokens: Vec::new(), text: RuleVars::empty(), draw }
    }

    fn fork(&self) -> Self {
        Self { sequence: self.sequence.fork(), tokens: self.tokens.clone(), ..*self }
    }

    /// The mean that candidates are compared by.
    fn score(tokens: &[u32], sum: f32) -> f32 {
        sum / tokens.len().max(1) as f32
    }
}

/// Feeds every candidate its last token, and then what the backend chooses, for so many steps or until all have ended. The
/// rules are applied to all logits.
fn feed(
    engine: &mut Engine,
    rules: &Rules,
    candidates: &mut [Candidate],
    steps: usize,
    outputs: Outputs,
) -> Result<(), Error> {
    let standing: Vec<(RuleVars, DrawVars)> = candidates.iter().map(|c| (c.text, c.draw)).collect();
    let mut parts: Vec<StepInput<'_>> = candidates
        .iter_mut()
        .map(|c| {
            let last = c.tokens.len().saturating_sub(1);
            StepInput { sequence: &mut c.sequence, tokens: &c.tokens[last..], outputs, prompt: false }
        })
        .collect();
    engine.step_with(&mut parts, steps, |vars| {
        *vars.rules_mut() = *rules;
        for (output, (text, draw)) in standing.into_iter().enumerate() {
            vars.texts_mut()[output] = text;
            vars.draws_mut()[output] = draw;
        }
    })
}

/// Decodes a window at a temperature.
pub fn decode(
    engine: &mut Engine,
    rules: &Rules,
    prompted: &Prompted,
    decoding: &Decoding,
    temperature: f32,
    random: &mut u64,
) -> Result<Decoded, Error> {
    // The text may have half of the context, and no more than is left of it.
    let room = engine.context().saturating_sub(prompted.sequence.len());
    let most = (engine.context() / 2).min(room);
    let mut first = prompted.logits.clone();
    rules.apply(&RuleVars::empty(), &mut first);
    let (tokens, sum) = if temperature > 0.0 || decoding.beams == 1 {
        let count = if temperature > 0.0 { decoding.best_of } else { 1 };
        let draws = (0..count).map(|_| draw(temperature, random));
        let candidates = draws.map(|draw| Candidate::new(prompted, draw)).collect();
        sample(engine, rules, candidates, &first, most)?
    } else {
        beams(engine, rules, prompted, &first, (decoding.beams, most))?
    };
    let log_probability = sum / (tokens.len() + 1) as f32;
    Ok(Decoded { tokens, log_probability, temperature })
}

/// How a text draws its tokens; another with every call.
fn draw(temperature: f32, random: &mut u64) -> DrawVars {
    *random = random.wrapping_add(1);
    let seed = [*random as u32, (*random >> 32) as u32];
    DrawVars { temperature, top_p: 1.0, seed, ..DrawVars::default() }
}

/// Tokens of a text that are chosen in one submission.
const CHAIN: usize = 16;

/// The best of several samples; at temperature 0 they are the likeliest tokens. `first` are the logits of the first.
fn sample(
    engine: &mut Engine,
    rules: &Rules,
    mut open: Vec<Candidate>,
    first: &[f32],
    most: usize,
) -> Result<(Vec<u32>, f32), Error> {
    let total = log_sum(first);
    for candidate in &mut open {
        let token = candidate.draw.draw(first).unwrap_or_else(|| crate::argmax(first));
        candidate.draw.index += 1;
        candidate.tokens.push(token);
        candidate.text.push(rules, Chosen { token, logit: first[token as usize], total });
    }
    let mut done: Vec<(Vec<u32>, f32)> = Vec::new();
    loop {
        done.extend(open.extract_if(.., |c| rules.ended(&c.text)).map(|mut c| {
            c.tokens.pop();
            (c.tokens, c.text.sum)
        }));
        let left = most.saturating_sub(open.first().map_or(most, |c| c.tokens.len()));
        if left == 0 {
            break;
        }
        feed(engine, rules, &mut open, left.min(CHAIN).min(engine.max_chain()), Outputs::Tokens(1))?;
        let outputs = open.len();
        for (output, candidate) in open.iter_mut().enumerate() {
            let (text, draw) = engine.standing(output);
            let taken = text.count - candidate.text.count;
            candidate.tokens.extend(engine.chosen().iter().skip(output).step_by(outputs).take(taken as usize));
            (candidate.text, candidate.draw) = (text, draw);
        }
    }
    done.extend(open.into_iter().map(|c| (c.tokens, c.text.sum)));
    Ok(best(done))
}

/// The candidate with the best mean; the first of equals.
fn best(done: Vec<(Vec<u32>, f32)>) -> (Vec<u32>, f32) {
    let better = |a: (Vec<u32>, f32), b: (Vec<u32>, f32)| {
        if Candidate::score(&b.0, b.1) > Candidate::score(&a.0, a.1) { b } else { a }
    };
    done.into_iter().reduce(better).unwrap_or_default()
}

/// Beam search: the likeliest continuations of all beams go on together, as forks that share their past.
fn beams(
    engine: &mut Engine,
    rules: &Rules,
    prompted: &Prompted,
    first: &[f32],
    (width, most): (usize, usize),
) -> Result<(Vec<u32>, f32), Error> {
    let mut open = vec![Candidate::new(prompted, DrawVars::default())];
    let mut done: Vec<(Vec<u32>, f32)> = Vec::new();
    for step in 0..most {
        // (sum so far, beam, token), best first.
        let mut next: Vec<(f32, usize, u32)> = Vec::new();
        for (beam, candidate) in open.iter().enumerate() {
            let (logits, total) = match step {
                0 => (first, log_sum(first)),
                _ => {
                    let total = engine.standing(beam).0.total;
                    (engine.logits_of(beam), total)
                }
            };
            let scored = likeliest(logits, width + 1);
            next.extend(scored.into_iter().map(|(logit, token)| (candidate.text.sum + logit - total, beam, token)));
        }
        next.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut kept: Vec<(f32, usize, u32)> = Vec::new();
        for (sum, beam, token) in next {
            if sum == f32::NEG_INFINITY || kept.len() == width {
                break;
            }
            if token != rules.end {
                kept.push((sum, beam, token));
            } else if done.len() < width {
                done.push((open[beam].tokens.clone(), sum));
            }
        }
        open = fork(open, rules, &kept);
        if done.len() >= width || open.is_empty() || step + 1 == most {
            break;
        }
        feed(engine, rules, &mut open, 1, Outputs::Last)?;
    }
    // Where too few ended, the best of those that did not stand beside them.
    open.sort_by(|a, b| b.text.sum.total_cmp(&a.text.sum));
    let missing = width.saturating_sub(done.len());
    done.extend(open.into_iter().take(missing).map(|c| (c.tokens, c.text.sum)));
    Ok(best(done))
}

/// The next beams. A beam that goes on in several ways is forked, its last way takes it over.
fn fork(open: Vec<Candidate>, rules: &Rules, kept: &[(f32, usize, u32)]) -> Vec<Candidate> {
    let mut left: Vec<usize> = (0..open.len()).map(|b| kept.iter().filter(|k| k.1 == b).count()).collect();
    let mut open: Vec<Option<Candidate>> = open.into_iter().map(Some).collect();
    let mut next = Vec::with_capacity(kept.len());
    for &(sum, beam, token) in kept {
        left[beam] -= 1;
        let taken = if left[beam] == 0 { open[beam].take() } else { None };
        let mut candidate = match (taken, &open[beam]) {
            (Some(candidate), _) => candidate,
            (None, Some(c)) => c.fork(),
            (None, None) => continue,
        };
        candidate.tokens.push(token);
        candidate.text.push(rules, Chosen { token, ..Chosen::default() });
        candidate.text.sum = sum;
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
}
