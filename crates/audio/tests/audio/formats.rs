//! Every format, rate, depth and channel count against what was recorded.

use crate::wav::{F32, I16, I24, I32, Temporary, U8, tone, wav};
use crate::{amplitude, read};
use akunu_testkit::fixtures;

#[test]
fn every_format_gives_the_tones_that_were_recorded() {
    // Stereo files have the second channel at half the first: the mix is three quarters.
    for (name, mix) in [("tone.flac", 1.0), ("tone.m4a", 1.0), ("tone.mp3", 0.75), ("tone.ogg", 0.75)] {
        let samples = read(&fixtures::path(&format!("audio/{name}"))).unwrap();
        // Lossy formats may pad by a packet or two.
        assert!((15_900..=19_000).contains(&samples.len()), "{name}: {} samples", samples.len());
        let middle = &samples[4000..12_000];
        for (hz, recorded) in [(440.0, 0.4), (1500.0, 0.2)] {
            let found = amplitude(middle, hz);
            assert!((found - recorded * mix).abs() < 0.02, "{name}: {hz} Hz at {found}, not {}", recorded * mix);
        }
        assert!(amplitude(middle, 3000.0) < 0.01, "{name}: a tone that was not recorded");
    }
}

#[test]
fn wav_of_any_rate_depth_and_channel_count() {
    for (kind, rate, channels) in [
        (U8, 4000, 1),
        (U8, 8000, 2),
        (I16, 11_025, 1),
        (I16, 16_000, 1),
        (I16, 48_000, 6),
        (I24, 44_100, 2),
        (I32, 96_000, 1),
        (F32, 22_050, 2),
        (F32, 192_000, 1),
    ] {
        let name = format!("{kind:?}-{rate}-{channels}.wav");
        let file = Temporary::new(&name, &wav(kind, rate, channels, &tone(rate, 440.0)));
        let samples = read(&file.0).unwrap();
        assert_eq!(samples.len(), 16_000, "{name}");
        let found = amplitude(&samples[1000..15_000], 440.0);
        assert!((found - 0.5).abs() < 0.01, "{name}: {found}");
    }
}

#[test]
fn sixteen_khz_samples_pass_untouched() {
    let recorded = tone(16_000, 440.0);
    let file = Temporary::new("exact.wav", &wav(F32, 16_000, 1, &recorded));
    assert_eq!(read(&file.0).unwrap(), recorded);
}
