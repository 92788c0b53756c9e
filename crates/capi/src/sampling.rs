//! Logits in the caller's memory: the steps of sampling, one by one.

use crate::call::{Failure, call};
use crate::memory::{Items, ItemsMut, Out};
use crate::types::*;

/// Divides logits by a temperature above 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_logits_temperature(logits: *mut f32, count: usize, temperature: f32) -> akunu_status {
    // SAFETY: the caller's promise.
    let mut logits = unsafe { ItemsMut::new("the logits", logits, count) };
    call(|| {
        if !temperature.is_finite() || temperature <= 0.0 {
            return Err(Failure::argument("the temperature is not above 0; for the likeliest token use akunu_argmax"));
        }
        logits.slice()?.iter_mut().for_each(|logit| *logit /= temperature);
        Ok(AKUNU_OK)
    })
}

/// Divides positive logits of the tokens in `recent` by a penalty above 0, multiplies negative ones with it; a token that came
/// several times counts once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_logits_repeat_penalty(
    logits: *mut f32,
    count: usize,
    recent: *const u32,
    recent_count: usize,
    penalty: f32,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let (mut logits, recent) =
        unsafe { (ItemsMut::new("the logits", logits, count), Items::new("the tokens", recent, recent_count)) };
    call(|| {
        if !penalty.is_finite() || penalty <= 0.0 {
            return Err(Failure::argument("the penalty is not above 0; 1 is none"));
        }
        akunu::penalize_repeats(logits.slice()?, recent.slice()?, penalty);
        Ok(AKUNU_OK)
    })
}

/// The token with the largest logit; of equal ones the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_argmax(logits: *const f32, count: usize, token: *mut u32) -> akunu_status {
    // SAFETY: the caller's promise.
    let (logits, token) = unsafe { (Items::new("the logits", logits, count), Out::new("the token", token)) };
    call(|| match logits.slice()? {
        [] => Err(Failure::argument("there are no logits")),
        logits => token.put(akunu::argmax(logits)),
    })
}
