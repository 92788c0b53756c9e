//! Conversion: every number format, tokenizers, threads, and files that are in the way. That a converted model computes what
//! it did is in the tests of `akunu`.

use std::fs;
use std::path::{Path, PathBuf};

use akunu_arch::{Model, ModelConfig};
use akunu_convert::{Error, MIXTURES, Options, Report, convert};
use akunu_dtype::DType;
use akunu_formats::{Metadata, ModelFile};
use akunu_testkit::{TempDir, fixtures};
use akunu_text::{Encode, Tokenizer};

fn to_gguf(source: &Path, destination: &Path, kind: &str) -> Result<Report, Error> {
    convert(source, destination, kind, Options::default(), &mut |_, _| {})
}

fn config(path: &Path) -> ModelConfig {
    Model::read(&ModelFile::open(path).unwrap()).unwrap_or_else(|e| panic!("{e}")).config
}

#[test]
fn every_type_converts_and_loads_with_its_formats() {
    let dir = TempDir::new();
    let source = fixtures::path("gguf/stories-llama-Q4_0.gguf");
    for mixture in MIXTURES {
        let path = dir.join("out.gguf");
        let options = Options { overwrite: true, threads: Some(2), ..Options::default() };
        let report = convert(&source, &path, mixture.name, options, &mut |_, _| {}).unwrap();
        assert!(report.tokenizer, "{}", mixture.name);
        let file = ModelFile::open(&path).unwrap();
        Model::read(&file).unwrap_or_else(|e| panic!("{}: {e}", mixture.name));
        let Metadata::Gguf(metadata) = file.metadata() else { panic!("not GGUF") };
        assert_eq!(metadata.u64("general.file_type").unwrap(), Some(mixture.file_type.into()), "{}", mixture.name);
        assert_eq!(file.tensor("blk.3.ffn_gate.weight").unwrap().dtype, mixture.base, "{}", mixture.name);
        assert_eq!(file.tensor("output_norm.weight").unwrap().dtype, DType::F32);
        let bytes: usize = file.tensors().iter().map(|t| t.data.len).sum();
        assert_eq!(report.bytes, bytes as u64, "{}", mixture.name);
    }
}

#[test]
fn what_has_the_right_format_is_copied_bit_for_bit() {
    let dir = TempDir::new();
    let (source, path) = (fixtures::path("gguf/stories-llama-Q4_0.gguf"), dir.join("copy.gguf"));
    to_gguf(&source, &path, "q4_0").unwrap();
    let (a, b) = (ModelFile::open(&source).unwrap(), ModelFile::open(&path).unwrap());
    assert_eq!(a.tensors().len(), b.tensors().len());
    for (a_tensor, b_tensor) in a.tensors().iter().zip(b.tensors()) {
        assert_eq!((&a_tensor.name, a_tensor.dtype), (&b_tensor.name, b_tensor.dtype));
        assert!(a.planes(a_tensor).data == b.planes(b_tensor).data, "{}", a_tensor.name);
    }
}

#[test]
fn progress_ends_at_the_total_and_one_thread_writes_what_two_do() {
    let dir = TempDir::new();
    let source = fixtures::path("gguf/stories-llama-Q4_0.gguf");
    let mut files = Vec::new();
    for threads in [1, 2] {
        let path = dir.join(&format!("{threads}.gguf"));
        let mut last = (0, 0);
        let mut steps = 0;
        convert(
            &source,
            &path,
            "q5_k_m",
            Options { overwrite: false, threads: Some(threads), ..Options::default() },
            &mut |done, total| {
                assert!(done >= last.0 && done <= total);
                last = (done, total);
                steps += 1;
            },
        )
        .unwrap();
        assert!(last.0 == last.1 && steps > 10, "{last:?}, {steps} steps");
        files.push(fs::read(path).unwrap());
    }
    assert!(files[0] == files[1]);
}

#[test]
fn nothing_is_overwritten_unasked_and_a_failure_leaves_nothing() {
    let dir = TempDir::new();
    let source = fixtures::path("gguf/stories-llama-Q4_0.gguf");
    let taken = dir.write("taken.gguf", b"precious");
    let error = to_gguf(&source, &taken, "q8_0").unwrap_err().to_string();
    assert!(error.ends_with("taken.gguf: already exists"), "{error}");
    assert_eq!(fs::read(&taken).unwrap(), b"precious");
    let copy = dir.join("copy.gguf");
    fs::copy(&source, &copy).unwrap();
    let same = convert(&copy, &copy, "q8_0", Options { overwrite: true, ..Options::default() }, &mut |_, _| {});
    assert!(matches!(same, Err(Error::SameFile { .. })));
    let error = to_gguf(&source, &dir.join("x.gguf"), "q9_9").unwrap_err().to_string();
    assert!(error.contains("\"q9_9\"") && error.contains("q4_k_m"), "{error}");
    let broken = dir.write("broken.gguf", &fs::read(&source).unwrap()[..100_000]);
    assert!(to_gguf(&broken, &dir.join("y.gguf"), "q8_0").is_err());
    let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["broken.gguf", "copy.gguf", "taken.gguf"]);
}

/// A directory like a fixture of the repository, with a tokenizer.
fn with_tokenizer(dir: &TempDir, tokenizer: &str) -> PathBuf {
    with_tokenizer_of("hf/llama-untied", dir, tokenizer)
}

fn with_tokenizer_of(model: &str, dir: &TempDir, tokenizer: &str) -> PathBuf {
    let (fixture, folder) = (fixtures::path(model), dir.join("model"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(fixture.join(name), folder.join(name)).unwrap();
    }
    fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
    fs::write(
        folder.join("tokenizer_config.json"),
        r#"{"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{{ messages[0].content }}"}"#,
    )
    .unwrap();
    folder
}

/// GPT-2's characters for bytes, in byte order.
fn byte_characters() -> Vec<String> {
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    let mut one = |b: u32| {
        let code = if printable(b) { b } else { next };
        next += u32::from(!printable(b));
        char::from_u32(code).unwrap().to_string()
    };
    (0..256).map(&mut one).collect()
}

fn tokenizer_json(tokens: &[String], merges: &[(&str, &str)], byte_fallback: bool, rest: &str) -> String {
    let vocab: Vec<String> =
        tokens.iter().enumerate().map(|(id, t)| format!("{}:{id}", serde_json::to_string(t).unwrap())).collect();
    let merges: Vec<String> = merges.iter().map(|(a, b)| format!("{:?}", format!("{a} {b}"))).collect();
    let special = |id: usize| {
        format!(
            r#"{{"id":{id},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}}"#,
            tokens[id]
        )
    };
    format!(
        r#"{{"version":"1.0","added_tokens":[{},{}],{rest},"model":{{"type":"BPE","unk_token":null,
        "byte_fallback":{byte_fallback},"vocab":{{{}}},"merges":[{}]}}}}"#,
        special(0),
        special(1),
        vocab.join(","),
        merges.join(",")
    )
}

fn same_ids(folder: &Path, gguf: &Path) {
    let open = |p: &Path| Tokenizer::from_model_file(&ModelFile::open(p).unwrap()).unwrap();
    let (a, b) = (open(folder), open(gguf));
    for text in ["the hat", "  a  the\n\nhe", "tähe 東 🚀", "<s>the</s>", "", " "] {
        for options in [Encode { add_special: true, parse_special: true }, Encode::default()] {
            let ids = a.encode(text, options).unwrap();
            assert_eq!(ids, b.encode(text, options).unwrap(), "{text:?}");
            assert_eq!(a.decode(&ids, false), b.decode(&ids, false), "{text:?}");
        }
    }
    assert_eq!((a.bos(), a.eos()), (b.bos(), b.eos()));
}

#[test]
fn a_byte_level_tokenizer_comes_along() {
    let dir = TempDir::new();
    let mut tokens = vec!["<s>".to_owned(), "</s>".to_owned()];
    tokens.extend(byte_characters());
    tokens.extend(["he", "the", "Ġthe"].map(str::to_owned));
    let rest = r#""normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
        "post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}"#;
    let json = tokenizer_json(&tokens, &[("h", "e"), ("t", "he"), ("Ġ", "the")], false, rest);
    let folder = with_tokenizer(&dir, &json);
    let path = dir.join("a.gguf");
    assert!(to_gguf(&folder, &path, "f16").unwrap().tokenizer);
    same_ids(&folder, &path);
    let file = ModelFile::open(&path).unwrap();
    let Metadata::Gguf(metadata) = file.metadata() else { panic!("not GGUF") };
    assert_eq!(metadata.str("tokenizer.ggml.model").unwrap(), Some("gpt2"));
    assert_eq!(metadata.str("tokenizer.ggml.pre").unwrap(), Some("gpt-2"));
    assert_eq!(metadata.str("tokenizer.chat_template").unwrap(), Some("{{ messages[0].content }}"));
    let tokens = metadata.array("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!(tokens.len(), config(&path).vocab, "one for every embedding");

    let unknown = json.replace(r#""use_regex":true},"#, r#""use_regex":false},"#);
    let error = to_gguf(&with_tokenizer(&dir, &unknown), &dir.join("b.gguf"), "f16").unwrap_err().to_string();
    assert!(error.contains("not supported: this tokenizer's splitting rule"), "{error}");
}

/// Whisper's tokenizers put tokens around a text that GGUF has no key for; what to do is said otherwise.
#[test]
fn what_stands_around_a_text_does_not_matter_to_a_model_of_speech() {
    let dir = TempDir::new();
    let tokens = ["<s>", "</s>", "h", "e", "t", "Ġ", "he", "the", "Ġthe"].map(str::to_owned);
    let rest = r#""normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
        "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
        {"SpecialToken":{"id":"</s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
        "pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]},"</s>":{"id":"</s>","ids":[1],"tokens":["</s>"]}}},
        "decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}"#;
    let json = tokenizer_json(&tokens, &[("h", "e"), ("t", "he"), ("Ġ", "the")], false, rest);
    let (folder, path) = (with_tokenizer_of("hf/whisper-short", &dir, &json), dir.join("a.gguf"));
    assert!(to_gguf(&folder, &path, "f16").unwrap().tokenizer);
    let bare = |p: &Path| {
        let tokenizer = Tokenizer::from_model_file(&ModelFile::open(p).unwrap()).unwrap();
        tokenizer.encode("the the", Encode::default()).unwrap()
    };
    assert_eq!((bare(&folder), bare(&path)), (vec![7, 8], vec![7, 8]));
    let error = to_gguf(&with_tokenizer(&dir, &json), &dir.join("b.gguf"), "f16").unwrap_err().to_string();
    assert!(error.contains("would read text differently"), "{error}");
}

#[test]
fn a_sentencepiece_tokenizer_becomes_scores() {
    let dir = TempDir::new();
    let mut tokens = vec!["<s>".to_owned(), "</s>".to_owned()];
    tokens.extend((0..256).map(|b| format!("<0x{b:02X}>")));
    tokens.extend(["▁", "t", "h", "e", "a", "▁t", "he", "▁the", "▁a"].map(str::to_owned));
    let rest = r#""normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
        "pre_tokenizer":null,
        "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}},
        "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}"#;
    let json = tokenizer_json(&tokens, &[("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "a")], true, rest);
    let folder = with_tokenizer(&dir, &json);
    let path = dir.join("a.gguf");
    assert!(to_gguf(&folder, &path, "f16").unwrap().tokenizer);
    same_ids(&folder, &path);
    let file = ModelFile::open(&path).unwrap();
    let Metadata::Gguf(metadata) = file.metadata() else { panic!("not GGUF") };
    assert_eq!(metadata.str("tokenizer.ggml.model").unwrap(), Some("llama"));
    assert_eq!(metadata.bool("tokenizer.ggml.add_bos_token").unwrap(), Some(true));
}
