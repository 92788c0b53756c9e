//! Converted and synthesized models run: logits are those of the model they were made from.

use std::path::{Path, PathBuf};

use akunu::{Activations, DType, Engine, LoadOptions};
use akunu_arch::{Model, ModelConfig, SHAPES};
use akunu_convert::synth::{self, write_shape};
use akunu_convert::{Mixture, Options, convert};
use akunu_formats::ModelFile;
use akunu_testkit::{TempDir, cosine, fixtures, relative_error};

fn to_gguf(source: &Path, destination: &Path, kind: &str) {
    convert(source, destination, kind, Options::default(), &mut |_, _| {})
        .unwrap_or_else(|e| panic!("{}: {e}", source.display()));
}

fn config(path: &Path) -> ModelConfig {
    Model::read(&ModelFile::open(path).unwrap()).unwrap_or_else(|e| panic!("{e}")).config
}

/// Logits of every position of a few tokens, without rounding on the way.
fn logits(path: &Path) -> Vec<f32> {
    let (activations, kv) = (Activations::F32, DType::F32);
    let options = LoadOptions { activations, kv, context: Some(64), threads: Some(1), ..LoadOptions::default() };
    let mut engine = Engine::load(path, options).unwrap_or_else(|e| panic!("{e}"));
    let tokens: Vec<u32> = (0..12).map(|i| (i * 37 + 5) % engine.vocab() as u32).collect();
    let mut all = Vec::new();
    engine.logits(&tokens, |_, logits| all.extend_from_slice(logits)).unwrap();
    all
}

/// The directories of decoders that stand alone.
fn decoders(folder: &str) -> Vec<PathBuf> {
    let is_decoder = |path: &PathBuf| {
        let file = ModelFile::open(path).unwrap_or_else(|e| panic!("{e}"));
        let model = Model::read(&file).unwrap_or_else(|e| panic!("{e}"));
        model.descriptor.causal && model.encoder.is_none()
    };
    fixtures::models(folder).into_iter().filter(is_decoder).collect()
}

/// Every family and rope scaling: the same configuration and the same logits, up to how exactly GGUF states a rope
/// scaling (f32 divisors).
#[test]
fn every_family_in_f32_is_the_model_it_was() {
    let dir = TempDir::new();
    for source in decoders("hf") {
        let name = source.file_name().unwrap().to_string_lossy();
        let path = dir.join(&format!("{name}.gguf"));
        to_gguf(&source, &path, "f32");
        let (mut before, mut after) = (config(&source), config(&path));
        for (a, b) in before.ropes.iter().zip(&after.ropes) {
            assert!(relative_error(&b.frequencies, &a.frequencies) < 1e-6, "{name}: frequencies");
            assert!((a.magnitude - b.magnitude).abs() < 1e-6, "{name}: magnitude");
        }
        let long = |config: &ModelConfig| config.beyond.iter().flat_map(|b| b.ropes.clone()).collect::<Vec<_>>();
        for (a, b) in long(&before).iter().zip(&long(&after)) {
            assert!(relative_error(&b.frequencies, &a.frequencies) < 1e-6, "{name}: frequencies of long contexts");
        }
        for config in [&mut before, &mut after] {
            config.ropes.clear();
            config.beyond.iter_mut().for_each(|b| b.ropes.clear());
        }
        assert_eq!(before, after, "{name}");
        let error = relative_error(&logits(&path), &logits(&source));
        assert!(error < 1e-4, "{name}: logits differ by {error}");
    }
}

#[test]
fn mlx_models_lose_nothing_that_matters_in_f16() {
    let dir = TempDir::new();
    for source in decoders("mlx") {
        let name = source.file_name().unwrap().to_string_lossy();
        let path = dir.join(&format!("{name}.gguf"));
        to_gguf(&source, &path, "f16");
        let similar = cosine(&logits(&path), &logits(&source));
        assert!(similar > 0.99999, "{name}: cosine {similar}");
    }
}

#[test]
fn every_synthesized_shape_gives_finite_logits() {
    let dir = TempDir::new();
    for shape in SHAPES {
        let path = dir.join("a.gguf");
        let options = synth::Options { overwrite: true, ..Default::default() };
        let small = synth::small(shape);
        write_shape(&small, Mixture::find("q4_0").unwrap(), &path, options, &mut |_, _| {}).unwrap();
        let mut engine = Engine::load(&path, LoadOptions { threads: Some(1), ..LoadOptions::default() }).unwrap();
        let mut sequence = engine.sequence();
        let logits = engine.prefill(&mut sequence, &[1, 2, 3, 299]).unwrap();
        let spread = logits.iter().fold(0.0f32, |m, l| m.max(l.abs()));
        assert!(logits.iter().all(|l| l.is_finite()) && spread > 0.1 && spread < 1e3, "{}: {spread}", shape.name);
    }
}
