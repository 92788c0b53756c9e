//! What may not come next in a text with rules, taken out of its logits.
//!
//! Which tokens those are is [`akunu_plan::Rules`]' own business; here are the passes over the logits. One worker serves a row.

use super::super::{LeveledRow, levels};
use super::largest;
use crate::context::Context;
use crate::share::Share;
use crate::simd::Simd;
use akunu_plan::op::{MAXIMA_SLICE, OpKind, TokenParams, slots::suppress};
use akunu_plan::record::Record;
use akunu_plan::rules::log_sum_below;
use std::slice::from_raw_parts_mut;

pub(in super::super) const SUPPRESS: &[LeveledRow] = levels!("suppress", OpKind::Suppress, |_| true, body);

#[inline(always)]
unsafe fn body<S: Simd>(s: S, record: &Record, context: &Context<'_>, share: Share) {
    let n = record.params::<TokenParams>().n as usize;
    let rules = context.rules();
    for output in share.of(context.count(record), 1) {
        let text = context.text(output);
        let row = |slot: usize| context.row(record, slot, output).cast::<f32>();
        // SAFETY: a row has `n` logits, a maximum for every slice of them, and one total; no other share has this row.
        unsafe {
            if !rules.govern(&text) {
                *row(suppress::TOTAL) = 0.0;
                continue;
            }
            let logits = from_raw_parts_mut(row(suppress::X), n);
            let maxima = from_raw_parts_mut(row(suppress::MAXIMA), n.div_ceil(MAXIMA_SLICE));
            rules.forbid(&text, logits);
            let (words, times) = rules.split(logits);
            let word = largest(s, words.as_ptr(), words.len());
            let times = log_sum_below(largest(s, times.as_ptr(), times.len()), times);
            rules.prefer(logits, word, times);
            for (maximum, slice) in maxima.iter_mut().zip(logits.chunks(MAXIMA_SLICE)) {
                *maximum = largest(s, slice.as_ptr(), slice.len());
            }
            let most = largest(s, maxima.as_ptr(), maxima.len());
            *row(suppress::TOTAL) = log_sum_below(most, logits);
        }
    }
}
