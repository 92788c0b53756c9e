//! Where somebody may be speaking, by energy alone: stretches of silence are not worth a model's time, and a model
//! that hears nothing makes something up.

use akunu_audio::FRAME_RATE;

/// Loudness below this (log10 of a frame's mean mel energy) is silence whatever else is there: some 80 dB below full scale.
const SILENCE: f32 = -6.5;
/// Loudness this far below the recording's loudest energy is silence: 60 dB.
const BELOW_PEAK: f32 = 6.0;
/// Silence before speech that is shorter stays.
const SHORTEST: usize = FRAME_RATE;
/// What is kept of silence before and after speech.
const MARGIN: usize = FRAME_RATE / 5;
/// A pause that ends a window: a model that hears a long one may pass over what follows it.
const PAUSE: usize = 2 * FRAME_RATE;

/// The loudness of a frame of log10 energies.
fn loudness(frame: &[f32]) -> f32 {
    let sum: f32 = frame.iter().map(|v| 10f32.powf(*v)).sum();
    (sum / frame.len().max(1) as f32).log10()
}

/// What to do with frames.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// This many are silence and can be left out.
    Silence(usize),
    /// There is speech, and this many are one stretch of it.
    Speech(usize),
    /// There is no speech, but there may be at once.
    Nothing,
}

impl Heard {
    /// Frames to leave out of `count` without speech.
    pub fn left_out(&self, count: usize) -> usize {
        if let Self::Silence(frames) = self { (*frames).max(1) } else { count }
    }
}

/// What `frames` (`[frames][bands]`, log10) begin with; `last`: none follow them.
pub fn hear(frames: &[f32], bands: usize, peak: f32, last: bool) -> Heard {
    let threshold = SILENCE.max(peak - BELOW_PEAK);
    let frames = frames.chunks(bands.max(1));
    let total = frames.len();
    let is_quiet = |frame: &[f32]| loudness(frame) < threshold;
    let quiet = frames.clone().take_while(|f| is_quiet(f)).count();
    match quiet {
        q if q == total && last => return Heard::Silence(q),
        q if q >= SHORTEST => return Heard::Silence(q - MARGIN),
        q if q == total => return Heard::Nothing,
        _ => {}
    }
    let mut pause = 0;
    for (at, frame) in frames.enumerate().skip(quiet) {
        pause = if is_quiet(frame) { pause + 1 } else { 0 };
        if pause == PAUSE {
            return Heard::Speech(at + 1 - PAUSE + MARGIN);
        }
    }
    Heard::Speech(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(levels: &[(f32, usize)]) -> Vec<f32> {
        levels.iter().flat_map(|(level, n)| vec![*level; n * 4]).collect()
    }

    fn hear_all(levels: &[(f32, usize)], peak: f32) -> Heard {
        hear(&frames(levels), 4, peak, true)
    }

    #[test]
    fn long_silence_before_speech_is_left_out_but_for_a_margin() {
        assert_eq!(hear_all(&[(-10.0, 500), (0.0, 100)], 1.0), Heard::Silence(480));
        assert_eq!(hear_all(&[(-10.0, 50), (0.0, 100)], 1.0), Heard::Speech(150));
    }

    #[test]
    fn nothing_but_silence_is_left_out_once_nothing_follows() {
        assert_eq!(hear_all(&[(-10.0, 30)], 1.0), Heard::Silence(30));
        assert_eq!(hear_all(&[(-7.0, 3000)], -7.0), Heard::Silence(3000));
        assert_eq!(hear(&frames(&[(-10.0, 30)]), 4, 1.0, false), Heard::Nothing);
        assert_eq!(hear(&frames(&[(-10.0, 3000)]), 4, 1.0, false), Heard::Silence(2980));
    }

    #[test]
    fn a_long_pause_ends_a_stretch_of_speech() {
        assert_eq!(hear_all(&[(0.0, 100), (-10.0, 500), (0.0, 100)], 1.0), Heard::Speech(120));
        assert_eq!(hear_all(&[(0.0, 100), (-10.0, 150), (0.0, 100)], 1.0), Heard::Speech(350));
        assert_eq!(hear_all(&[(-10.0, 40), (0.0, 100), (-10.0, 200)], 1.0), Heard::Speech(160));
    }

    #[test]
    fn quiet_speech_beside_loud_speech_stays() {
        assert_eq!(hear_all(&[(-3.0, 500)], 1.5), Heard::Speech(500));
    }
}
