//! `inspect`, `bench`, `logits`, `perplexity`, `devices`, `synth`: what they print and write.

use akunu_testkit::{Golden, TempDir, cosine, fixtures, golden};
use serde_json::Value;

use crate::support::{run, words};

#[test]
fn inspect_shows_the_model_and_its_number_formats() {
    let text = words("inspect embedded").ok();
    for part in ["llama", "4.59 M", "6", "512 positions", "Q4_0", "Q6_K"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json = words("inspect embedded --json --tensors").json();
    assert_eq!(json["architecture"], "llama");
    assert_eq!(json["config"]["layers"], 6);
    assert_eq!(json["formats"]["Q4_0"]["tensors"], 42);
    assert_eq!(json["tensors"].as_array().unwrap().len(), 56);
}

#[test]
fn inspect_reads_every_kind_of_model() {
    for model in ["gguf/llama-256-Q4_K_M.gguf", "hf/qwen3", "mlx/llama-256-4bit-g32", "hf/gemma3"] {
        let path = fixtures::path(model);
        let text = run(["inspect", &path.to_string_lossy(), "--tensors", "--metadata"]);
        assert!(text.ok().contains("architecture"), "{model}");
    }
}

#[test]
fn the_program_is_a_table_of_dispatches() {
    let text = words("inspect embedded --program").ok();
    for part in
        ["op", "kernel", "shape", "dtype", "bytes", "flops", "matmul", "attention", "embed", "Q4_0", "dispatches"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json = words("inspect embedded --program --json").json();
    let program = json["program"].as_array().unwrap();
    let of = |op: &str| program.iter().filter(|e| e["op"] == op).count();
    assert_eq!((of("attention"), of("embed"), of("advance")), (6, 1, 1));
    assert!(program.iter().all(|e| e["kernel"].is_string() && e["bytes"].is_u64() && e["flops"].is_u64()));
    // The weights are read once a step, the embedding table as the output matrix.
    let bytes: u64 = program.iter().filter_map(|e| e["bytes"].as_u64()).sum();
    assert!((2_850_000..3_300_000).contains(&bytes), "{bytes}");
}

#[test]
fn bench_gives_one_object_with_every_repetition() {
    let json = words("bench embedded --prompt 32 --gen 16 --depth 64 --threads 1 --repeat 3 --json --ops").json();
    for part in ["prefill", "decode"] {
        let rates: Vec<f64> = json[part]["repetitions"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(rates.len(), 3);
        assert!(rates.iter().all(|r| *r > 0.0));
        let mut sorted = rates.clone();
        sorted.sort_by(f64::total_cmp);
        assert_eq!(json[part]["tokens_per_s"].as_f64(), Some(sorted[1]));
    }
    assert_eq!((&json["threads"], &json["depth"]), (&1.into(), &64.into()));
    assert!(json["model"].as_str().unwrap().contains("stories-llama"));
    assert!(json["backend"].as_str().unwrap().starts_with("cpu"));
    assert!(json["peak_memory"].is_u64() || !cfg!(target_os = "linux"));
    let ops = json["ops"].as_array().unwrap();
    assert!(!ops.is_empty() && ops.iter().all(|op| op["seconds"].is_f64()));
}

#[test]
fn bench_measures_only_what_is_asked_for() {
    let json = words("bench --prompt 0 --gen 4 --repeat 1 --json").json();
    assert!(json["prefill"].is_null() && json["decode"]["tokens_per_s"].is_f64());
    let text = words("bench --prompt 8 --gen 4 --repeat 1").ok();
    assert!(text.contains("prefill") && text.contains("decode") && text.contains("tokens/s"), "{text}");
}

fn logits(model: &str, ids: &[i32], flags: &str) -> Golden {
    let folder = TempDir::new();
    let output = folder.join("out.safetensors");
    let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
    let (ids, output_text) = (ids.join(","), output.to_string_lossy());
    let mut arguments = vec!["logits", model, "--ids", &ids, "-o", &output_text];
    arguments.extend(flags.split_whitespace());
    assert_eq!(run(arguments).ok(), "");
    golden::load(&output)
}

#[test]
fn logits_agree_with_the_oracle() {
    let golden = golden::load(&fixtures::path("gguf/stories-llama-Q4_0.golden.safetensors"));
    let ids = golden.i32("input_ids.0");
    let expected = golden.f32("logits.0");
    let model = fixtures::path("gguf/stories-llama-Q4_0.gguf");
    let vocab = 4096;
    let file = logits(&model.to_string_lossy(), &ids, "--activations f32 --kv f32 --greedy 8");
    assert_eq!(file.shape("logits"), [ids.len(), vocab]);
    let found = file.f32("logits");
    for position in 0..ids.len() {
        let (a, b) = (&found[position * vocab..][..vocab], &expected[position * vocab..][..vocab]);
        assert!(cosine(a, b) > 0.99999, "position {position}");
    }
    let greedy = file.i32("greedy");
    let last = &expected[(ids.len() - 1) * vocab..];
    let likeliest = (0..vocab).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
    assert_eq!((greedy.len(), greedy[0]), (8, likeliest as i32));
}

#[test]
fn constants_are_those_of_the_checkpoint_for_directories_and_exact_for_gguf() {
    let model = fixtures::path("hf/gemma3");
    let model = model.to_string_lossy();
    let ids: Vec<i32> = (1..20).collect();
    let f32s = |flags: &str| logits(&model, &ids, flags).f32("logits");
    let exact = "--activations f32 --kv f32 --constants f32";
    let checkpoint = "--activations f32 --kv f32 --constants checkpoint";
    assert_eq!(f32s("--activations f32 --kv f32"), f32s(checkpoint));
    let gguf = |flags: &str| logits("embedded", &ids, flags).f32("logits");
    assert_eq!(gguf("--activations f32 --kv f32"), gguf(exact));
}

#[test]
fn ids_may_come_from_a_file() {
    let folder = TempDir::new();
    let ids = folder.write("ids.txt", b"1, 2, 3\n");
    let output = folder.join("out.safetensors");
    let at = format!("@{}", ids.display());
    run(["logits", "--ids", &at, "-o", &output.to_string_lossy()]).ok();
    assert_eq!(golden::load(&output).shape("logits"), [3, 4096]);
}

#[test]
fn perplexity_is_that_of_a_model_that_knows_stories() {
    let folder = TempDir::new();
    let story = words("run --max-tokens 200 --temperature 1 --seed 5").ok();
    let path = folder.write("story.txt", story.as_bytes());
    let path = path.to_string_lossy();
    let json = run(["perplexity", "embedded", &path, "--context", "64", "--json"]).json();
    let perplexity = json["perplexity"].as_f64().unwrap();
    assert!((1.0..60.0).contains(&perplexity), "{perplexity}");
    let text = run(["perplexity", "embedded", &path, "--context", "64", "--windows", "1"]).ok();
    assert!(text.contains("in 1 windows of 64"), "{text}");
    let sentence = run(["perplexity", "embedded", &path, "--context", "9999"]).refused(1);
    assert!(sentence.contains("fewer than a window"), "{sentence}");
}

#[test]
fn devices_names_the_processor_and_its_level() {
    let json = words("devices --json").json();
    assert_eq!(json["devices"][0]["backend"], "cpu");
    assert!(words("devices").ok().contains(json["devices"][0]["level"].as_str().unwrap()));
}

#[test]
fn a_synthesized_model_is_a_model() {
    let folder = TempDir::new();
    let path = folder.join("model.gguf");
    let path = path.to_string_lossy();
    assert!(words("synth --list").ok().contains("qwen3-0.6b"));
    run(["synth", "gemma3-270m", "--type", "q4_0", "-o", &path]).ok();
    let json = run(["inspect", &path, "--json"]).json();
    assert_eq!(json["architecture"], "gemma3");
    let sentence = run(["synth", "gemma3-270m", "-o", &path]).refused(1);
    assert!(sentence.contains("already exists") && sentence.contains("--force"), "{sentence}");
}

#[test]
fn a_converted_model_tells_stories_and_replaces_nothing_unasked() {
    let folder = TempDir::new();
    let path = folder.join("model.gguf");
    let path = path.to_string_lossy();
    let source = fixtures::path("gguf/stories-llama-Q4_0.gguf");
    let source = source.to_string_lossy();
    let ran = run(["convert", &source, &path, "--type", "q8_0"]);
    assert!(ran.stderr.contains("56 tensors"), "{}", ran.stderr);
    assert_eq!(ran.ok(), "");
    let json = run(["inspect", &path, "--json"]).json();
    assert!(json["formats"]["Q8_0"]["tensors"].as_u64() > Some(40), "{json}");
    // The weights are the quantized ones, held in more bits.
    assert!(run(["run", &path, "Once upon a time", "-n", "8"]).ok().starts_with(", there was a little"));
    for (arguments, contains) in [
        (["convert", &source, &path, "--type", "q8_0"], "--force"),
        (["convert", &source, &source, "--type", "q8_0"], "itself"),
        (["convert", &source, &path, "--type", "q99"], "q99"),
        (["convert", "embedded", &path, "--type", "q8_0"], "embedded"),
        (["convert", "/no/such/model", &path, "--type", "q8_0"], "/no/such/model"),
    ] {
        let sentence = run(arguments).refused(1);
        assert!(sentence.contains(contains), "{sentence}");
    }
    run(["convert", &source, &path, "--type", "q4_k_m", "--force"]).ok();
}

#[test]
fn streams_run_together_and_a_long_prompt_comes_between() {
    let json = words("bench embedded --streams 4 --prompt 100 --gen 12 --json").json();
    assert_eq!(json["streams"], 4);
    assert!(json["tokens_per_s"].as_f64().unwrap() > 0.0);
    assert!(json["while_reading"]["gaps"].as_u64().unwrap() >= 4);
    assert!(words("bench --streams 64").refused(2).contains("at most 63"));
    let json = words("bench embedded --streams 3 --gen 4 --repeat 1 --ops --json").json();
    let attention = json["ops"].as_array().unwrap().iter().find(|op| op["op"] == "attention").unwrap();
    assert_eq!(attention["shape"], "[3, 8, 32]");
    assert!(attention["seconds"].as_f64().unwrap() > 0.0);
    let json = words("bench embedded --streams 3 --gen 4 --repeat 1 --ops prefill --json").json();
    let attention = json["ops"].as_array().unwrap().iter().find(|op| op["op"] == "attention").unwrap();
    assert_eq!(attention["shape"], "[48, 8, 32]", "three prompts of 16 tokens");
}

#[test]
fn fit_lists_contexts_and_what_does_not_fit_is_refused_with_numbers() {
    let json = words("inspect embedded --fit --json").json();
    let rows = json["fit"].as_array().unwrap();
    assert_eq!(rows.iter().filter(|r| r["kv"] == rows[0]["kv"]).count(), 1, "one context: the model's own");
    for row in rows {
        let sum: u64 = ["weights", "kv_cache", "scratch"].iter().filter_map(|k| row[k].as_u64()).sum();
        assert_eq!(row["total"].as_u64(), Some(sum));
        assert!(row["weights"].as_u64().unwrap() > 2_500_000);
    }
    assert!(rows[0]["kv_cache"].as_u64() > rows[1]["kv_cache"].as_u64(), "q8_0 is smaller");
    assert!(words("inspect embedded --fit").ok().contains("are free"));
    let refused = words("run --memory 12M --context 100000").refused(1);
    assert!(refused.contains("weights") && refused.contains("--context"), "{refused}");
    assert!(words("run --memory 1M").refused(1).contains("smaller model"));
}
