//! Draws: one token of every row of logits that asks for one.
//!
//! What is drawn is [`DrawVars`]' own business; here the likeliest candidates are found. One worker serves a row: the pass over
//! the logits is short, because after a few of them most are below the least that may still count.

use super::super::{LeveledRow, levels};
use crate::context::{Context, SCRATCH_BYTES};
use crate::share::Share;
use crate::simd::Simd;
use akunu_plan::DrawVars;
use akunu_plan::draw::{Candidate, MOST_CANDIDATES, order};
use akunu_plan::op::{NONE_DRAWN, OpKind, TokenParams, slots::sample};
use akunu_plan::record::Record;

pub(in super::super) const SAMPLE: &[LeveledRow] = levels!("sample", OpKind::Sample, |_| true, body);

/// Candidates that are gathered before the likeliest of them are picked out.
const GATHERED: usize = 4 * MOST_CANDIDATES;
const _: () = assert!(GATHERED * size_of::<Candidate>() <= SCRATCH_BYTES);

#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let n = record.params::<TokenParams>().n as usize;
    for output in share.of(context.count(record), 1) {
        let vars = context.draw_vars(output);
        let x = context.row(record, sample::X, output).cast::<f32>().cast_const();
        let y = context.row(record, sample::Y, output).cast::<f32>();
        if vars.temperature.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
            // SAFETY: `y` has one value.
            unsafe { *y = NONE_DRAWN };
            continue;
        }
        // SAFETY: `x` has `n` values, `y` one, and the scratch room for the candidates, aligned for them.
        unsafe {
            let logits = std::slice::from_raw_parts(x, n);
            let room = std::slice::from_raw_parts_mut(context.scratch(share.index).cast::<Candidate>(), GATHERED);
            let drawn = match vars.top_k as usize {
                0 => draw_from_all(s, logits, &vars),
                k => vars.draw_sorted(likeliest(s, logits, k.min(MOST_CANDIDATES), room)),
            };
            *y = drawn.map_or(NONE_DRAWN, |token| token as f32);
        }
    }
}

/// Values looked at together.
const RUN: usize = 64;

/// The largest of a run's values, NaN aside.
#[inline(always)]
fn largest<S: Simd>(s: S, run: &[f32; RUN]) -> f32 {
    let mut most = s.splat(f32::NEG_INFINITY);
    for at in (0..RUN).step_by(S::LANES) {
        // SAFETY: lanes divide a run.
        most = s.max(unsafe { s.load(run.as_ptr().add(at)) }, most);
    }
    s.largest(most)
}

/// The `k` likeliest, in order.
#[inline(always)]
fn likeliest<'a, S: Simd>(s: S, logits: &[f32], k: usize, room: &'a mut [Candidate]) -> &'a [Candidate] {
    let most = room.len().min(4 * k.max(32));
    let (mut held, mut least) = (0, f32::NEG_INFINITY);
    let (runs, rest) = logits.as_chunks::<RUN>();
    let mut take = |values: &[f32], first: usize, least: &mut f32| {
        for (i, &value) in values.iter().enumerate() {
            // Of equal ones those that came before stay.
            if value > *least {
                room[held] = (value, (first + i) as u32);
                held += 1;
                if held == most {
                    room[..held].select_nth_unstable_by(k - 1, order);
                    (held, *least) = (k, room[k - 1].0);
                }
            }
        }
    };
    for (i, run) in runs.iter().enumerate() {
        if largest(s, run) > least {
            take(run, i * RUN, &mut least);
        }
    }
    take(rest, runs.len() * RUN, &mut least);
    if held > k {
        room[..held].select_nth_unstable_by(k - 1, order);
    }
    let kept = &mut room[..held.min(k)];
    kept.sort_unstable_by(order);
    kept
}

/// A draw that no number of candidates bounds.
#[inline(always)]
fn draw_from_all<S: Simd>(s: S, logits: &[f32], vars: &DrawVars) -> Option<u32> {
    let (runs, rest) = logits.as_chunks::<RUN>();
    let mut peak = rest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for run in runs {
        peak = peak.max(largest(s, run));
    }
    let all = || logits.iter().copied().zip(0..);
    match peak {
        f32::INFINITY => vars.race(all().filter(|c| c.0 == peak).map(|c| (0.0, c.1)), 0.0),
        f32::NEG_INFINITY => None,
        _ => {
            let least = vars.least(peak).max(f32::MIN);
            vars.race(all().filter(|c| c.0 >= least), peak)
        }
    }
}
