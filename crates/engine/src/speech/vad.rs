//! Where somebody may be speaking, by energy alone: stretches of silence are not worth a model's time, and a model
//! that hears nothing makes something up.

use akunu_audio::FRAME_RATE;

/// Loudness below this (log10 of a frame's mean mel energy) is silence whatever else is there: some 80 dB below full scale.
const SILENCE: f32 = -6.5;
/// Loudness this far below the recording's loudest energy is silence: 60 dB.
const BELOW_PEAK: f32 = 6.0;
/// Shorter pauses stay.
const SHORTEST: usize = FRAME_RATE;
/// What is kept before speech begins.
const MARGIN: usize = FRAME_RATE / 5;

/// The loudness of a frame of log10 energies.
fn loudness(frame: &[f32]) -> f32 {
    let sum: f32 = frame.iter().map(|v| 10f32.powf(*v)).sum();
    (sum / frame.len().max(1) as f32).log10()
}

/// Frames at the start of `frames` (`[frames][bands]`, log10) that are silence and can be left out.
pub fn silence(frames: &[f32], bands: usize, peak: f32) -> usize {
    let threshold = SILENCE.max(peak - BELOW_PEAK);
    let total = frames.len() / bands.max(1);
    let quiet = frames.chunks(bands.max(1)).take_while(|f| loudness(f) < threshold).count();
    match quiet {
        q if q == total => q,
        q if q < SHORTEST => 0,
        q => q - MARGIN,
    }
}

/// Whether the last `count` frames are silence.
pub fn ends_quietly(frames: &[f32], bands: usize, peak: f32, count: usize) -> bool {
    let from = frames.len().saturating_sub(count * bands);
    frames.len() >= count * bands && silence(&frames[from..], bands, peak) == count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(levels: &[(f32, usize)]) -> Vec<f32> {
        levels.iter().flat_map(|(level, n)| vec![*level; n * 4]).collect()
    }

    #[test]
    fn long_silence_before_speech_is_left_out_but_for_a_margin() {
        assert_eq!(silence(&frames(&[(-10.0, 500), (0.0, 100)]), 4, 1.0), 480);
        assert_eq!(silence(&frames(&[(-10.0, 50), (0.0, 100)]), 4, 1.0), 0);
        assert_eq!(silence(&frames(&[(0.0, 100), (-10.0, 500)]), 4, 1.0), 0);
    }

    #[test]
    fn nothing_but_silence_is_all_left_out() {
        assert_eq!(silence(&frames(&[(-10.0, 30)]), 4, 1.0), 30);
        assert_eq!(silence(&frames(&[(-7.0, 3000)]), 4, -7.0), 3000);
    }

    #[test]
    fn quiet_speech_beside_loud_speech_stays() {
        assert_eq!(silence(&frames(&[(-3.0, 500)]), 4, 1.5), 0);
    }
}
