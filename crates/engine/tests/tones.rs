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
use akunu_testkit::TempDir;
use akunu_testkit::tones::{SPOKEN, expected, model, play, wav};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;

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
