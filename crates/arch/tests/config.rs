//! The numbers of a model, as GGUF metadata and config.json say them, and what counts where they do not.

mod support;

use akunu_arch::{Model, ModelConfig, Role, RopeStyle};
use akunu_formats::ModelFile;
use akunu_formats::gguf::Array;
use akunu_testkit::{TempDir, fixtures};
use serde_json::json;
use support::*;

fn config(model: Result<Model, akunu_arch::Error>) -> ModelConfig {
    model.unwrap_or_else(|e| panic!("{e}")).config
}

#[test]
fn both_kinds_of_file_say_the_same() {
    let (ours, theirs) = (config(gguf().read()), config(hf().read()));
    assert_eq!(ours, theirs);
    let c = ours;
    assert_eq!((c.vocab, c.dim, c.ffn, c.layers.len()), (VOCAB, DIM, FFN, LAYERS));
    assert_eq!((c.heads, c.kv_heads, c.head_dim, c.rotated), (HEADS, KV_HEADS, HEAD_DIM, HEAD_DIM));
    assert_eq!((c.context, c.eps), (64, 0.5));
    assert_eq!((c.embedding_scale, c.residual_scale, c.logit_scale), (1.0, 1.0, 1.0));
    assert_eq!(c.attention_scale, 0.5);
    assert_eq!((c.attention_cap, c.final_cap), (0.0, 0.0));
    assert!(c.layers.iter().all(|l| l.window.is_none() && l.rope == Some(0)), "{:?}", c.layers);
    // A base of 100 over heads of four values: two pairs, the first of which turns by a radian.
    assert_eq!((c.ropes.len(), c.ropes[0].magnitude), (1, 1.0));
    near(&c.ropes[0].frequencies, &[1.0, 0.1]);
}

#[test]
fn only_gguf_has_pairs_that_stand_together() {
    assert_eq!(gguf().read().unwrap().rope_style, RopeStyle::Interleaved);
    assert_eq!(hf().read().unwrap().rope_style, RopeStyle::SplitHalf);
}

#[test]
fn what_a_file_leaves_out_follows_from_the_rest() {
    // Without a count of KV heads there are as many as heads, and heads share the width.
    let mut all = hf().without("num_key_value_heads").without("head_dim");
    for (name, shape) in &mut all.tensors {
        if name.contains("k_proj") || name.contains("v_proj") {
            shape[0] = HEADS * HEAD_DIM;
        }
    }
    let all = config(all.read());
    assert_eq!((all.kv_heads, all.head_dim), (HEADS, DIM / HEADS));
    // The table of embeddings knows better how many tokens there are.
    assert_eq!(config(hf().without("vocab_size").read()).vocab, VOCAB);
    assert_eq!(config(hf().set("vocab_size", json!(3)).read()).vocab, VOCAB);
    assert_eq!(config(gguf().without("llama.vocab_size").read()).vocab, VOCAB);
    // Null is the same as nothing.
    assert_eq!(
        config(hf().set("sliding_window", json!(null)).set("head_dim", json!(null)).read()),
        config(hf().read())
    );
}

#[test]
fn gguf_may_say_a_number_for_every_layer_where_all_are_the_same() {
    let listed = |values: [u32; 2]| gguf().set("llama.attention.head_count_kv", Array::from_u32s(values)).read();
    assert_eq!(config(listed([2, 2])), config(gguf().read()));
    let message = refused(listed([2, 4]));
    assert!(message.contains("differ between layers") && message.contains("head_count_kv"), "{message}");
}

#[test]
fn layers_slide_as_the_file_lists_them_or_else_as_the_family_does() {
    let windows = |model: Hf| -> Vec<Option<usize>> { config(model.read()).layers.iter().map(|l| l.window).collect() };
    let sliding = || hf().set("sliding_window", json!(4));
    assert_eq!(windows(sliding()), [Some(4), Some(4)]);
    assert_eq!(windows(sliding().set("layer_types", json!(["full_attention", "sliding_attention"]))), [None, Some(4)]);
    assert_eq!(windows(sliding().set("use_sliding_window", json!(false))), [None, None]);
    assert_eq!(windows(sliding().set("sliding_window_pattern", json!(2))), [Some(4), None]);
    assert_eq!(windows(sliding().set("global_attn_every_n_layers", json!(2))), [None, Some(4)]);
    assert_eq!(windows(hf().set("layer_types", json!(["sliding_attention", "sliding_attention"]))), [None, None]);
    let said = config(gguf().set("llama.attention.sliding_window", 4u32).read());
    assert!(said.layers.iter().all(|l| l.window == Some(4)), "{:?}", said.layers);
}

#[test]
fn layers_without_rope_are_those_that_the_file_lists() {
    let c = config(hf().set("no_rope_layers", json!([1, 0])).read());
    assert_eq!(c.layers.iter().map(|l| l.rope).collect::<Vec<_>>(), [Some(0), None]);
    let none = config(hf().set("no_rope_layers", json!([0, 0])).read());
    assert!(none.ropes.is_empty(), "{:?}", none.ropes);
}

/// Heads of eight values, so that there are four frequencies.
fn wide(mut model: Hf) -> Hf {
    for (name, shape) in &mut model.tensors {
        match name.as_str() {
            name if name.contains("q_proj") => shape[0] = HEADS * 8,
            name if name.contains("k_proj") || name.contains("v_proj") => shape[0] = KV_HEADS * 8,
            name if name.contains("o_proj") => shape[1] = HEADS * 8,
            _ => {}
        }
    }
    model.set("head_dim", json!(8)).set("rope_theta", json!(10_000.0))
}

fn near(got: &[f32], want: &[f64]) {
    let close = |(g, w): (&f32, &f64)| (f64::from(*g) - w).abs() <= 1e-6 * w.abs();
    assert!(got.len() == want.len() && got.iter().zip(want).all(close), "{got:?}, want {want:?}");
}

#[test]
fn frequencies_fall_from_one_and_are_stretched_as_the_file_says() {
    let rope = |model: Hf| config(model.read()).ropes[0].clone();
    let plain = [1.0, 0.1, 0.01, 0.001];
    near(&rope(wide(hf())).frequencies, &plain);
    let linear = json!({"rope_type": "linear", "factor": 4.0});
    near(&rope(wide(hf()).set("rope_scaling", linear)).frequencies, &plain.map(|f| f / 4.0));
    // Waves that turn more than four times within 1000 positions stay, those that do not turn once are stretched. The third
    // turns 1.5915 times: a part of (1.5915 - 1) / 3 of it stays.
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1000});
    let kept = (1000.0 * 0.01 / (2.0 * std::f64::consts::PI) - 1.0) / 3.0;
    let blended = 0.01 * kept + 0.01 / 8.0 * (1.0 - kept);
    near(&rope(wide(hf()).set("rope_scaling", llama3)).frequencies, &[1.0, 0.1, blended, 0.001 / 8.0]);
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16});
    let yarn = rope(wide(hf()).set("rope_scaling", yarn));
    near(&[yarn.magnitude], &[0.1 * 4f64.ln() + 1.0]);
    near(&yarn.frequencies, &[1.0, 0.1 / 4.0, 0.01 / 4.0, 0.001 / 4.0]);
}

#[test]
fn long_contexts_have_divisors_of_their_own() {
    let scaling =
        json!({"type": "longrope", "short_factor": [1.0, 1.0, 2.0, 2.0], "long_factor": [1.0, 2.0, 4.0, 8.0]});
    let model = wide(hf()).set("rope_scaling", scaling).set("original_max_position_embeddings", json!(16)).read();
    let mut model = model.unwrap();
    let magnitude = (1.0 + 4f64.ln() / 16f64.ln()).sqrt();
    model.for_context(16);
    near(&model.config.ropes[0].frequencies, &[1.0, 0.1, 0.005, 0.0005]);
    model.for_context(17);
    near(&model.config.ropes[0].frequencies, &[1.0, 0.05, 0.0025, 0.000_125]);
    near(&[model.config.ropes[0].magnitude], &[magnitude]);
}

#[test]
fn queries_grow_where_the_file_says_so() {
    let parameters = json!({"rope_type": "default", "rope_theta": 100.0, "llama_4_scaling_beta": 0.25,
        "original_max_position_embeddings": 16});
    let theirs = config(hf().without("rope_theta").set("rope_parameters", parameters).read()).query_growth;
    let ours = gguf().set("llama.attention.temperature_scale", 0.25f32);
    let ours = config(ours.set("llama.rope.scaling.original_context_length", 16u32).read()).query_growth;
    assert_eq!(ours, theirs);
    assert_eq!(ours.map(|g| (g.slope, g.period)), Some((0.25, 16.0)));
    let partial = hf().set("partial_rotary_factor", json!(0.5));
    let growing = json!({"rope_type": "default", "llama_4_scaling_beta": 0.25, "original_max_position_embeddings": 16});
    let message = refused(partial.set("rope_scaling", growing).read());
    assert!(message.contains("llama_4_scaling_beta") && message.contains("whole heads"), "{message}");
}

#[test]
fn the_text_of_a_model_that_also_sees_is_a_model_of_text() {
    let plain = hf();
    let mut seeing = hf();
    let mut text = seeing.config.clone();
    text.as_object_mut().unwrap().remove("architectures");
    seeing.config = json!({"architectures": ["Mistral3ForConditionalGeneration"], "text_config": text});
    for prefix in ["language_model.model.", "model.language_model."] {
        seeing.tensors = plain.tensors.clone();
        for (name, _) in &mut seeing.tensors {
            *name = name.replace("model.", prefix);
        }
        seeing.tensors.push(("model.vision_tower.patch_conv.weight".into(), vec![2, 2]));
        seeing.tensors.push(("multi_modal_projector.linear_1.weight".into(), vec![2, 2]));
        let model = seeing.read().unwrap();
        assert_eq!(model.config, config(plain.read()));
        assert_eq!(model.left_out, ["vision"]);
    }
    assert!(plain.read().unwrap().left_out.is_empty());
}

#[test]
fn a_file_may_say_that_nothing_rotates() {
    let granite = |position: &str| {
        let model = hf().set("architectures", json!(["GraniteForCausalLM"]));
        config(model.set("position_embedding_type", json!(position)).read()).ropes.len()
    };
    assert_eq!((granite("rope"), granite("nope")), (1, 0));
    let llama = config(gguf().set("llama.rope.scaling.finetuned", false).read());
    assert_eq!(llama.ropes.len(), 1, "which means something else in other families");
}

#[test]
fn configurations_that_transformers_5_writes_say_what_published_ones_do() {
    let mut seen = 0;
    for source in fixtures::models("hf").into_iter().filter(|dir| !fixtures::was_cast(dir)) {
        let dir = TempDir::new();
        std::fs::copy(source.join("model.safetensors"), dir.join("model.safetensors")).unwrap();
        let read = |name: &str| {
            std::fs::copy(source.join(name), dir.join("config.json")).unwrap();
            Model::read(&ModelFile::open(dir.path()).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}")).config
        };
        assert_eq!(read("config.transformers5.json"), read("config.json"), "{}", source.display());
        seen += 1;
    }
    println!("{seen} models");
}

#[test]
fn a_part_of_a_head_may_rotate() {
    let c = config(wide(hf()).set("partial_rotary_factor", json!(0.5)).read());
    assert_eq!(c.rotated, 4);
    near(&c.ropes[0].frequencies, &[1.0, 0.01]);
    let c = config(gguf().set("llama.rope.dimension_count", 0u32).read());
    assert_eq!((c.rotated, c.ropes[0].frequencies.len()), (0, 0));
}

#[test]
fn granite_multiplies_and_other_families_do_not() {
    let with = |architecture: &str| {
        hf().set("architectures", json!([architecture]))
            .set("embedding_multiplier", json!(12.0))
            .set("residual_multiplier", json!(0.25))
            .set("logits_scaling", json!(4.0))
            .set("attention_multiplier", json!(0.125))
    };
    let granite = config(with("GraniteForCausalLM").read());
    let scales = |c: &ModelConfig| [c.embedding_scale, c.residual_scale, c.logit_scale, c.attention_scale];
    assert_eq!(scales(&granite), [12.0, 0.25, 0.25, 0.125]);
    assert_eq!(scales(&config(with("LlamaForCausalLM").read())), [1.0, 1.0, 1.0, 0.5]);
}

#[test]
fn an_output_weight_is_there_or_it_is_tied() {
    assert!(hf().read().unwrap().weights.global(Role::Output).is_none());
    let mut own = hf();
    own.tensors.push(("lm_head.weight".into(), vec![VOCAB, DIM]));
    let own = own.read().unwrap();
    assert_eq!(own.weights.global(Role::Output).map(|w| (w.row, w.rows, w.cols)), Some((0, VOCAB, DIM)));
}
