//! Recordings of every format against what was recorded, bad recordings, and mel frames against HF's.

mod bad;
mod formats;
mod mel;
mod wav;

use akunu_audio::{Error, Source};
use std::path::Path;

/// Everything a recording holds.
fn read(path: &Path) -> Result<Vec<f32>, Error> {
    let (mut source, mut samples) = (Source::open(path)?, Vec::new());
    while source.read(&mut samples)? {}
    Ok(samples)
}

/// How strong a frequency is in 16 kHz samples: its amplitude.
fn amplitude(samples: &[f32], hz: f64) -> f64 {
    let turn = 2.0 * std::f64::consts::PI * hz / 16_000.0;
    let (mut re, mut im) = (0.0, 0.0);
    for (i, s) in samples.iter().enumerate() {
        re += f64::from(*s) * (turn * i as f64).cos();
        im += f64::from(*s) * (turn * i as f64).sin();
    }
    2.0 * re.hypot(im) / samples.len() as f64
}
