//! The vocabularies of the shared fixtures: every text gives exactly the ids that llama.cpp and HF give, at a quarter of the
//! limits.

use std::path::{Path, PathBuf};

use akunu_formats::ModelFile;
use akunu_testkit::{fixtures, quarter_of_limits};
use akunu_text::{Encode, Tokenizer};

fn vocabularies(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "gguf"));
    paths.sort();
    assert!(paths.len() >= 6, "{}: {paths:?}", folder.display());
    paths
}

#[test]
fn every_text_of_every_vocabulary() {
    let Some(folder) = fixtures::shared("tokenizers") else { return };
    let mut failures = Vec::new();
    let mut total = 0;
    for path in vocabularies(&folder) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let tokenizer =
            Tokenizer::from_model_file(&ModelFile::open_within(&path, quarter_of_limits()).unwrap()).unwrap();
        let inputs = std::fs::read_to_string(format!("{}.inp", path.display())).unwrap();
        let outputs = std::fs::read_to_string(format!("{}.out", path.display())).unwrap();
        // The separator follows every text, the last one too.
        let inputs: Vec<&str> = inputs.split_terminator("\n__ggml_vocab_test__\n").collect();
        let outputs: Vec<&str> = outputs.lines().collect();
        assert_eq!(inputs.len(), outputs.len(), "{name}");
        for (i, (text, expected)) in inputs.iter().zip(&outputs).enumerate() {
            let expected: Vec<u32> = expected.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let got = tokenizer.encode(text, Encode::default()).unwrap();
            total += 1;
            if got != expected {
                failures.push(format!("{name} {i} {text:?}\n  expected {expected:?}\n  got      {got:?}"));
            }
        }
        println!("{name}: {} texts", outputs.len());
    }
    assert!(total >= 6 * 40, "{total} texts");
    assert!(failures.is_empty(), "{} of {total}\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn streams_give_what_decode_gives() {
    let Some(folder) = fixtures::shared("tokenizers") else { return };
    for path in vocabularies(&folder) {
        let tokenizer = Tokenizer::from_model_file(&ModelFile::open(&path).unwrap()).unwrap();
        if path.to_string_lossy().contains("bert") {
            continue; // Lower-cased: what comes back is another text.
        }
        for text in ["Hello world", "  two spaces", "🚀 (normal) 😶‍🌫️ Cửa Việt", "ied 4 ½ months\n\n", " ", ""]
        {
            let ids = tokenizer.encode(text, Encode { add_special: true, parse_special: false }).unwrap();
            assert_eq!(tokenizer.decode(&ids, true), text, "{}", path.display());
            let mut stream = tokenizer.stream();
            let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
            streamed.push_str(&stream.flush());
            assert_eq!(streamed, text, "{}", path.display());
        }
    }
}
