//! `--device`: what is there runs every command that loads a model, what is not is one sentence.

use akunu_testkit::TempDir;
use serde_json::Value;

use crate::support::{akunu, piped, run, words};

#[test]
fn what_is_not_there_is_one_sentence() {
    for (device, what) in [("cuda", "cuda:0"), ("cuda:7", "cuda:7"), ("metal", "metal")] {
        for command in ["run embedded Tom", "embed embedded Tom", "bench"] {
            let sentence = words(&format!("{command} --device {device}")).refused(1);
            assert!(sentence.contains(&format!("device {what}: ")), "{command}: {sentence}");
        }
    }
    let sentence = words("run embedded Tom --device gpu").refused(2);
    assert!(sentence.contains("auto, cpu, cuda"), "{sentence}");
}

/// Looking at a program needs no device, where its kernels are known.
#[test]
fn programs_are_shown_for_chips_that_are_not_there() {
    let json = words("inspect embedded --program --device metal --chip M1 --json").json();
    assert_eq!((json["backend"].as_str(), json["device"].as_str()), (Some("metal/apple7"), Some("M1")));
    let estimates = json["estimates"].as_array().unwrap();
    let seconds = |chip: &str| estimates.iter().find(|e| e["chip"] == chip).unwrap()["seconds"].as_f64().unwrap();
    assert!(seconds("M4 Pro") > 0.0 && seconds("M4 Pro") < seconds("M1"));
    let text = words("inspect embedded --program --device metal").ok();
    assert!(text.contains(" a layer)") && text.contains("Estimates, not measurements"), "{text}");

    let sentence = words("inspect embedded --program --device metal --chip M0").refused(1);
    assert!(sentence.contains("M0") && sentence.contains("M4 Pro"), "{sentence}");
    let sentence = words("inspect embedded --program --device reference --chip M1").refused(1);
    assert!(sentence.contains("reference"), "{sentence}");
    words("inspect embedded --program --device cuda").refused(1);
}

#[test]
fn devices_says_what_is_there_and_why_the_rest_is_not() {
    let json = words("devices --json").json();
    let of = |name: &str| json["devices"].as_array().unwrap().iter().find(|d| d["backend"] == name).unwrap().clone();
    assert!(of("cpu")["threads"].as_u64().unwrap() > 0);
    assert_eq!(of("reference")["unavailable"], Value::Null);
    assert!(of("cuda:0")["unavailable"].as_str().unwrap().contains("CUDA"));
    assert!(of("metal")["unavailable"].as_str().unwrap().contains("Metal"));
    let text = words("devices").ok();
    assert!(text.contains("metal") && text.contains("not there: "), "{text}");
}

#[test]
fn the_environment_chooses_where_no_flag_does() {
    let backend = |flags: &[&str]| {
        let arguments = ["bench", "-p", "8", "-g", "2", "--repeat", "1", "--json"];
        let output = akunu().args(arguments).args(flags).env("AKUNU_DEVICE", "reference").output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json["backend"].as_str().unwrap().to_owned()
    };
    assert_eq!(backend(&[]), "reference/f32");
    assert!(backend(&["--device", "cpu"]).starts_with("cpu/"));
}

/// Commands that print the same on the reference executor and on the CPU, in f32.
#[test]
fn every_surface_runs_on_the_reference_executor() {
    let same = |command: &str| {
        let on = |device: &str| words(&format!("{command} --activations f32 --device {device}")).ok();
        let (reference, cpu) = (on("reference"), on("cpu"));
        assert_eq!(reference, cpu, "{command}");
        assert!(!cpu.is_empty());
    };
    same("run embedded Once --temperature 0 -n 12 --kv f32");
    same("run embedded Once --temperature 0.8 --seed 3 -n 12 --kv f32");
    same("run embedded Once --regex [a-z]+ --temperature 0 -n 8 --kv f32");

    let folder = TempDir::new();
    let template = folder.write("t.jinja", b"{% for m in messages %}{{ m.content }}{% endfor %}");
    let (template, history) = (template.display().to_string(), folder.join("history").display().to_string());
    let chat = |device: &str| {
        let mut flags = vec!["chat", "--template", &template, "--history", &history, "--temperature", "0", "-n", "12"];
        flags.extend(["--activations", "f32", "--kv", "f32", "--device", device]);
        piped(&flags, b"Once upon a time\n She said\n").ok()
    };
    assert_eq!(chat("reference"), chat("cpu"));

    let vector = |device: &str| -> Vec<f32> {
        let line = run(["embed", "embedded", "A cat", "--activations", "f32", "--device", device]).ok();
        let json: Value = serde_json::from_str(&line).unwrap();
        json["embedding"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
    };
    assert!(akunu_testkit::cosine(&vector("reference"), &vector("cpu")) > 0.999_999);

    let program = run(["inspect", "embedded", "--program", "--device", "reference", "--json"]).json();
    assert_eq!(program["backend"], "reference/f32");
}
