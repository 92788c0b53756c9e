//! Whole transcriptions against OpenAI's reference: a small model that understands tones, and recordings of them.

#[path = "support/stepwise.rs"]
mod stepwise;
#[allow(dead_code)]
#[path = "support/voice.rs"]
mod voice;

use akunu::speech::{
    Decoding, Event, Live, Segment, Silence, Task, TranscribeOptions, Transcriber, Transcript, VoiceModel,
};
use akunu::{Activations, DType, Device, LoadOptions};
use akunu_audio::Features;
use akunu_convert::convert;
use akunu_dtype::PlanesMut;
use akunu_testkit::{TempDir, fixtures, golden};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const RATE: f64 = 16_000.0;
const VOCAB: usize = 51_865;
const WORDS: usize = 50_257;
const DIM: usize = 64;
/// As `fixtures/scripts/tones_train.py` has them: vocabulary, positions, width, heads, layers, twice; bands; f32.
const NUMBERS: [u32; 11] = [VOCAB as u32, 1500, DIM as u32, 2, 1, 256, DIM as u32, 2, 2, 80, 0];
const SPOKEN: [(usize, &str); 15] = [
    (0, "!"),
    (13, "."),
    (220, " "),
    (360, " do"),
    (319, " re"),
    (2752, " mi"),
    (2050, " fa"),
    (370, " so"),
    (635, " la"),
    (21889, " eins"),
    (12002, " zwei"),
    (16809, " drei"),
    (17634, " vier"),
    (43048, " acht"),
    (35565, " elf"),
];

fn words(bytes: &mut Vec<u8>, values: &[u32]) {
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

/// Matrices in the format asked for; vectors, filters and positions stay f32, as whisper.cpp's quantizer leaves them.
fn tensor(bytes: &mut Vec<u8>, name: &str, shape: &[usize], values: &[f32], dtype: DType) {
    let dtype = if shape.len() == 2 && !name.contains("positional") { dtype } else { DType::F32 };
    words(bytes, &[shape.len() as u32, name.len() as u32, dtype.format().gguf_id.unwrap()]);
    shape.iter().rev().for_each(|d| words(bytes, &[*d as u32]));
    bytes.extend(name.as_bytes());
    let mut data = vec![0; dtype.row_bytes(values.len()).unwrap()];
    dtype.format().encode.unwrap()(values, PlanesMut { data: &mut data, ..PlanesMut::default() });
    bytes.extend(data);
}

/// The file whisper.cpp would have of the model.
fn model(dir: &TempDir, dtype: DType) -> PathBuf {
    let stored = golden::load(&fixtures::path("tones/model.safetensors"));
    let mut bytes = b"lmgg".to_vec();
    words(&mut bytes, &NUMBERS);
    // Nobody reads the filters.
    words(&mut bytes, &[0, 0, WORDS as u32]);
    for token in 0..WORDS {
        let text = SPOKEN.iter().find(|s| s.0 == token).map_or("", |s| s.1);
        words(&mut bytes, &[text.len() as u32]);
        bytes.extend(text.as_bytes());
    }
    for name in stored.names().filter(|n| !n.ends_with(".scale") && !["tokens", "decoder.unused"].contains(n)) {
        let shape = stored.shape(name).to_vec();
        let values = match shape.len() {
            1 => stored.f32(name),
            _ => matrix(stored.bytes(name), &stored.f32(&format!("{name}.scale"))),
        };
        if name == "decoder.token_embedding" {
            let mut rows = stored.f32("decoder.unused").repeat(VOCAB);
            for (token, row) in stored.i32("tokens").into_iter().zip(values.chunks(DIM)) {
                rows[token as usize * DIM..][..DIM].copy_from_slice(row);
            }
            tensor(&mut bytes, "decoder.token_embedding.weight", &[VOCAB, DIM], &rows, dtype);
        } else {
            tensor(&mut bytes, name, &shape, &values, dtype);
        }
    }
    tensor(&mut bytes, "encoder.positional_embedding", &[1500, DIM], &sinusoids(), dtype);
    dir.write("tones.bin", &bytes)
}

/// Int8 rows with a scale each.
fn matrix(bytes: &[u8], scales: &[f32]) -> Vec<f32> {
    let rows = bytes.chunks(bytes.len() / scales.len()).zip(scales);
    rows.flat_map(|(row, scale)| row.iter().map(move |b| f32::from(*b as i8) * scale)).collect()
}

fn sinusoids() -> Vec<f32> {
    let half = DIM / 2;
    let angle = |position: usize, i: usize| position as f64 * (-(1e4f64.ln()) / (half - 1) as f64 * i as f64).exp();
    let value = |position: usize, i: usize| match i < half {
        true => angle(position, i).sin() as f32,
        false => angle(position, i - half).cos() as f32,
    };
    (0..1500 * DIM).map(|i| value(i / DIM, i % DIM)).collect()
}

/// A recording of a score, as `fixtures/scripts/tones.py` plays it.
fn play(recording: &Value) -> Vec<i16> {
    let number = |v: &Value| v.as_f64().unwrap();
    let mut samples = vec![0.0; (number(&recording["seconds"]) * RATE).round() as usize];
    let interval = if recording["language"] == "en" { 1.5 } else { 2.5 };
    for chord in recording["score"].as_array().unwrap() {
        let (onset, end, word) = (number(&chord[0]), number(&chord[1]), number(&chord[2]));
        let (first, last) = ((onset * RATE).round() as usize, (end * RATE).round() as usize);
        for (n, sample) in samples.iter_mut().enumerate().take(last).skip(first) {
            let (since, left) = (n as f64 / RATE - onset, end - n as f64 / RATE);
            let turn = std::f64::consts::TAU * 250.0 * 1.22f64.powf(word) * since;
            let loud = (100.0 * since.min(left)).clamp(0.0, 1.0);
            *sample = 0.3 * loud * (0.6 * turn.sin() + 0.4 * (turn * interval).sin());
        }
    }
    samples.iter().map(|s| (s * 32767.0).round() as i16).collect()
}

fn wav(samples: &[i16]) -> Vec<u8> {
    let bytes = 2 * samples.len() as u32;
    let mut out = b"RIFF".to_vec();
    words(&mut out, &[36 + bytes]);
    out.extend(b"WAVEfmt ");
    words(&mut out, &[16, 0x0001_0001, 16_000, 32_000, 0x0010_0002]);
    out.extend(b"data");
    words(&mut out, &[bytes]);
    out.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    out
}

fn load_options(level: Option<&str>) -> LoadOptions {
    LoadOptions {
        activations: Activations::F32,
        level: level.map(str::to_string),
        threads: Some(2),
        ..LoadOptions::default()
    }
}

fn load(dir: &TempDir, level: Option<&str>) -> Transcriber {
    Transcriber::load(&model(dir, DType::F32), load_options(level)).unwrap()
}

fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(fixtures::path("tones/expected.json")).unwrap()).unwrap()
}

/// Without what is better than the reference: silence is encoded, the first result counts.
fn options(asked: &Value) -> TranscribeOptions {
    let decoding = Decoding {
        beams: asked["beam_size"].as_u64().unwrap_or(1) as usize,
        temperatures: vec![0.0],
        ..Decoding::default()
    };
    TranscribeOptions {
        language: asked["language"].as_str().map(str::to_owned),
        task: if asked["task"] == "translate" { Task::Translate } else { Task::Transcribe },
        decoding,
        condition: asked["condition_on_previous_text"] != false,
        timestamps: asked["without_timestamps"] != true,
        words: asked["word_timestamps"] == true,
        silence: Silence::Keep,
        ..TranscribeOptions::default()
    }
}

fn transcribe(transcriber: &mut Transcriber, path: &Path, options: &TranscribeOptions) -> Transcript {
    let mut features = Features::open(path, transcriber.bands(), |_| {}).unwrap();
    transcriber.transcribe(&mut features, options, |_| ControlFlow::Continue(())).unwrap()
}

/// Text with its times, for comparing and for reading.
fn lines(segments: &[Segment]) -> Vec<String> {
    segments.iter().map(|s| format!("{:.2} {:.2}{}", s.start, s.end, s.text)).collect()
}

#[test]
fn transcripts_are_the_references() {
    for level in Device::Cpu.levels() {
        compare(load_options(Some(level)), usize::MAX);
    }
}

/// One is enough: its encoder is slow.
#[test]
fn the_reference_executor_transcribes_too() {
    compare(LoadOptions { device: Device::Reference, ..load_options(None) }, 1);
}

fn compare(load: LoadOptions, most: usize) {
    let dir = TempDir::new();
    let what = format!("{} {:?}", load.device, load.level);
    let mut transcriber = Transcriber::load(&model(&dir, DType::F32), load).unwrap();
    let expected = expected();
    for wanted in expected["transcripts"].as_array().unwrap().iter().take(most) {
        let name = wanted["recording"].as_str().unwrap();
        let path = dir.write("recording.wav", &wav(&play(&expected["recordings"][name])));
        let found = transcribe(&mut transcriber, &path, &options(&wanted["options"]));
        let what = format!("{name} {}, {what}", wanted["options"]);
        assert_eq!(found.language, wanted["language"], "{what}");
        // The reference lists segments without text.
        let segments = wanted["segments"].as_array().unwrap().iter().filter(|s| s["text"] != "");
        let said = |s: &Value| {
            let time = |key: &str| s[key].as_f64().unwrap();
            format!("{:.2} {:.2}{}", time("start"), time("end"), s["text"].as_str().unwrap())
        };
        assert_eq!(lines(&found.segments), segments.clone().map(said).collect::<Vec<_>>(), "{what}");
        for (found, wanted) in found.segments.iter().zip(segments) {
            let close = |ours: f32, key: &str, by: f64| {
                let theirs = wanted[key].as_f64().unwrap();
                assert!((f64::from(ours) - theirs).abs() < by, "{what}: {key} is {ours}, the reference's {theirs}");
            };
            close(found.no_speech, "no_speech", 2e-3);
            close(found.log_probability, "log_probability", 2e-3);
            assert_eq!(found.words.len(), wanted["words"].as_array().unwrap().len(), "{what}");
            for (ours, theirs) in found.words.iter().zip(wanted["words"].as_array().unwrap()) {
                let times = [(ours.start, &theirs[1]), (ours.end, &theirs[2])];
                let same = times.iter().all(|(ours, theirs)| (ours - theirs.as_f64().unwrap()).abs() < 0.005);
                assert!(ours.text == theirs[0] && same, "{what}: {ours:?}, the reference {theirs}");
            }
        }
    }
}

#[test]
fn chains_choose_what_is_chosen_token_by_token() {
    let (dir, expected) = (TempDir::new(), expected());
    let model = model(&dir, DType::F32);
    for (level, timestamps) in Device::Cpu.levels().into_iter().flat_map(|level| [(level, true), (level, false)]) {
        let mut longest = 0;
        for name in ["german", "long"] {
            let recording = &expected["recordings"][name];
            let path = dir.write("recording.wav", &wav(&play(recording)));
            let language = recording["language"].as_str().unwrap();
            longest = longest.max(stepwise::compare(&model, load_options(Some(level)), &path, language, timestamps));
        }
        assert!(longest > 16, "no text is longer than a chain");
    }
}

/// What is played in a recording: when each sentence begins and ends, and its words.
fn sentences(recording: &Value) -> Vec<(f64, f64, String)> {
    let names = if recording["language"] == "en" { &SPOKEN[3..9] } else { &SPOKEN[9..] };
    let mut sentences: Vec<(f64, f64, String)> = Vec::new();
    for chord in recording["score"].as_array().unwrap() {
        let (onset, end) = (chord[0].as_f64().unwrap(), chord[1].as_f64().unwrap());
        let word = names[chord[2].as_u64().unwrap() as usize].1;
        match sentences.last_mut().filter(|s| onset - s.1 < 0.5) {
            Some(sentence) => (sentence.1, sentence.2) = (end, format!("{}{word}", sentence.2)),
            None => sentences.push((onset, end, word.to_owned())),
        }
    }
    sentences
}

/// With all that is on by default: windows that know the text before them, beams, and silence left out, so that times go
/// on after it.
#[test]
fn nothing_is_lost_and_nothing_is_made_up() {
    let dir = TempDir::new();
    let (mut transcriber, expected) = (load(&dir, None), expected());
    for (name, recording) in expected["recordings"].as_object().unwrap() {
        let path = dir.write("recording.wav", &wav(&play(recording)));
        let found = transcribe(&mut transcriber, &path, &TranscribeOptions::default()).segments;
        let wanted = sentences(recording);
        let text = |s: &Segment| s.text.trim_end_matches('.').to_owned();
        let said: Vec<String> = wanted.iter().map(|s| s.2.clone()).collect();
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), said, "{name}");
        for (found, (start, end, _)) in found.iter().zip(wanted) {
            let apart = (found.start - start).abs().max((found.end - end).abs());
            assert!(apart < 0.1, "{name}: {found:?} is said from {start} to {end}");
        }
    }
}

/// Two sentences with three seconds between them.
fn two_sentences() -> Value {
    let score = json!([[0.4, 0.8, 0], [0.9, 1.3, 1], [1.4, 1.8, 2], [4.8, 5.2, 3], [5.3, 5.7, 4], [5.8, 6.2, 5]]);
    json!({"language": "en", "seconds": 8, "score": score})
}

/// What a model says of a window hangs on all text before it, so that equal probabilities mean that it saw the same.
#[test]
fn text_before_a_silence_is_forgotten_and_the_prompt_is_not() {
    let dir = TempDir::new();
    let mut transcriber = load(&dir, None);
    let path = dir.write("recording.wav", &wav(&play(&two_sentences())));
    let mut transcribe = |condition, prompt: Option<&str>, silence| {
        let prompt = prompt.map(str::to_owned);
        let options = TranscribeOptions { condition, prompt, silence, ..TranscribeOptions::default() };
        let segments = transcribe(&mut transcriber, &path, &options).segments;
        assert_eq!(lines(&segments).len(), 2, "{segments:?}");
        segments[1].log_probability
    };
    let alone = transcribe(false, None, Silence::ByEnergy);
    assert_eq!(transcribe(true, None, Silence::ByEnergy), alone);
    assert_ne!(transcribe(true, Some("fa fa fa"), Silence::ByEnergy), alone);
}

/// Of two detectors, one never finds a voice and the other always.
#[test]
fn what_has_no_voice_is_left_out_however_loud_it_is() {
    let dir = TempDir::new();
    let mut transcriber = load(&dir, None);
    let path = dir.write("recording.wav", &wav(&play(&two_sentences())));
    for (bias, segments) in [(-50.0, 0), (50.0, 2)] {
        let model = VoiceModel::load(&voice::random(bias).write(&dir)).unwrap();
        let options = TranscribeOptions { silence: Silence::ByVoice(model), ..TranscribeOptions::default() };
        assert_eq!(transcribe(&mut transcriber, &path, &options).segments.len(), segments);
        let mut live = Live::new(&transcriber, &options).unwrap();
        let mut said = 0;
        let mut each = |event: Event<'_>| {
            said += usize::from(matches!(event, Event::Segment(_)));
            ControlFlow::Continue(())
        };
        for part in play(&two_sentences()).chunks(8000) {
            let samples: Vec<f32> = part.iter().map(|s| f32::from(*s) / 32768.0).collect();
            live.push(&mut transcriber, &samples, &mut each).unwrap();
        }
        live.finish(&mut transcriber, &mut each).unwrap();
        assert_eq!(said, segments);
    }
}

/// The second sentence is seen while it is said, though three seconds of silence came before it.
#[test]
fn what_is_said_after_a_silence_is_seen_before_it_is_final() {
    let dir = TempDir::new();
    let mut transcriber = load(&dir, None);
    let mut live = Live::new(&transcriber, &TranscribeOptions::default()).unwrap();
    let mut seen = Vec::new();
    for part in play(&two_sentences()).chunks(8000) {
        let samples: Vec<f32> = part.iter().map(|s| f32::from(*s) / 32768.0).collect();
        let so_far = live.push(&mut transcriber, &samples, &mut |_| ControlFlow::Continue(())).unwrap();
        seen.extend(so_far.filter(|text| live.seconds() > 5.5 && !text.is_empty()));
    }
    assert!(!seen.is_empty());
}

/// Also where it is long, has pauses, and its language is not known.
#[test]
fn what_is_said_live_is_what_is_said_in_a_file() {
    let dir = TempDir::new();
    let (mut transcriber, expected) = (load(&dir, None), expected());
    for (name, recording) in expected["recordings"].as_object().unwrap() {
        let samples = play(recording);
        let path = dir.write("recording.wav", &wav(&samples));
        let options = TranscribeOptions::default();
        let file = transcribe(&mut transcriber, &path, &options);
        let samples: Vec<f32> = samples.iter().map(|s| f32::from(*s) / 32768.0).collect();
        let mut live = Live::new(&transcriber, &options).unwrap();
        let mut said = Transcript::default();
        let mut each = |event: Event<'_>| {
            match event {
                Event::Segment(segment) => said.segments.push(segment.clone()),
                Event::Language(code) => said.language = code.to_owned(),
                Event::Progress(_) => {}
            }
            ControlFlow::Continue(())
        };
        let mut partial = 0;
        for part in samples.chunks(12_345) {
            let so_far = live.push(&mut transcriber, part, &mut each).unwrap();
            partial += usize::from(so_far.is_some_and(|text| !text.is_empty()));
        }
        live.finish(&mut transcriber, &mut each).unwrap();
        assert_eq!(said.language, file.language, "{name}");
        assert_eq!(lines(&said.segments), lines(&file.segments), "{name}");
        assert!(partial > 0 || name == "silence", "{name}: nothing was seen before it was final");
    }
}

#[test]
fn the_example_transcribes() {
    let (dir, expected) = (TempDir::new(), expected());
    let recording = dir.write("recording.wav", &wav(&play(&expected["recordings"]["german"])));
    let tests = std::env::current_exe().unwrap();
    let example = tests.ancestors().nth(2).unwrap().join("examples/transcribe");
    let output = std::process::Command::new(example).arg(model(&dir, DType::F32)).arg(&recording).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let wanted = transcribe(&mut load(&dir, None), &recording, &TranscribeOptions::default());
    assert!(!wanted.segments.is_empty());
    for segment in wanted.segments {
        assert!(printed.contains(&segment.text), "{:?} in {printed:?}", segment.text);
    }
}

#[test]
fn a_converted_model_transcribes_the_same() {
    let (dir, expected) = (TempDir::new(), expected());
    let recording = dir.write("recording.wav", &wav(&play(&expected["recordings"]["german"])));
    let ggml = model(&dir, DType::F32);
    let timed = TranscribeOptions { words: true, prompt: Some("re mi fa".into()), ..TranscribeOptions::default() };
    let transcribe = |path: &Path| {
        let options = LoadOptions { activations: Activations::F32, threads: Some(2), ..LoadOptions::default() };
        let mut transcriber = Transcriber::load(path, options).unwrap();
        transcribe(&mut transcriber, &recording, &timed)
    };
    let wanted = transcribe(&ggml);
    let mut source = ggml;
    // One after the other: ggml to GGUF, and from there on GGUF to GGUF.
    for kind in ["f32", "f16", "q8_0", "q5_0"] {
        let path = dir.join(&format!("tones-{kind}.gguf"));
        let report = convert(&source, &path, kind, Default::default(), &mut |_, _| {}).unwrap();
        assert!(report.tokenizer, "{kind}");
        let found = transcribe(&path);
        assert_eq!(found.text(), wanted.text(), "{kind}");
        assert_eq!(found.language, "de", "{kind}");
        if kind == "f32" {
            assert_eq!(found, wanted);
        }
        source = path;
    }
}

#[test]
fn every_format_of_weights_and_keys_gives_the_same_text() {
    let (dir, expected) = (TempDir::new(), expected());
    let recording = dir.write("recording.wav", &wav(&play(&expected["recordings"]["german"])));
    let weights = [DType::F16, DType::Q8_0, DType::Q5_1, DType::Q5_0].map(|weights| (weights, DType::F16));
    for (weights, kv) in weights.into_iter().chain([(DType::F32, DType::F32), (DType::F32, DType::Q8_0)]) {
        let options = LoadOptions { kv, threads: Some(2), ..LoadOptions::default() };
        let mut transcriber = Transcriber::load(&model(&dir, weights), options).unwrap();
        let found = transcribe(&mut transcriber, &recording, &TranscribeOptions::default());
        let said = "zwei zwei zwei. vier zwei drei. elf drei. zwei eins vier drei vier.";
        assert_eq!(found.text(), said, "weights {weights}, KV {kv}");
    }
}
