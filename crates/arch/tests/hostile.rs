//! Files that say what cannot be: one sentence that names what is wrong, and never a panic.

mod support;

use akunu_formats::gguf::{Array, Field};
use serde_json::{Value as Json, json};
use support::*;

/// Every failing row at once.
fn check<'a>(rows: impl IntoIterator<Item = (String, &'a [&'a str], String)>) {
    let wrong: Vec<_> =
        rows.into_iter().filter(|(_, parts, message)| !parts.iter().all(|p| message.contains(p))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Rope scaling by lists of divisors.
fn long(short: Json, original: u64) -> Json {
    json!({"type": "longrope", "short_factor": short, "long_factor": [2.0, 2.0], "original_max_position_embeddings": original})
}

/// Rope parameters of queries that grow with their position.
fn growing(slope: Json, period: f64) -> Json {
    json!({"rope_type": "default", "llama_4_scaling_beta": slope, "original_max_position_embeddings": period})
}

#[test]
fn numbers_of_config_json_are_within_bounds() {
    let rows: &[(&str, Json, &[&str])] = &[
        ("hidden_size", json!(0), &["hidden_size", "0"]),
        ("hidden_size", json!(1u64 << 40), &["hidden_size", "1099511627776"]),
        ("hidden_size", json!(u64::MAX), &["hidden_size"]),
        ("hidden_size", json!(-8), &["hidden_size", "whole number"]),
        ("hidden_size", json!(8.5), &["hidden_size", "whole number"]),
        ("hidden_size", json!("8"), &["hidden_size", "whole number"]),
        ("hidden_size", json!([8]), &["hidden_size", "whole number"]),
        ("intermediate_size", json!(0), &["intermediate_size"]),
        ("num_hidden_layers", json!(0), &["num_hidden_layers"]),
        ("num_hidden_layers", json!(1 << 20), &["num_hidden_layers"]),
        ("num_attention_heads", json!(0), &["num_attention_heads"]),
        ("num_attention_heads", json!(17), &["num_attention_heads"]),
        ("num_key_value_heads", json!(0), &["num_key_value_heads"]),
        ("num_key_value_heads", json!(3), &["num_key_value_heads", "divide"]),
        ("num_key_value_heads", json!(5), &["num_key_value_heads"]),
        ("head_dim", json!(0), &["head_dim"]),
        ("head_dim", json!(1u64 << 60), &["head_dim"]),
        ("max_position_embeddings", json!(0), &["max_position_embeddings"]),
        ("max_position_embeddings", json!(1u64 << 50), &["max_position_embeddings"]),
        ("rms_norm_eps", json!("small"), &["rms_norm_eps", "number"]),
        ("rms_norm_eps", json!(-1e-5), &["rms_norm_eps"]),
        ("rms_norm_eps", json!(1e300), &["rms_norm_eps", "finite"]),
        ("partial_rotary_factor", json!(1.5), &["partial_rotary_factor"]),
        ("partial_rotary_factor", json!(-0.5), &["partial_rotary_factor"]),
        ("partial_rotary_factor", json!(0.25), &["rope.dimension_count", "even"]),
        ("rope_theta", json!(0.0), &["rope", "finite"]),
        ("rope_theta", json!(-10_000.0), &["rope", "finite"]),
        ("rope_scaling", json!({"rope_type": "linear"}), &["rope_scaling.factor"]),
        ("rope_scaling", json!({"rope_type": "linear", "factor": 0.0}), &["rope_scaling.factor"]),
        ("rope_scaling", json!({"rope_type": "spiral", "factor": 2.0}), &["not supported", "spiral"]),
        ("rope_scaling", json!({"rope_type": "longrope"}), &["short_factor"]),
        ("rope_scaling", long(json!([1.0, 1.0, 1.0]), 16), &["short_factor", "2 numbers"]),
        ("rope_scaling", long(json!([1.0, 0.0]), 16), &["short_factor", "above 0"]),
        ("rope_scaling", long(json!([1.0, "x"]), 16), &["short_factor"]),
        ("rope_scaling", long(json!([1.0, 1.0]), 0), &["rope", "finite"]),
        ("rope_scaling", long(json!([1.0, 1.0]), 1), &["rope", "finite"]),
        ("rope_scaling", growing(json!("much"), 16.0), &["llama_4_scaling_beta", "number"]),
        ("rope_scaling", growing(json!(1e300), 16.0), &["llama_4_scaling_beta", "finite"]),
        ("rope_scaling", growing(json!(0.1), 0.0), &["llama_4_scaling_beta", "period"]),
        ("use_bidirectional_attention", json!(true), &["not supported", "both sides"]),
        ("text_config", json!({}), &["hidden_size"]),
        ("layer_types", json!(["full_attention"]), &["layer_types", "2 layers"]),
        ("layer_types", json!(["full_attention", "linear_attention"]), &["layer_types", "linear_attention"]),
        ("no_rope_layers", json!([1, 1, 1]), &["no_rope_layers", "2 layers"]),
        ("query_pre_attn_scalar", json!(-4.0), &["query_pre_attn_scalar", "above 0"]),
        ("partial_rotary_factor", json!("half"), &["partial_rotary_factor", "number", "half"]),
        ("rope_theta", json!("large"), &["rope_theta", "number"]),
        ("rope_scaling", json!({"rope_type": 3}), &["rope_type", "text"]),
        ("rope_scaling", json!({"rope_type": "linear", "factor": "two"}), &["factor", "number"]),
        ("layer_types", json!("full_attention"), &["layer_types", "list"]),
        ("layer_types", json!({"0": "full_attention"}), &["layer_types", "list"]),
        ("no_rope_layers", json!([true, "yes"]), &["no_rope_layers"]),
        ("use_sliding_window", json!("no"), &["use_sliding_window", "true or false"]),
        ("sliding_window_pattern", json!("every second"), &["sliding_window_pattern", "number"]),
        ("hidden_act", json!("gelu"), &["not supported", "Gelu"]),
        ("hidden_act", json!("relu"), &["not supported", "relu"]),
        ("hidden_act", json!(3), &["hidden_act", "text"]),
        ("hidden_act", json!(vec!["silu"; 100]), &["hidden_act", "text"]),
        ("attention_bias", json!(true), &["attention_bias", "no biases"]),
        ("attention_bias", json!("yes"), &["attention_bias", "true or false"]),
        ("use_parallel_residual", json!(true), &["not supported", "parallel residual"]),
        ("num_local_experts", json!(8), &["not supported", "a mixture of 8 experts"]),
        ("architectures", json!(["Llama9ForCausalLM"]), &["not supported", "Llama9ForCausalLM", "llama"]),
        ("architectures", json!([]), &["architectures"]),
        ("architectures", json!(7), &["architectures"]),
    ];
    check(rows.iter().map(|(key, value, parts)| {
        let message = refused(hf().set(key, value.clone()).read());
        (format!("{key} = {value}"), *parts, message)
    }));
}

#[test]
fn numbers_of_gguf_are_within_bounds() {
    let rows: &[(&str, Field, &[&str])] = &[
        ("embedding_length", 0u32.into(), &["llama.embedding_length"]),
        ("embedding_length", u64::MAX.into(), &["llama.embedding_length"]),
        ("embedding_length", (-1i32).into(), &["llama.embedding_length"]),
        ("embedding_length", "8".into(), &["llama.embedding_length"]),
        ("embedding_length", Array::from_u32s([]).into(), &["llama.embedding_length"]),
        ("embedding_length", Array::from_i32s([-1, -1]).into(), &["llama.embedding_length"]),
        ("embedding_length", Array::from_strings(["8"]).into(), &["llama.embedding_length"]),
        ("block_count", 0u32.into(), &["llama.block_count"]),
        ("block_count", u32::MAX.into(), &["llama.block_count"]),
        ("attention.head_count", 17u32.into(), &["llama.attention.head_count"]),
        ("attention.head_count_kv", 3u32.into(), &["llama.attention.head_count_kv", "divide"]),
        ("attention.key_length", u32::MAX.into(), &["llama.attention.key_length"]),
        ("attention.value_length", 6u32.into(), &["attention.value_length"]),
        ("context_length", u64::MAX.into(), &["llama.context_length"]),
        ("rope.dimension_count", 1u32.into(), &["rope.dimension_count"]),
        ("rope.dimension_count", 6u32.into(), &["rope.dimension_count"]),
        ("rope.freq_base", f32::NAN.into(), &["rope", "finite"]),
        ("rope.freq_base", 0f32.into(), &["rope", "finite"]),
        ("rope.scaling.type", "spiral".into(), &["not supported", "spiral"]),
        ("rope.scaling.type", "yarn".into(), &["llama.rope.scaling.factor"]),
        ("attention.layer_norm_rms_epsilon", f32::NAN.into(), &["llama.attention.layer_norm_rms_epsilon", "finite"]),
        ("attention.layer_norm_rms_epsilon", (-1f32).into(), &["llama.attention.layer_norm_rms_epsilon"]),
        ("final_logit_softcapping", f32::INFINITY.into(), &["llama.final_logit_softcapping", "finite"]),
        ("pooling_type", 5u32.into(), &["pooling_type", "5"]),
    ];
    check(rows.iter().map(|(key, value, parts)| {
        let message = refused(gguf().set(&format!("llama.{key}"), value.clone()).read());
        (format!("{key} = {:?}", value.value()), *parts, message)
    }));
    let message = refused(gguf().set("general.architecture", "llama9").read());
    assert!(message.contains("\"llama9\"") && message.contains("known: llama, "), "{message}");
}

#[test]
fn a_multiplier_of_nothing_is_refused() {
    let message =
        refused(hf().set("architectures", json!(["GraniteForCausalLM"])).set("logits_scaling", json!(0)).read());
    assert!(message.contains("logits_scaling") && message.contains("finite"), "{message}");
}

#[test]
fn what_a_model_cannot_do_without_is_named() {
    for key in [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
        "rms_norm_eps",
        "architectures",
    ] {
        let message = refused(hf().without(key).read());
        assert!(message.contains("has no") && message.contains(key), "{key}: {message}");
    }
    for key in [
        "embedding_length",
        "feed_forward_length",
        "block_count",
        "attention.head_count",
        "context_length",
        "attention.layer_norm_rms_epsilon",
    ] {
        let key = format!("llama.{key}");
        let message = refused(gguf().without(&key).read());
        assert!(message.contains("has no") && message.contains(&key), "{key}: {message}");
    }
    let message = refused(gguf().without("general.architecture").read());
    assert!(message.contains("has no \"general.architecture\""), "{message}");
}

#[test]
fn every_tensor_is_there_in_its_shape_and_no_other_is() {
    for at in 0..gguf().tensors.len() {
        let mut model = gguf();
        let (name, _) = model.tensors.remove(at);
        let message = refused(model.read());
        assert!(message.contains(&format!("tensor {name:?} is missing")), "{message}");

        // A column more: rows of embeddings are counted, columns are not.
        let mut model = gguf();
        let (name, shape) = &mut model.tensors[at];
        *shape.last_mut().unwrap() += 1;
        let name = name.clone();
        let message = refused(model.read());
        assert!(message.contains(&format!("tensor {name:?} has shape")), "{message}");
    }
    let mut model = hf();
    model.tensors.push(("model.layers.2.mlp.up_proj.weight".into(), vec![FFN, DIM]));
    let message = refused(model.read());
    assert!(
        message.contains("model.layers.2.mlp.up_proj.weight") && message.contains("not part of the llama"),
        "{message}"
    );
    // What old exporters wrote and nobody needs is no such tensor.
    let mut model = hf();
    model.tensors.push(("model.layers.0.self_attn.rotary_emb.inv_freq".into(), vec![1]));
    assert!(model.read().is_ok());
}
