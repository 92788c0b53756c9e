//! Recordings that are broken: one sentence each, never a panic.

use crate::read;
use crate::wav::{F32, I16, Temporary, tone, wav};
use akunu_audio::{Features, Source};
use akunu_limits::Limits;
use akunu_testkit::fixtures;

#[track_caller]
fn fails(name: &str, bytes: &[u8], sentence: &str) {
    let file = Temporary::new(name, bytes);
    let error = read(&file.0).expect_err("bad audio was read").to_string();
    assert!(error.contains(sentence), "{name}: {error}");
    assert!(!error.contains('\n') && error.contains(name), "{name}: {error}");
}

#[test]
fn each_bad_recording_is_one_clear_sentence() {
    fails("empty.wav", b"", "is empty");
    fails("text.wav", "This is a letter and no recording.\n".repeat(500).as_bytes(), "is not audio in a known format");
    fails("header.wav", &wav(I16, 16_000, 1, &[]), "has no audio in it");
    fails("short.wav", &wav(I16, 16_000, 1, &[])[..20], "is not audio in a known format");
    fails("slow.wav", &wav(I16, 10, 1, &[0.0; 100]), "a sample rate of 10 Hz");
    fails("zero-rate.wav", &wav(I16, 0, 1, &[0.0; 100]), "is damaged");
    let mut samples = tone(16_000, 440.0);
    samples[8000] = f32::NAN;
    fails("nan.wav", &wav(F32, 16_000, 1, &samples), "a sample that is not a finite number, 0.50 s");
    samples[8000] = f32::INFINITY;
    fails("infinite.wav", &wav(F32, 16_000, 1, &samples), "a sample that is not a finite number");
}

/// The decoder of this one panics. Nobody is told: the test runs itself once more, and looks at what that says.
#[test]
fn a_decoder_that_panics_does_so_quietly() {
    const CHILD: &str = "AKUNU_TEST_QUIET";
    if std::env::var_os(CHILD).is_some() {
        return fails("zero-rate-quiet.wav", &wav(I16, 0, 1, &[0.0; 100]), "is damaged");
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "bad::a_decoder_that_panics_does_so_quietly", "--nocapture"]).env(CHILD, "1");
    let out = again.output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
    assert!(!told.contains("panicked"), "{told}");
}

#[test]
fn a_directory_and_a_missing_file_are_named() {
    let error = Source::open(&std::env::temp_dir()).err().unwrap().to_string();
    assert!(error.contains("is a directory, not a regular file"), "{error}");
    let error = Source::open("no-such-recording.wav".as_ref()).err().unwrap().to_string();
    assert!(error.contains("no-such-recording.wav: cannot be opened"), "{error}");
}

#[test]
fn many_channels_are_mixed_and_too_many_refused_in_a_sentence() {
    let file = Temporary::new("many.wav", &wav(I16, 16_000, 32, &tone(16_000, 440.0)));
    let error = read(&file.0).unwrap_err().to_string();
    assert!(error.contains("not supported: this number of channels"), "{error}");
    let file = Temporary::new("twenty-six.wav", &wav(I16, 16_000, 26, &tone(16_000, 440.0)));
    assert_eq!(read(&file.0).unwrap().len(), 16_000);
}

#[test]
fn a_truncated_recording_gives_what_it_has() {
    for name in ["tone.mp3", "tone.flac"] {
        let bytes = std::fs::read(fixtures::path(&format!("audio/{name}"))).unwrap();
        let file = Temporary::new(name, &bytes[..bytes.len() * 2 / 3]);
        let samples = read(&file.0).unwrap();
        assert!((2000..14_000).contains(&samples.len()), "{name}: {} samples", samples.len());
        let cut_off = |path| Features::open(path, 80, |_| {}).unwrap().cut_off();
        let (has, said) = cut_off(&file.0).unwrap_or_else(|| panic!("{name}: nobody says that it is cut off"));
        assert!(has < 0.8 * said && (said - 1.0).abs() < 0.1, "{name}: {has} s of {said} s");
        assert_eq!(cut_off(&fixtures::path(&format!("audio/{name}"))), None, "{name}");
    }
}

#[test]
fn a_recording_that_is_or_says_it_is_too_long_is_refused() {
    let path = fixtures::path("audio/speech/jfk.flac");
    let within =
        |audio_seconds| Features::open_within(&path, 80, Limits { audio_seconds, ..Limits::default() }, |_| {});
    let error = within(10).err().unwrap().to_string();
    assert!(error.contains("jfk.flac: is longer than the limit audio-seconds of 10 seconds"), "{error}");
    assert_eq!(within(11).unwrap().seconds(), 11.0);
    // One that was written to a pipe does not say.
    let mut bytes = wav(I16, 16_000, 1, &tone(32_000, 440.0));
    let data = bytes.windows(4).position(|w| w == b"data").unwrap();
    for length in [4, data + 4] {
        bytes[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    }
    let file = Temporary::new("endless.wav", &bytes);
    let mut source = Source::open_within(&file.0, Limits { audio_seconds: 1, ..Limits::default() }).unwrap();
    let mut samples = Vec::new();
    let error = loop {
        match source.read(&mut samples) {
            Ok(more) => assert!(more, "it ended"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("the limit audio-seconds of 1 seconds") && samples.len() <= 16_000, "{error}");
}

/// A small generator, so that a failure can be repeated.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn damaged_bytes_never_panic() {
    let mut state = 7;
    for name in ["tone.mp3", "tone.flac", "tone.ogg", "tone.m4a"] {
        let mut opened = 0;
        let whole = std::fs::read(fixtures::path(&format!("audio/{name}"))).unwrap();
        for round in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..1 + round % 8 {
                // Headers are where damage does most.
                let at = next(&mut state) % if round % 2 == 0 { 600 } else { bytes.len() };
                bytes[at] = next(&mut state) as u8;
            }
            bytes.truncate(1 + next(&mut state) % (2 * bytes.len()));
            let file = Temporary::new(&format!("damaged-{name}"), &bytes);
            if let Ok(samples) = read(&file.0) {
                assert!(samples.len() < 64 << 20, "{name} round {round}: {} samples", samples.len());
                opened += 1;
            }
        }
        assert!(opened < 60, "{name}: no damage was noticed");
    }
}

/// What a box of a file says after its kind.
fn box_at(file: &[u8], kind: &[u8; 4]) -> usize {
    4 + file.windows(4).position(|w| w == kind).unwrap()
}

/// Tables that claim more than there is would be allocated, or looked through for hours, by the demuxer.
#[test]
fn an_mp4_table_that_claims_too_much_is_refused_before_the_demuxer_sees_it() {
    let good = std::fs::read(fixtures::path("audio/tone.m4a")).unwrap();
    type Break = (&'static str, &'static [u8; 4], usize, u32, &'static str);
    let table: &[Break] = &[
        ("stsz", b"stsz", 8, u32::MAX, "fewer entries"),
        ("stsz-constant", b"stsz", 4, u32::MAX, "larger than the file"),
        ("stts", b"stts", 4, u32::MAX, "fewer entries"),
        ("stsc", b"stsc", 4, u32::MAX, "fewer entries"),
        ("stco", b"stco", 4, u32::MAX, "fewer entries"),
        ("hdlr", b"hdlr", usize::MAX - 7, u32::MAX, "inside the box around it"),
        ("moov", b"mdia", usize::MAX - 7, 4, "inside the box around it"),
    ];
    for (name, kind, at, value, sentence) in table {
        let mut bytes = good.clone();
        let at = box_at(&bytes, kind).wrapping_add(*at);
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        fails(&format!("{name}.m4a"), &bytes, sentence);
    }
    // Boxes in boxes in boxes.
    let mut deep = vec![];
    for _ in 0..1000 {
        let size = deep.len() as u32 + 8;
        deep = [&size.to_be_bytes()[..], b"moov", &deep].concat();
    }
    let start = &good[..good.windows(4).position(|w| w == b"ftyp").unwrap() - 4 + 8];
    let size = u32::from_be_bytes(start[..4].try_into().unwrap()) as usize;
    fails("deep.m4a", &[&good[..size], &deep].concat(), "nested too deeply");
    // A fragment whose samples have no sizes.
    let run =
        [&24u32.to_be_bytes()[..], b"moof", &16u32.to_be_bytes(), b"trun", &[0; 4], &u32::MAX.to_be_bytes()].concat();
    fails("fragments.m4a", &[&good[..size], &run].concat(), "too many samples");
}
