//! How a text's rows become its vector: what files say, and what counts where they do not.

mod support;

use akunu_arch::{Model, Pooling};
use akunu_formats::ModelFile;
use akunu_testkit::{TempDir, fixtures};
use serde_json::{Value as Json, json};
use support::*;

#[test]
fn gguf_numbers_the_ways() {
    assert_eq!(gguf().read().unwrap().config.pooling, None);
    for (number, way) in
        [(0, None), (1, Some(Pooling::Mean)), (2, Some(Pooling::First)), (3, Some(Pooling::Last)), (4, None)]
    {
        assert_eq!(gguf().set("llama.pooling_type", number as u32).read().unwrap().config.pooling, way, "{number}");
    }
}

/// The fixture's directory with some of its files changed.
fn changed(fixture: &str, config: impl Fn(&mut Json), files: &[(&str, Json)]) -> Result<Model, String> {
    let (from, dir) = (fixtures::path(fixture), TempDir::new());
    let mut json: Json = serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    config(&mut json);
    dir.write("config.json", json.to_string().as_bytes());
    dir.write("model.safetensors", &std::fs::read(from.join("model.safetensors")).unwrap());
    std::fs::create_dir(dir.join("1_Pooling")).unwrap();
    for (name, json) in files {
        dir.write(name, json.to_string().as_bytes());
    }
    let file = ModelFile::open(dir.path()).map_err(|e| e.to_string())?;
    Model::read(&file).map_err(|e| e.to_string())
}

#[test]
fn a_classification_head_looks_where_the_file_says_or_else_the_family() {
    let pooling = |value: Json| {
        let model = changed("hf/modernbert", |c| c["classifier_pooling"] = value.clone(), &[]);
        model.map(|m| m.config.head_pooling)
    };
    assert_eq!(pooling(json!("cls")), Ok(Pooling::First));
    assert_eq!(pooling(json!("mean")), Ok(Pooling::Mean));
    assert_eq!(pooling(json!(null)), Ok(Pooling::Mean), "ModernBERT's own");
    assert_eq!(changed("hf/bert", |_| {}, &[]).unwrap().config.head_pooling, Pooling::First, "BERT's own");
    let message = pooling(json!("max")).unwrap_err();
    assert!(message.contains("classifier_pooling") && message.contains("max"), "{message}");
}

#[test]
fn modules_beside_safetensors_name_the_way() {
    let module = |kind: &str| json!({"type": format!("sentence_transformers.models.{kind}"), "path": "1_Pooling"});
    let with = |modules: Json, pooling: Json| {
        let files = [("modules.json", modules), ("1_Pooling/config.json", pooling)];
        changed("hf/bert", |_| {}, &files).map(|m| m.config.pooling)
    };
    let modules = || json!([module("Transformer"), module("Pooling"), module("Normalize")]);
    let last = json!({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false});
    assert_eq!(with(modules(), last), Ok(Some(Pooling::Last)));
    assert_eq!(with(json!([module("Transformer")]), json!({})), Ok(None));
    for (modules, pooling, part) in [
        (modules(), json!({}), "1_Pooling/config.json"),
        (modules(), json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}), "1_Pooling/config.json"),
        (modules(), json!({"pooling_mode_max_tokens": true}), "1_Pooling/config.json"),
        (json!([module("Transformer"), module("Dropout")]), json!({}), "Dropout"),
    ] {
        let message = with(modules, pooling).unwrap_err();
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
    }
    let missing = changed("hf/bert", |_| {}, &[("modules.json", modules())]).map(|_| ()).unwrap_err();
    assert!(missing.contains("no such file"), "{missing}");
}

#[test]
fn dense_layers_after_the_model_are_products_and_nothing_else() {
    let module = json!([{"type": "sentence_transformers.models.Dense", "path": "1_Pooling"}]);
    let with = |activation: &str, modules: &Json| {
        let config = json!({"activation_function": activation, "bias": false});
        changed("hf/bert", |_| {}, &[("modules.json", modules.clone()), ("1_Pooling/config.json", config)])
    };
    // There is no such file: what a dense layer is made of must be beside it.
    assert!(with("torch.nn.modules.linear.Identity", &module).err().unwrap().contains("model.safetensors"));
    let outside = json!([{"type": "Dense", "path": "../elsewhere"}]);
    assert!(with("torch.nn.modules.linear.Identity", &outside).err().unwrap().contains("plain folder name"));
}

#[test]
fn answers_are_tokens_of_the_vocabulary() {
    let modules =
        json!([{"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "path": "1_Pooling"}]);
    let with = |config: Json| {
        let files = [("modules.json", modules.clone()), ("1_Pooling/config.json", config)];
        changed("hf/qwen3", |_| {}, &files).map(|m| (m.config.classes, m.config.head_pooling))
    };
    assert_eq!(with(json!({"true_token_id": 5, "false_token_id": 7})), Ok((1, Pooling::Last)));
    assert_eq!(with(json!({"true_token_id": 5, "false_token_id": null})), Ok((1, Pooling::Last)));
    for wrong in [json!({}), json!({"true_token_id": "yes"}), json!({"true_token_id": 5, "false_token_id": "no"})] {
        assert!(with(wrong).unwrap_err().contains("true_token_id"));
    }
    let outside = with(json!({"true_token_id": 5, "false_token_id": 1_000_000})).unwrap_err();
    assert!(outside.contains("vocabulary"), "{outside}");
}
