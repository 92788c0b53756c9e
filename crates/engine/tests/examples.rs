//! The programs of `examples/`, run; `transcribe` is in `tones.rs`, which has a model for it.

use akunu_testkit::{TempDir, fixtures};
use std::path::PathBuf;
use std::process::{Command, Output};

fn start(example: &str, arguments: &[&str]) -> Output {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples").join(example);
    Command::new(&program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}; `cargo test` builds it, `cargo test --test` does not", program.display()))
}

fn run(example: &str, arguments: &[&str]) -> String {
    let output = start(example, arguments);
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn name(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn generate_continues_a_text_by_any_model() {
    let text = run("generate", &[]);
    assert!(text.starts_with("Once upon a time") && text.len() > 60, "{text}");
    assert_eq!(run("generate", &[]), text, "the same seed");
    let other = run("generate", &["The dog", name(&fixtures::path("gguf/stories-llama-Q4_0.gguf"))]);
    assert!(other.starts_with("The dog") && other.len() > 10, "{other}");
}

#[test]
fn stream_goes_on_with_its_sequence() {
    let text = run("stream", &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() >= 2 && lines[0].starts_with("Once upon a time there was a cat."), "{text}");
    assert!(text.contains("\n One day the cat"), "{text}");
}

/// Tokens of `hf/llama-untied`.
const VOCAB: usize = 512;

/// That model with a tokenizer of words and a template.
fn chat_model(dir: &TempDir) -> PathBuf {
    let fixture = fixtures::path("hf/llama-untied");
    for name in ["config.json", "model.safetensors"] {
        dir.write(name, &std::fs::read(fixture.join(name)).unwrap());
    }
    let words = ["<unk>", "<s>", "</s>", "user:", "hello", "model:"].map(String::from);
    let words = words.into_iter().chain((0..).map(|i| format!("word{i}"))).take(VOCAB);
    let vocabulary: serde_json::Map<_, _> = words.zip(0..).map(|(word, id)| (word, id.into())).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": false },
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": {
            "type": "WordPiece", "vocab": vocabulary, "unk_token": "<unk>", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
    });
    dir.write("tokenizer.json", tokenizer.to_string().as_bytes());
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}model:";
    let config = serde_json::json!({ "bos_token": "<s>", "eos_token": "</s>", "chat_template": template });
    dir.write("tokenizer_config.json", config.to_string().as_bytes());
    dir.path().to_path_buf()
}

#[test]
fn chat_answers_in_the_models_format() {
    let dir = TempDir::new();
    let model = chat_model(&dir);
    let answer = run("chat", &[name(&model), "hello"]);
    assert!(answer.split_whitespace().count() > 2, "{answer}");
    assert_eq!(start("chat", &[]).status.code(), Some(2));
}

#[test]
fn embed_finds_a_sentence_nearest_to_itself() {
    let model = fixtures::path("gguf/stories-llama-Q4_0.gguf");
    let lines = run("embed", &[name(&model), "A cat sat.", "The dog ran away.", "A cat sat."]);
    let cosines: Vec<f32> = lines.lines().map(|l| l.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert!(cosines.len() == 3 && cosines[0] == 1.0 && cosines[2] == 1.0 && cosines[1] < 0.99, "{lines}");
}

#[test]
fn many_answers_everybody() {
    let text = run("many", &[]);
    let lines: Vec<&str> = text.lines().collect();
    for prompt in ["Once upon a time", "The dog", "Tom and Lily went", "In the garden"] {
        assert!(lines.iter().any(|l| l.starts_with(prompt) && l.len() > prompt.len() + 20), "{text}");
    }
    assert!(text.contains("tokens in"), "{text}");
}
