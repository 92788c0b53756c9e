//! Recordings in any container: decoded, mixed and resampled.

use std::io::Cursor;

use akunu_audio::{SAMPLE_RATE, Source};

use crate::is_a_sentence;

/// Samples that are looked at: whoever reads a recording may stop.
const MOST_SAMPLES: usize = 120 * SAMPLE_RATE;

/// A recording; its content decides its container.
pub fn audio(bytes: &[u8]) {
    let mut source = match Source::new("recording", Box::new(Cursor::new(bytes.to_vec()))) {
        Ok(source) => source,
        Err(error) => return is_a_sentence(&error),
    };
    let mut samples = Vec::new();
    let mut read = 0;
    while read < MOST_SAMPLES {
        samples.clear();
        match source.read(&mut samples) {
            Ok(true) => read += samples.len(),
            Ok(false) => break,
            Err(error) => return is_a_sentence(&error),
        }
        assert!(samples.iter().all(|sample| sample.is_finite()));
    }
    source.cut_off();
}
