//! Encoders and embedders against the oracles' hidden states, in every way of running and packing.

#[allow(dead_code)]
mod support;

use akunu::{Activations, DType, Embedder, Error, LoadOptions, Reading, Text, TooLong, normalize};
use akunu_arch::{Model, Pooling, Role};
use akunu_formats::{ModelFile, safetensors};
use akunu_testkit::{Golden, TempDir, fixtures, golden, relative_error};
use std::fs;
use std::path::{Path, PathBuf};
use support::*;

fn encoders() -> Vec<(PathBuf, Golden)> {
    let all =
        fixtures::models("hf").into_iter().map(|dir| (dir.clone(), golden::load(&dir.join("golden.safetensors"))));
    let found: Vec<_> = all.filter(|(_, golden)| golden.has("hidden.0")).collect();
    assert!(found.len() >= 2, "encoders among the fixtures");
    found
}

fn text(tokens: Vec<u32>) -> Text {
    Text { second: tokens.len(), tokens }
}

fn texts(golden: &Golden) -> Vec<Text> {
    cases(golden).into_iter().map(|case| text(ids(golden, case))).collect()
}

fn load(path: &Path, options: LoadOptions, reading: Reading) -> Embedder {
    Embedder::load(path, options, reading).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What comes out for every text; hidden states one after the other.
fn read(embedder: &mut Embedder, texts: &[Text]) -> Vec<Vec<f32>> {
    let mut all = vec![Vec::new(); texts.len()];
    embedder.read(texts, |text, values| all[text].extend_from_slice(values)).unwrap();
    all
}

fn exact() -> LoadOptions {
    LoadOptions { activations: Activations::F32, round_constants: true, threads: Some(2), ..LoadOptions::default() }
}

/// Where the oracle's module was cast as a whole, its constants are rounded; so are ours here.
#[test]
fn hidden_states_and_vectors_are_the_oracles() {
    for (dir, golden) in encoders() {
        for way in ways() {
            let options = LoadOptions { round_constants: fixtures::was_cast(&dir), ..options(way, Activations::F32) };
            agree(&dir, &golden, &options, &format!("{way:?}"));
        }
    }
}

/// The same models as GGUF files.
#[test]
fn hidden_states_and_vectors_of_gguf_files_are_the_oracles() {
    let mut seen = 0;
    for path in fixtures::models("gguf") {
        let golden = golden::load(&path.with_extension("golden.safetensors"));
        if !golden.has("hidden.0") {
            continue;
        }
        seen += 1;
        for way in ways() {
            agree(&path, &golden, &options(way, Activations::F32), &format!("{way:?}"));
        }
    }
    println!("{seen} files");
}

/// Hidden states, and vectors of every way of pooling that the golden has.
fn agree(path: &Path, golden: &Golden, options: &LoadOptions, way: &str) {
    let what = format!("{} {way}", name(path));
    let mut embedder = load(path, options.clone(), Reading::Hidden);
    let dim = embedder.width();
    let dense = embedder.model().config.dense != [0; 2];
    let hidden = read(&mut embedder, &texts(golden));
    for case in cases(golden) {
        let positions = match golden.has(&format!("positions.{case}")) {
            true => golden.i32(&format!("positions.{case}")).iter().map(|p| *p as usize).collect(),
            false => (0..hidden[case].len() / dim).collect::<Vec<_>>(),
        };
        let ours: Vec<f32> = positions.iter().flat_map(|p| &hidden[case][p * dim..][..dim]).copied().collect();
        let error = relative_error(&ours, &golden.f32(&format!("hidden.{case}")));
        assert!(error <= 1e-4, "{what} case {case}: relative error {error:.1e}");
    }
    let pooled = [
        ("mean_normed", Some(Pooling::Mean)),
        ("last_normed", Some(Pooling::Last)),
        ("cls_normed", Some(Pooling::First)),
        ("embedding", None),
    ];
    for (key, pooling) in pooled {
        // The mean before dense layers is nobody's vector.
        if !golden.has(&format!("{key}.0")) || dense && pooling.is_some() {
            continue;
        }
        let vectors = read(&mut load(path, options.clone(), Reading::Embedding(pooling)), &texts(golden));
        for (case, mut vector) in vectors.into_iter().enumerate() {
            normalize(&mut vector);
            let error = relative_error(&vector, &golden.f32(&format!("{key}.{case}")));
            assert!(error <= 1e-4, "{what} case {case}, {key}: relative error {error:.1e}");
        }
    }
}

#[test]
fn a_text_is_the_same_alone_and_among_others() {
    for (dir, golden) in encoders() {
        let mut texts = texts(&golden);
        texts.extend((1..40).map(|n| text((0..n).map(|i| (i * 31 + n) % 500).collect())));
        let packed = read(&mut load(&dir, exact(), Reading::Hidden), &texts);
        let options = LoadOptions { chunk: Some(1), threads: Some(1), ..exact() };
        let mut one = load(&dir, options, Reading::Hidden);
        for (text, packed) in texts.iter().zip(packed) {
            let alone = &read(&mut one, std::slice::from_ref(text))[0];
            let same = alone.iter().zip(&packed).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same && alone.len() == packed.len(), "{}: {} tokens", name(&dir), text.tokens.len());
        }
    }
}

#[test]
fn pooling_takes_the_first_the_last_or_the_mean_row() {
    let (dir, golden) = &encoders()[0];
    let texts = texts(golden);
    let hidden = read(&mut load(dir, exact(), Reading::Hidden), &texts);
    for pooling in [Pooling::First, Pooling::Last, Pooling::Mean] {
        let mut embedder = load(dir, exact(), Reading::Embedding(Some(pooling)));
        let dim = embedder.width();
        for (vector, hidden) in read(&mut embedder, &texts).iter().zip(&hidden) {
            let rows = hidden.chunks(dim);
            let want: Vec<f32> = match pooling {
                Pooling::First => hidden[..dim].to_vec(),
                Pooling::Last => hidden[hidden.len() - dim..].to_vec(),
                Pooling::Mean => (0..dim)
                    .map(|i| rows.clone().map(|r| f64::from(r[i])).sum::<f64>() as f32 / rows.len() as f32)
                    .collect(),
            };
            assert!(relative_error(vector, &want) < 1e-6, "{pooling:?}");
        }
    }
}

/// The golden has logits, not hidden states: those follow from these by the output matrix.
#[test]
fn a_decoders_hidden_states_give_its_logits() {
    let dir = fixtures::path("hf/qwen3");
    let golden = golden::load(&dir.join("golden.safetensors"));
    let file = ModelFile::open(&dir).unwrap();
    let model = Model::read(&file).unwrap();
    let weight = model.weights.global(Role::Output).or(model.weights.global(Role::TokenEmbedding)).unwrap();
    let mut matrix = vec![0.0; weight.rows * weight.cols];
    let tensor = &file.tensors()[weight.tensor];
    (tensor.dtype.format().decode)(file.planes(tensor), &mut matrix);
    let mut embedder = load(&dir, exact(), Reading::Hidden);
    assert_eq!(embedder.pooling(), Pooling::Last, "what a causal model's file does not say");
    let hidden = read(&mut embedder, &texts(&golden));
    for case in cases(&golden) {
        let ours: Vec<f32> = golden
            .i32(&format!("positions.{case}"))
            .iter()
            .flat_map(|p| {
                let row = &hidden[case][*p as usize * weight.cols..][..weight.cols];
                matrix
                    .chunks(weight.cols)
                    .map(move |w| w.iter().zip(row).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>() as f32)
            })
            .collect();
        let error = relative_error(&ours, &golden.f32(&format!("logits.{case}")));
        assert!(error < 1e-4, "case {case}: relative error {error:.1e}");
    }
}

/// The first encoder with a classification head of known weights, as HF saves one.
fn cross_encoder(dir: &TempDir) -> (PathBuf, Vec<f32>, Vec<f32>) {
    let source = fixtures::path("hf/bert");
    let config = fs::read_to_string(source.join("config.json")).unwrap();
    let folder = dir.join("ranker");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("config.json"), config.replace("BertModel", "BertForSequenceClassification")).unwrap();
    let file = safetensors::File::open(&source.join("model.safetensors")).unwrap();
    let values = |n: usize, seed: usize| -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2001) as f32 / 4000.0 - 0.25).collect()
    };
    let (dense, classes) = (values(96 * 96 + 96, 1), values(96 + 1, 2));
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let extra = [
        ("bert.pooler.dense.weight", vec![96, 96], bytes(&dense[..96 * 96])),
        ("bert.pooler.dense.bias", vec![96], bytes(&dense[96 * 96..])),
        ("classifier.weight", vec![1, 96], bytes(&classes[..96])),
        ("classifier.bias", vec![1], bytes(&classes[96..])),
    ];
    let named: Vec<(String, _)> = file.entries().iter().map(|e| (format!("bert.{}", e.name), e)).collect();
    let mut tensors: Vec<(&str, DType, &[usize], &[u8])> =
        named.iter().map(|(name, e)| (name.as_str(), e.dtype, &e.shape[..], file.data(e))).collect();
    tensors.extend(extra.iter().map(|(name, shape, bytes)| (*name, DType::F32, &shape[..], &bytes[..])));
    safetensors::write(&folder.join("model.safetensors"), &tensors).unwrap();
    (folder, dense, classes)
}

/// `W₂ · tanh(W₁ · first row + b₁) + b₂`, over the oracle's hidden states.
#[test]
fn a_classification_head_scores_the_first_row() {
    let dir = TempDir::new();
    let (folder, dense, classes) = cross_encoder(&dir);
    let golden = golden::load(&fixtures::path("hf/bert").join("golden.safetensors"));
    let mut embedder = load(&folder, exact(), Reading::Scores);
    assert_eq!(embedder.width(), 1);
    let scores = read(&mut embedder, &texts(&golden));
    for case in cases(&golden) {
        let hidden = &golden.f32(&format!("hidden.{case}"))[..96];
        let dot = |w: &[f32], x: &[f64]| w.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>();
        let first: Vec<f64> = hidden.iter().map(|v| f64::from(*v)).collect();
        let (weight, bias) = dense.split_at(96 * 96);
        let inner: Vec<f64> =
            weight.chunks(96).zip(bias).map(|(w, b)| (dot(w, &first) + f64::from(*b)).tanh()).collect();
        let want = dot(&classes[..96], &inner) + f64::from(classes[96]);
        assert!((f64::from(scores[case][0]) - want).abs() < 1e-4 * want.abs().max(1.0), "{scores:?} {want}");
    }
    // The second text of a pair is another segment.
    let mut pair = texts(&golden).swap_remove(0);
    pair.second = 4;
    assert_ne!(read(&mut embedder, &[pair])[0], scores[0]);
    let refused = Embedder::load(&fixtures::path("hf/bert"), exact(), Reading::Scores).err().unwrap().to_string();
    assert!(refused.contains("without a classification head"), "{refused}");
}

#[test]
fn a_cross_encoder_scores_pairs_as_hf_does() {
    let dir = fixtures::path("hf/bert-ranker");
    let golden = golden::load(&dir.join("golden.safetensors"));
    let pair = |case: usize| {
        let second = golden.i32(&format!("second.{case}"))[0] as usize;
        Text { tokens: ids(&golden, case), second }
    };
    let pairs: Vec<Text> = cases(&golden).into_iter().map(pair).collect();
    assert_eq!(pairs.len(), 4);
    for way in ways() {
        let mut embedder = load(&dir, options(way, Activations::F32), Reading::Scores);
        for (case, ours) in read(&mut embedder, &pairs).iter().enumerate() {
            let want = golden.f32(&format!("scores.{case}"));
            assert!(relative_error(ours, &want) < 1e-4, "case {case}, {way:?}: {ours:?}, HF {want:?}");
        }
    }
}

/// The oracle's score is the probability of the logit, or of yes against no.
#[test]
fn models_that_rank_give_the_oracles_scores() {
    for folder in ["hf", "gguf"] {
        for path in fixtures::models(folder) {
            let golden = match folder {
                "hf" => golden::load(&path.join("golden.safetensors")),
                _ => golden::load(&path.with_extension("golden.safetensors")),
            };
            if !golden.has("score.0") {
                continue;
            }
            let dir = TempDir::new();
            // The answers' tokens, which a published directory has in its vocabulary.
            let path = match folder == "hf" && golden.has("yes_no_ids") {
                true => with_answers(&dir, &path, &golden.i32("yes_no_ids")),
                false => path,
            };
            for way in ways() {
                let mut embedder = load(&path, options(way, Activations::F32), Reading::Scores);
                assert_eq!(embedder.width(), 1);
                for (case, ours) in read(&mut embedder, &texts(&golden)).iter().enumerate() {
                    let logit = match golden.has("yes_no_logits.0") {
                        true => golden.f32(&format!("yes_no_logits.{case}")).into_iter().reduce(|yes, no| yes - no),
                        false => Some(golden.f32(&format!("logit.{case}"))[0]),
                    };
                    let (ours, logit) = (f64::from(ours[0]), f64::from(logit.unwrap()));
                    let score = f64::from(golden.f32(&format!("score.{case}"))[0]);
                    let what = format!("{} case {case}, {way:?}: {ours}, the oracle {logit}", path.display());
                    assert!((ours - logit).abs() <= 1e-4 * logit.abs().max(1.0), "{what}");
                    assert!(((1.0 + (-ours).exp()).recip() - score).abs() < 1e-4, "{what}, score {score}");
                }
            }
        }
    }
}

/// The directory with the module that names the tokens of yes and no.
fn with_answers(dir: &TempDir, source: &Path, ids: &[i32]) -> PathBuf {
    for file in ["config.json", "model.safetensors"] {
        fs::copy(source.join(file), dir.join(file)).unwrap();
    }
    fs::create_dir(dir.join("1_LogitScore")).unwrap();
    dir.write("modules.json", br#"[{"path": "1_LogitScore", "type": "sentence_transformers.LogitScore"}]"#);
    let config = format!(r#"{{"true_token_id": {}, "false_token_id": {}}}"#, ids[0], ids[1]);
    dir.write("1_LogitScore/config.json", config.as_bytes());
    dir.path().to_path_buf()
}

/// What Qwen3-Embedding is: a decoder, its last token's hidden state.
#[test]
fn a_decoder_embeds_by_its_last_token_as_hf_does() {
    let dir = fixtures::path("hf/qwen3");
    let golden = golden::load(&dir.join("golden.safetensors"));
    let last = golden::load(&dir.join("last.safetensors"));
    for way in ways() {
        let mut embedder = load(&dir, options(way, Activations::F32), Reading::Embedding(None));
        for (case, ours) in read(&mut embedder, &texts(&golden)).iter().enumerate() {
            let error = relative_error(ours, &last.f32(&format!("last.{case}")));
            assert!(error < 1e-4, "case {case}, {way:?}: relative error {error:.1e}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_an_error_and_what_can_is_read() {
    let (dir, _) = &encoders()[0];
    let mut embedder = load(dir, exact(), Reading::Embedding(None));
    let context = embedder.context();
    assert!(matches!(embedder.read(&[text(vec![])], |_, _| {}), Err(Error::EmptyPrompt)));
    let long = text(vec![1; context + 1]);
    assert!(matches!(embedder.read(&[long], |_, _| {}), Err(Error::TextTooLong { .. })));
    assert!(matches!(embedder.read(&[text(vec![512])], |_, _| {}), Err(Error::Token { token: 512, .. })));
    assert!(matches!(embedder.text("no tokenizer", TooLong::Cut), Err(Error::NoTokenizer { .. })));
    assert!(read(&mut embedder, &[]).is_empty());
    let widths = read(&mut embedder, &[text(vec![7]), text(vec![1; context])]);
    assert!(widths.iter().all(|v| v.len() == embedder.width() && v.iter().all(|v| v.is_finite())));
    let many: Vec<Text> = (0..10_000).map(|i| text(vec![i % 512; 1 + i as usize % 5])).collect();
    let vectors = read(&mut embedder, &many);
    assert_eq!(vectors[3], vectors[3 + 512 * 5], "the same text twice");
    assert_eq!(vectors.iter().filter(|v| v.len() == embedder.width()).count(), 10_000);
}

#[test]
fn an_encoder_generates_nothing() {
    let (dir, _) = &encoders()[0];
    let error = akunu::Engine::load(dir, LoadOptions::default()).err().unwrap().to_string();
    assert!(error.contains("encoder") && error.contains("akunu embed"), "{error}");
}

#[test]
fn pooling_is_read_from_the_files_beside_a_model() {
    let dir = TempDir::new();
    let source = fixtures::path("hf/bert");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(source.join(name), dir.join(name)).unwrap();
    }
    fs::create_dir(dir.join("1_Pooling")).unwrap();
    let modules = |kinds: &[&str]| {
        let entry = |kind: &&str| format!(r#"{{"path": "1_Pooling", "type": "sentence_transformers.models.{kind}"}}"#);
        format!("[{}]", kinds.iter().map(entry).collect::<Vec<_>>().join(","))
    };
    let pooling = || Model::read(&ModelFile::open(dir.path()).unwrap()).map(|m| m.config.pooling);
    assert_eq!(pooling().unwrap(), None);
    dir.write("modules.json", modules(&["Transformer", "Pooling", "Normalize"]).as_bytes());
    for (config, want) in [
        (r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#, Some(Pooling::First)),
        (r#"{"pooling_mode_mean_tokens": true}"#, Some(Pooling::Mean)),
        (r#"{"pooling_mode_lasttoken": true}"#, Some(Pooling::Last)),
        (r#"{"pooling_mode_max_tokens": true}"#, None),
        (r#"{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": true}"#, None),
        ("{}", None),
        ("not JSON", None),
    ] {
        dir.write("1_Pooling/config.json", config.as_bytes());
        assert_eq!(pooling().ok().flatten(), want, "{config}");
        assert_eq!(pooling().is_ok(), want.is_some(), "{config}");
    }
    dir.write("modules.json", modules(&["Transformer", "Dropout"]).as_bytes());
    assert!(pooling().unwrap_err().to_string().contains("Dropout"));
    dir.write("modules.json", br#"[{"path": "../..", "type": "Pooling"}]"#);
    assert!(pooling().is_err());
}

#[test]
fn an_encoder_converted_to_gguf_is_the_model_it_was() {
    let out = TempDir::new();
    for (source, golden) in encoders() {
        // GGUF says which layers slide only for the usual pattern.
        let dir = out.join(&name(&source));
        fs::create_dir(&dir).unwrap();
        fs::copy(source.join("model.safetensors"), dir.join("model.safetensors")).unwrap();
        let config = fs::read_to_string(source.join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        if config["layer_types"].is_array() && source.starts_with(fixtures::path("hf")) {
            let (full, sliding) = ("full_attention", "sliding_attention");
            config["layer_types"] = [full, sliding, sliding, full].as_slice().into();
        }
        fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let path = out.join(&format!("{}.gguf", name(&dir)));
        let options = akunu_convert::Options::default();
        akunu_convert::convert(&dir, &path, "f32", options, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"));
        let options = LoadOptions { round_constants: false, ..exact() };
        let before = read(&mut load(&dir, options.clone(), Reading::Hidden), &texts(&golden));
        let after = read(&mut load(&path, options, Reading::Hidden), &texts(&golden));
        for (a, b) in after.iter().zip(&before) {
            assert!(relative_error(a, b) < 1e-5, "{}", name(&dir));
        }
    }
}

#[test]
fn normalized_vectors_have_length_one() {
    let mut vector = [3.0, 0.0, -4.0];
    normalize(&mut vector);
    assert_eq!(vector, [0.6, 0.0, -0.8]);
    let mut zeros = [0.0; 3];
    normalize(&mut zeros);
    assert_eq!(zeros, [0.0; 3]);
}
