//! Files that other programs wrote: what we read is what is there.

mod support;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use akunu_dtype::DType;
use akunu_formats::{Container, Fault, Metadata, ModelFile};
use akunu_testkit::{TempDir, fixtures, quarter_of_limits};
use support::*;

#[test]
fn a_gguf_of_llama_cpp() {
    let file = open(&fixtures::path("gguf/llama-256-Q2_K.gguf")).unwrap();
    assert_eq!((file.container(), file.files(), file.tensors().len()), (Container::Gguf, 1, 20));
    let Metadata::Gguf(m) = file.metadata() else { panic!() };
    assert_eq!(m.len(), 21);
    assert_eq!(m.str("general.architecture").unwrap(), Some("llama"));
    assert_eq!(m.u64("llama.attention.head_count_kv").unwrap(), Some(2));
    assert_eq!(m.f32("llama.attention.layer_norm_rms_epsilon").unwrap(), Some(1e-6));
    let t = file.tensor("token_embd.weight").unwrap();
    assert_eq!((t.dtype, &t.shape[..], t.data.offset), (DType::Q6_K, &[512, 256][..], 2048 + 1024));
    let t = file.tensor("blk.0.attn_norm.weight").unwrap();
    assert_eq!((t.dtype, &t.shape[..]), (DType::F32, &[256][..]));
    assert_eq!(file.planes(t).data[..8], [0x00, 0x00, 0x70, 0x3f, 0x00, 0xc0, 0x93, 0x3f]);
    assert!(file.side_file("tokenizer.json").is_none());
    read_everything(&file);
}

#[test]
fn the_same_gguf_inside_the_binary() {
    static BYTES: &[u8] = include_bytes!("../../../fixtures/gguf/llama-256-Q2_K.gguf");
    let file = ModelFile::from_static("embedded", BYTES).unwrap();
    assert_eq!((file.path(), file.bytes(0).len(), file.bytes(1).len()), (Path::new("embedded"), BYTES.len(), 0));
    let mapped = open(&fixtures::path("gguf/llama-256-Q2_K.gguf")).unwrap();
    assert_eq!(file.tensors(), mapped.tensors());
    assert_eq!(read_everything(&file), read_everything(&mapped));
    assert!(ModelFile::from_static("embedded", &BYTES[..1000]).unwrap_err().to_string().starts_with("embedded: "));
    assert!(ModelFile::from_static("embedded", b"{}").unwrap_err().to_string().starts_with("embedded: "));
}

#[test]
fn a_directory_of_transformers() {
    let file = open(&fixtures::path("hf/llama-untied")).unwrap();
    assert_eq!((file.container(), file.tensors().len()), (Container::Safetensors, 30));
    let Metadata::Json(config) = file.metadata() else { panic!() };
    assert_eq!(config["model_type"], "llama");
    let t = file.tensor("lm_head.weight").unwrap();
    assert_eq!((t.dtype, &t.shape[..], t.data.offset), (DType::F16, &[512, 128][..], 8 + 3120));
    assert!(file.side_file("generation_config.json").unwrap().unwrap().starts_with(b"{"));
    assert!(file.side_file("tokenizer.json").is_none());
    read_everything(&file);

    let single = open(&fixtures::path("hf/llama-untied/model.safetensors")).unwrap();
    assert_eq!(single.tensors(), file.tensors());
    let Metadata::Json(same) = single.metadata() else { panic!() };
    assert_eq!(same, config);
}

#[test]
fn a_directory_of_mlx() {
    let file = open(&fixtures::path("mlx/llama-256-3bit-g64")).unwrap();
    assert_eq!(file.tensors().len(), 20, "50 entries, 15 of them quantized in three parts");
    let t = file.tensor("model.layers.1.mlp.down_proj.weight").unwrap();
    assert_eq!((Some(t.dtype), &t.shape[..]), (DType::mlx(3, 64, DType::F16), &[256, 512][..]));
    assert_eq!((t.data.offset, t.scales.offset, t.biases.offset), (145_363, 114_643, 10_195));
    let planes = file.planes(t);
    assert_eq!(planes.data[..8], [0xce, 0x58, 0x85, 0x89, 0xc9, 0x8e, 0x17, 0xa7]);
    assert_eq!(planes.scales[..4], [0x3a, 0x26, 0xb1, 0xa7]);
    assert_eq!(planes.biases[..4], [0x3a, 0xae, 0xb1, 0x2f]);
    assert!(file.tensor("model.layers.1.mlp.down_proj.scales").is_none());
    read_everything(&file);
}

#[test]
fn opening_reads_only_the_header() {
    let dir = TempDir::new();
    let path = dir.join("large.gguf");
    let rows = 1u64 << 25;
    let file = Gguf { infos: vec![info("t", &[4096, rows], 2, 0)], data: 0, ..Gguf::default() };
    std::fs::write(&path, file.bytes()).unwrap();
    // 77 GB that are not on the disk.
    let len = file.bytes().len() as u64 + rows * 4096 / 32 * 18;
    File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
    let start = Instant::now();
    let file = open(&path).unwrap();
    assert_eq!(file.tensors()[0].shape, [1 << 25, 4096]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// A copy of these strings would take 100 MB.
#[test]
fn a_large_vocabulary_stays_in_the_file() {
    let dir = TempDir::new();
    let count = 2_500_000u64;
    let strings: Vec<u8> = (0..count).flat_map(|i| string(i.to_string())).collect();
    let tokens = key("tokens", ARRAY, array(STRING, count, strings));
    let path = dir.write("v.gguf", &Gguf { keys: vec![tokens], ..Gguf::default() }.bytes());
    let file = open(&path).unwrap();
    let Metadata::Gguf(m) = file.metadata() else { panic!() };
    let tokens = m.array("tokens").unwrap().unwrap();
    assert_eq!((tokens.string(1_234_567), tokens.string(2_500_000)), (Some("1234567"), None));
    assert_eq!(tokens.strings().unwrap().last(), Some("2499999"));
}

#[test]
fn a_model_file_goes_between_threads() {
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<ModelFile>();
    sendable::<akunu_formats::Error>();
}

/// Everything in the shared fixtures, where they are there, at a quarter of the limits.
#[test]
fn all_shared_fixtures() {
    let Some(shared) = fixtures::shared("") else { return };
    for folder in ["gguf", "tokenizers", "hf", "mlx"] {
        let paths = std::fs::read_dir(shared.join(folder)).unwrap().map(|e| e.unwrap().path());
        let mut read = 0;
        for path in paths.filter(|p| p.is_dir() || p.extension().is_some_and(|e| e == "gguf")) {
            match open_within(&path, quarter_of_limits()) {
                Ok(file) => {
                    read_everything(&file);
                    read += 1;
                }
                Err(e) if matches!(e.fault, Fault::NotSupported(_)) => eprintln!("skipped: {e}"),
                Err(e) => panic!("{e}"),
            }
        }
        assert!(read > 0, "{folder}");
    }
    let file = open(&shared.join("tokenizers/ggml-vocab-llama-bpe.gguf")).unwrap();
    let Metadata::Gguf(m) = file.metadata() else { panic!() };
    let tokens = m.array("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!(tokens.len(), 128_256);
    assert_eq!(tokens.string(128_000), Some("<|begin_of_text|>"));
    assert_eq!(tokens.strings().unwrap().nth(128_009), Some("<|eot_id|>"));
}
