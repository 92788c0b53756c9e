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
    Model::read(&ModelFile::open(dir.path()).unwrap()).map_err(|e| e.to_string())
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
        (json!([module("Transformer"), module("Dense")]), json!({}), "Dense"),
    ] {
        let message = with(modules, pooling).unwrap_err();
        assert!(message.contains(part) && !message.contains('\n'), "{message}");
    }
    let missing = changed("hf/bert", |_| {}, &[("modules.json", modules())]).map(|_| ()).unwrap_err();
    assert!(missing.contains("no such file"), "{missing}");
}
