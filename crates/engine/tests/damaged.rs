//! Weights that are no numbers: an error that says so, never a text or a vector made of nothing.

use akunu::{Device, Embedder, Engine, Error, GenerateOptions, LoadOptions, ModelFile, Reading, Speculation, Text};
use akunu_testkit::{TempDir, fixtures};
use std::path::PathBuf;

/// A copy of an HF fixture in which the tensors with this in their names are NaN: all bits set are, in every float format.
fn damaged(dir: &TempDir, fixture: &str, tensor: &str) -> PathBuf {
    let from = fixtures::path(fixture);
    for name in ["config.json", "model.safetensors"] {
        dir.write(name, &std::fs::read(from.join(name)).unwrap());
    }
    let file = ModelFile::open(&from).unwrap();
    let mut bytes = std::fs::read(from.join("model.safetensors")).unwrap();
    let mut found = 0;
    for tensor in file.tensors().iter().filter(|t| t.name.contains(tensor)) {
        bytes[tensor.data.offset..][..tensor.data.len].fill(0xFF);
        found += 1;
    }
    assert!(found > 0, "no tensor {tensor} in {fixture}");
    dir.write("model.safetensors", &bytes);
    dir.path().to_path_buf()
}

#[test]
fn generation_ends_with_an_error_on_every_way_to_a_token() {
    let dir = TempDir::new();
    let path = damaged(&dir, "hf/llama-untied", "model.norm.weight");
    let ways = [
        GenerateOptions::new(),
        GenerateOptions::new().temperature(0.8).seed(1),
        GenerateOptions::new().logprobs(2),
        GenerateOptions::new().speculation(Speculation::Ngram),
    ];
    for device in [Device::Cpu, Device::Reference] {
        let mut engine = Engine::load(&path, LoadOptions { device, ..LoadOptions::default() }).unwrap();
        for way in &ways {
            let mut sequence = engine.sequence();
            let generated = engine.generate(&mut sequence, &[1, 2, 3], way.clone().max_tokens(4));
            let result: Result<Vec<_>, Error> = generated.and_then(|pieces| pieces.collect());
            assert!(matches!(result, Err(Error::NotFinite)), "{device}: {way:?} gave {result:?}");
        }
        let mut rows = 0;
        let logits = engine.logits(&[1, 2, 3], |_, _| rows += 1);
        assert!(matches!(logits, Err(Error::NotFinite)) && rows == 0, "{device}");
    }
}

#[test]
fn a_vector_that_is_no_vector_is_not_given_out() {
    let dir = TempDir::new();
    let path = damaged(&dir, "hf/bert", "LayerNorm.weight");
    for device in [Device::Cpu, Device::Reference] {
        let options = LoadOptions { device, ..LoadOptions::default() };
        let mut embedder = Embedder::load(&path, options, Reading::Embedding(None)).unwrap();
        let texts = [Text { tokens: vec![1, 2, 3], second: 3 }];
        let result = embedder.read(&texts, |_, vector| panic!("{vector:?}"));
        assert!(matches!(result, Err(Error::NotFinite)), "{device}: {result:?}");
    }
}
