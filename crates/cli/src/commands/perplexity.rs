//! `akunu perplexity`: how well a model predicts a text.
//!
//! The text is cut into windows of N tokens that do not overlap. A window begins with BOS where the model
//! wants one (in place of its first token), and the predictions of its second half are scored: each has
//! seen at least N/2 tokens. Perplexity is `exp(mean(-log p))`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use akunu::Engine;
use akunu_text::Encode;
use anyhow::Result;
use clap::ArgMatches;
use serde_json::json;

use crate::failure::failure;
use crate::interrupt::{self, Interrupt};
use crate::source::Source;
use crate::{input, loading, terminal};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let source = Source::of(matches)?;
    let text = match matches.get_one::<PathBuf>("file") {
        Some(path) => input::file(path, loading::limits(matches))?,
        None => input::stdin(loading::limits(matches))?,
    };
    let mut options = loading::load_options(matches);
    let window = options.context.unwrap_or(512).max(2);
    options.context = Some(window);
    let mut engine = source.load(options)?;
    let tokenizer = engine.need_tokenizer()?;
    let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
    let ids = tokenizer.encode(&text, Encode { add_special: true, parse_special: false })?;
    let most = matches.get_one::<usize>("windows").copied().unwrap_or(usize::MAX);
    let windows: Vec<&[u32]> = ids.chunks_exact(window).take(most).collect();
    if windows.is_empty() {
        return Err(failure(
            format!("the text has {} tokens, fewer than a window of {window}", ids.len()),
            "give a longer text or a smaller --context",
        ));
    }

    let interrupt = Interrupt::once()?;
    let bar = terminal::step_progress(windows.len() as u64, "windows");
    let mut score = Score::default();
    for tokens in &windows {
        if interrupt.is_set() {
            break;
        }
        score.add_window(&mut engine, tokens, bos)?;
        bar.set_message(format!("{:.4}", score.perplexity()));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut out = terminal::out();
    if matches.get_flag("json") {
        let value = json!({
            "model": source.name(),
            "perplexity": score.perplexity(),
            "error": score.standard_error(),
            "tokens": score.count,
            "context": window,
            "windows": score.windows,
        });
        writeln!(out, "{value}")?;
    } else {
        let (p, e) = (score.perplexity(), score.standard_error());
        writeln!(
            out,
            "perplexity {p:.4} ± {e:.4} over {} tokens in {} windows of {window}",
            score.count, score.windows
        )?;
    }
    out.flush()?;
    Ok(if interrupt.is_set() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// Negative log-likelihoods, summed.
#[derive(Default)]
struct Score {
    sum: f64,
    squares: f64,
    count: usize,
    windows: usize,
}

impl Score {
    fn add_window(&mut self, engine: &mut Engine, tokens: &[u32], bos: Option<u32>) -> Result<()> {
        let mut fed = tokens.to_vec();
        if let Some(bos) = bos {
            fed[0] = bos;
        }
        let first = tokens.len() / 2;
        engine.logits(&fed, |position, logits| {
            if position >= first && position + 1 < tokens.len() {
                self.add(negative_log_likelihood(logits, tokens[position + 1]));
            }
        })?;
        self.windows += 1;
        Ok(())
    }

    fn add(&mut self, nll: f64) {
        self.sum += nll;
        self.squares += nll * nll;
        self.count += 1;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    fn perplexity(&self) -> f64 {
        self.mean().exp()
    }

    /// Of the perplexity, to first order, from the spread of the log-likelihoods.
    fn standard_error(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let variance = (self.squares / self.count as f64 - self.mean().powi(2)).max(0.0) / (self.count - 1) as f64;
        variance.sqrt() * self.perplexity()
    }
}

/// `-log softmax(logits)[token]`, in f64.
fn negative_log_likelihood(logits: &[f32], token: u32) -> f64 {
    let peak = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let sum: f64 = logits.iter().map(|&l| f64::from(l - peak).exp()).sum();
    let own = logits.get(token as usize).map_or(f64::NEG_INFINITY, |&l| f64::from(l - peak));
    sum.ln() - own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_prediction_has_the_perplexity_of_the_vocabulary() {
        let mut score = Score::default();
        (0..10).for_each(|t| score.add(negative_log_likelihood(&[1.5; 32], t)));
        assert!((score.perplexity() - 32.0).abs() < 1e-9);
        assert!(score.standard_error() < 1e-6);
    }

    #[test]
    fn a_certain_prediction_has_perplexity_one() {
        let mut logits = [0.0f32; 8];
        logits[3] = 1000.0;
        assert!(negative_log_likelihood(&logits, 3) < 1e-9);
        assert!(negative_log_likelihood(&logits, 2) > 999.0);
    }
}
