//! Log-mel frames against HF's feature extractor, and windows over a file.

use crate::wav::{I16, Temporary, tone, wav};
use akunu_audio::{Features, Mel, normalize};
use akunu_testkit::{fixtures, golden};

fn samples() -> (Vec<f32>, golden::Golden) {
    let golden = golden::load(&fixtures::path("audio/mel.safetensors"));
    let samples =
        golden.bytes("samples").as_chunks::<2>().0.iter().map(|b| f32::from(i16::from_le_bytes(*b)) / 32768.0);
    (samples.collect(), golden)
}

/// HF computes in f64 and we in f32. Where a frame is digital silence but for a window's edge, energies lie near the
/// floor and the logarithm magnifies their error.
const TOLERANCE: f32 = 1e-4;

#[test]
fn frames_are_those_of_the_reference_however_they_come() {
    let (samples, golden) = samples();
    for (bands, packet) in [(80, 16_000), (80, 1), (80, 777), (128, 4096)] {
        let (mut mel, mut frames) = (Mel::new(bands), Vec::new());
        samples.chunks(packet).for_each(|c| mel.push(c, &mut frames));
        mel.finish(&mut frames);
        let peak = frames.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        normalize(&mut frames, peak);
        let want = golden.f32(&format!("mel.{bands}"));
        assert_eq!(frames.len(), want.len(), "{bands} bands");
        // What is not near is wrong, NaN included.
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < TOLERANCE;
        let wrong = frames.iter().zip(&want).find(|pair| !near(*pair));
        assert_eq!(wrong, None, "{bands} bands in packets of {packet}");
    }
}

#[test]
fn recordings_shorter_than_a_frame_have_frames() {
    for (n, frames) in [(1, 0), (159, 0), (160, 1), (200, 1), (201, 1), (399, 2), (400, 2), (480, 3)] {
        let (mut mel, mut out) = (Mel::new(80), Vec::new());
        mel.push(&vec![0.1; n], &mut out);
        mel.finish(&mut out);
        assert_eq!(out.len(), frames * 80, "{n} samples");
        assert!(out.iter().all(|v| v.is_finite()), "{n} samples");
    }
}

#[test]
fn windows_move_forward_over_a_file() {
    let mut recorded = Vec::new();
    for hz in [300.0, 1000.0, 2000.0] {
        recorded.extend(tone(16_000, hz));
    }
    let file = Temporary::new("windows.wav", &wav(I16, 16_000, 1, &recorded));
    let mut features = Features::open(&file.0, 80, |_| {}).unwrap();
    assert_eq!(features.frames(), 300);
    let whole = Features::open(&file.0, 80, |_| {}).unwrap().window(0, 400).unwrap();
    assert_eq!(whole.len(), 400 * 80);
    let silence = whole[300 * 80];
    assert!(whole[300 * 80..].iter().all(|v| *v == silence) && whole.iter().all(|v| *v >= silence));
    for (start, count) in [(0, 100), (0, 150), (100, 100), (250, 100), (300, 100)] {
        let window = features.window(start, count).unwrap();
        assert_eq!(window, whole[start * 80..(start + count) * 80], "{start} + {count}");
    }
}
