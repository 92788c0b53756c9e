//! Silero's voice detector: against its own code where its weights are there, and against plain sums with any.

#[path = "support/voice.rs"]
mod voice;

use akunu::speech::{VoiceModel, Voices};
use akunu_audio::Source;
use akunu_hub::Hub;
use akunu_testkit::{TempDir, fixtures, golden};
use voice::Tensors;

fn listen(model: &VoiceModel, samples: &[f32], step: usize) -> Vec<f32> {
    let (mut voices, mut found) = (Voices::new(model), Vec::new());
    samples.chunks(step).for_each(|part| voices.push(part, |probability| found.push(probability)));
    found
}

/// `fixtures/scripts/voices.py` made the golden. It fills the last chunk up with zeros; a stream has none yet.
#[test]
fn probabilities_are_those_of_the_original() {
    let fetched = Hub::from_environment().and_then(|hub| hub.path("silero-vad")).ok();
    let what = "silero-vad (cargo xtask models fetch silero-vad)";
    let Some(path) = fixtures::needed(fetched, fixtures::Source::Fetched, what) else { return };
    let model = VoiceModel::load(&path).unwrap();
    let mut source = Source::open(&fixtures::path("audio/speech/jfk.flac")).unwrap();
    let mut samples = Vec::new();
    while source.read(&mut samples).unwrap() {}
    let wanted = golden::load(&fixtures::path("audio/voices.safetensors")).f32("probabilities");
    let found = listen(&model, &samples, 1000);
    assert_eq!(found.len() + 1, wanted.len());
    for (i, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        assert!((found - wanted).abs() < 1e-3, "chunk {i}: {found}, the original {wanted}");
    }
    // Noise as loud as speech is no voice.
    let noise = listen(&model, &voice::noise(5 * 16_000, 0.1), 4096);
    assert!(noise.iter().all(|p| *p < 0.35), "{noise:?}");
}

/// The same in f64, as the formulas have it, one value after the other.
fn plainly(tensors: &Tensors, samples: &[f32]) -> Vec<f64> {
    let weight = |name: &str, at: usize| f64::from(tensors.get(name)[at]);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut hidden, mut cell) = (vec![0.0; 128], vec![0.0; 128]);
    let mut found = Vec::new();
    for chunk in 0..samples.len() / 512 {
        let at = |i: usize| match (chunk * 512 + i).checked_sub(64) {
            Some(n) => f64::from(samples[n]),
            None => 0.0,
        };
        let sample = |i: usize| if i < 576 { at(i) } else { at(2 * 575 - i) };
        let part = |row: usize, t: usize| -> f64 {
            (0..256).map(|k| weight("stft_conv.weight", row * 256 + k) * sample(t * 128 + k)).sum()
        };
        // [channel][position]
        let mut x: Vec<Vec<f64>> =
            (0..129).map(|bin| (0..4).map(|t| part(bin, t).hypot(part(bin + 129, t))).collect()).collect();
        for (layer, stride) in [(1, 1), (2, 2), (3, 2), (4, 1)] {
            let (name, bias) = (format!("conv{layer}.weight"), format!("conv{layer}.bias"));
            let (channels, positions) = (x.len(), x[0].len());
            let one = |output: usize, position: usize| {
                let mut sum = weight(&bias, output);
                for (channel, row) in x.iter().enumerate() {
                    for k in 0..3 {
                        let Some(from) = (position * stride + k).checked_sub(1) else { continue };
                        sum += row.get(from).unwrap_or(&0.0) * weight(&name, (output * channels + channel) * 3 + k);
                    }
                }
                sum.max(0.0)
            };
            let outputs = tensors.get(&bias).len();
            x = (0..outputs).map(|o| (0..positions.div_ceil(stride)).map(|p| one(o, p)).collect()).collect();
        }
        let gate = |row: usize| -> f64 {
            let sums = (0..128).map(|i| {
                weight("lstm_cell.weight_ih", row * 128 + i) * x[i][0]
                    + weight("lstm_cell.weight_hh", row * 128 + i) * hidden[i]
            });
            sums.sum::<f64>() + weight("lstm_cell.bias_ih", row) + weight("lstm_cell.bias_hh", row)
        };
        let gates: Vec<f64> = (0..512).map(gate).collect();
        for i in 0..128 {
            cell[i] = sigmoid(gates[128 + i]) * cell[i] + sigmoid(gates[i]) * gates[256 + i].tanh();
            hidden[i] = sigmoid(gates[384 + i]) * f64::tanh(cell[i]);
        }
        let sum: f64 = (0..128).map(|i| weight("final_conv.weight", i) * f64::max(hidden[i], 0.0)).sum();
        found.push(sigmoid(sum + weight("final_conv.bias", 0)));
    }
    found
}

#[test]
fn any_weights_give_what_plain_sums_give_however_samples_come() {
    let (dir, tensors) = (TempDir::new(), voice::random(0.0));
    let model = VoiceModel::load(&tensors.write(&dir)).unwrap();
    let samples = voice::noise(6 * 512 + 100, 0.3);
    let wanted = plainly(&tensors, &samples);
    for step in [1, 100, 512, 5000] {
        let found = listen(&model, &samples, step);
        assert_eq!(found.len(), 6);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "steps of {step}: {found}, plainly {wanted}");
        }
    }
    // They are no constants.
    assert!(wanted.windows(2).all(|w| (w[0] - w[1]).abs() > 1e-4), "{wanted:?}");
}

#[test]
fn other_files_are_refused_in_a_sentence() {
    let dir = TempDir::new();
    let refused = |path: &std::path::Path| VoiceModel::load(path).unwrap_err().to_string();
    let mut missing = voice::random(0.0);
    missing.0.retain(|t| t.0 != "conv2.bias");
    assert!(refused(&missing.write(&dir)).ends_with("16 kHz: tensor conv2.bias is missing"));
    let mut shaped = voice::random(0.0);
    shaped.0[1].1 = vec![129, 128, 3];
    assert!(refused(&shaped.write(&dir)).ends_with("tensor conv1.weight is [129, 128, 3], not [128, 129, 3]"));
    let mut infinite = voice::random(0.0);
    infinite.0[2].2[7] = f32::NAN;
    assert!(refused(&infinite.write(&dir)).ends_with("tensor conv1.bias holds values that are no numbers"));
    let whole = std::fs::read(voice::random(0.0).write(&dir)).unwrap();
    for bytes in [&b""[..], b"not weights at all", &whole[..whole.len() / 2]] {
        let error = refused(&dir.write("bad.safetensors", bytes));
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
    }
}
