//! Synthesized models: whole, with the numbers of their shape, and the same for the same seed.

use std::fs;

use akunu_arch::{FAMILIES, Model, SHAPES};
use akunu_convert::Mixture;
use akunu_convert::synth::{Options, small, write, write_shape};
use akunu_formats::ModelFile;
use akunu_testkit::TempDir;
use akunu_text::{Encode, Tokenizer};

#[test]
fn every_shape_reads_back_with_its_numbers() {
    let dir = TempDir::new();
    for shape in SHAPES {
        let (tiny, path) = (small(shape), dir.join("a.gguf"));
        let options = Options { overwrite: true, ..Options::default() };
        write_shape(&tiny, Mixture::find("q4_0").unwrap(), &path, options, &mut |_, _| {}).unwrap();
        let model = Model::read(&ModelFile::open(&path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", shape.name));
        let c = &model.config;
        assert_eq!(model.descriptor.name, shape.family.name);
        assert_eq!((c.vocab, c.dim, c.layers.len(), c.head_dim), (300, tiny.dim, 7, 64), "{}", shape.name);
        assert_eq!((c.heads, c.kv_heads, c.ffn, c.eps), (tiny.heads, 2, 512, tiny.eps), "{}", shape.name);
        let sliding = c.layers.iter().find_map(|l| l.window);
        assert_eq!(sliding, tiny.window, "{}", shape.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_file_and_another_another() {
    let dir = TempDir::new();
    let shape = small(&SHAPES[0]);
    let file = |seed: u64| {
        let path = dir.join("a.gguf");
        let mixture = Mixture::find("q4_k_m").unwrap();
        write_shape(&shape, mixture, &path, Options { overwrite: true, seed }, &mut |_, _| {}).unwrap();
        fs::read(path).unwrap()
    };
    let first = file(1);
    assert!(first == file(1));
    assert!(first != file(2));
}

#[test]
fn its_tokenizer_reads_any_text_and_gives_it_back() {
    let dir = TempDir::new();
    let path = dir.join("a.gguf");
    let mixture = Mixture::find("f16").unwrap();
    write_shape(&small(&SHAPES[0]), mixture, &path, Options::default(), &mut |_, _| {}).unwrap();
    let tokenizer = Tokenizer::from_model_file(&ModelFile::open(&path).unwrap()).unwrap();
    assert_eq!(tokenizer.vocab_size(), 300);
    let text = "on the hat, in 東京 🚀\0\n";
    let ids = tokenizer.encode(text, Encode::default()).unwrap();
    assert!(ids.iter().all(|&id| id < 263) && ids.len() < text.len(), "{ids:?}");
    assert_eq!(tokenizer.decode(&ids, false), text);
}

#[test]
fn unknown_names_are_told_with_the_known_ones() {
    let dir = TempDir::new();
    let name = |shape: &str, kind: &str| write(shape, kind, &dir.join("a"), Options::default(), &mut |_, _| {});
    let error = name("gpt-9", "q4_0").unwrap_err().to_string();
    assert!(error.contains("\"gpt-9\"") && error.contains("llama-1b"), "{error}");
    let error = name("llama-1b", "q9").unwrap_err().to_string();
    assert!(error.contains("\"q9\"") && error.contains("q4_k_m"), "{error}");
    assert!(FAMILIES.len() > 5 && !dir.join("a").exists());
}
