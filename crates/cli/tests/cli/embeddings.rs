//! `embed`, `rerank` and `hidden`: what they print, write and refuse.

use akunu_testkit::{TempDir, cosine, fixtures, golden, relative_error};
use serde_json::Value;

use crate::support::{piped, run};

/// A decoder with a tokenizer, as an embedder: the embedded model embeds too.
const MODEL: &str = "embedded";

fn vectors(text: &str) -> Vec<Vec<f32>> {
    let line = |line: &str| -> Vec<f32> {
        let value: Value = serde_json::from_str(line).expect("a line is JSON");
        value["embedding"].as_array().expect("a vector").iter().map(|v| v.as_f64().expect("a number") as f32).collect()
    };
    text.lines().map(line).collect()
}

/// How many a line says a text has.
fn tokens(line: &str) -> u64 {
    let value: Value = serde_json::from_str(line).expect("a line is JSON");
    value["tokens"].as_u64().expect("a number")
}

#[test]
fn hidden_states_are_the_oracles() {
    let dir = TempDir::new();
    for name in ["bert", "modernbert"] {
        let source = fixtures::path(&format!("hf/{name}"));
        let golden = golden::load(&source.join("golden.safetensors"));
        for case in 0..3 {
            let out = dir.join("hidden.safetensors");
            let ids = golden.i32(&format!("input_ids.{case}")).iter().map(i32::to_string).collect::<Vec<_>>().join(",");
            let (source, out_name) = (source.to_string_lossy(), out.to_string_lossy());
            run(["hidden", &source, "--ids", &ids, "-o", &out_name]).ok();
            let ours = golden::load(&out);
            let want = golden.f32(&format!("hidden.{case}"));
            assert_eq!(ours.shape("hidden"), golden.shape(&format!("hidden.{case}")));
            let error = relative_error(&ours.f32("hidden"), &want);
            assert!(error < 2e-3, "{name} {case}: {error:.1e}");
            let pooled = cosine(&ours.f32("pooled"), &golden.f32(&format!("mean_normed.{case}")));
            assert!(pooled > 0.999_99, "{name} {case}: {pooled}");
        }
    }
}

#[test]
fn every_text_gives_a_vector_of_length_one_in_its_place() {
    let texts = ["Once upon a time", "b", "a", "The dog ran to the big red barn and did not look back."];
    let by_argument = vectors(&run(["embed", MODEL].into_iter().chain(texts)).ok());
    let by_line = vectors(&piped(&["embed", MODEL, "-"], texts.join("\n").as_bytes()).ok());
    assert_eq!(by_argument.len(), 4);
    assert_eq!(by_argument, by_line);
    for vector in &by_argument {
        let length: f64 = vector.iter().map(|v| f64::from(*v).powi(2)).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    let prefixed = vectors(&run(["embed", MODEL, "--prefix", "Once upon ", "a time"]).ok());
    assert_eq!(prefixed[0], by_argument[0]);
    let cut = vectors(&run(["embed", MODEL, "--dimensions", "16", texts[0]]).ok());
    assert_eq!(cut[0].len(), 16);
    assert!((cosine(&cut[0], &by_argument[0][..16]) - 1.0).abs() < 1e-6);
}

#[test]
fn formats_hold_the_same_numbers() {
    let dir = TempDir::new();
    let texts = ["one text", "and another one"];
    let json = vectors(&run(["embed", MODEL].into_iter().chain(texts)).ok());
    let csv = run(["embed", MODEL, "--format", "csv"].into_iter().chain(texts)).ok();
    let csv: Vec<Vec<f32>> = csv.lines().map(|l| l.split(',').map(|v| v.parse().unwrap()).collect()).collect();
    assert_eq!(csv, json);
    let path = dir.join("vectors.npy");
    run(["embed", MODEL, "--format", "npy", "-o", &path.to_string_lossy()].into_iter().chain(texts)).ok();
    let bytes = std::fs::read(path).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(String::from_utf8_lossy(&bytes[10..start]).contains(&format!("(2, {})", json[0].len())));
    let values: Vec<f32> = bytes[start..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(values, json.concat());
}

#[test]
fn texts_that_are_too_long_are_refused_or_cut() {
    let long = "the cat sat on the mat ".repeat(400);
    let refused = run(["embed", MODEL, "short", &long]).refused(1);
    assert!(refused.contains("text 2") && refused.contains("--truncate"), "{refused}");
    assert_eq!(vectors(&run(["embed", MODEL, "--truncate", "short", &long]).ok()).len(), 2);
    let refused = run(["embed", MODEL, "--context", "4", "a text of some more words"]).refused(1);
    assert!(refused.contains("at most 4"), "{refused}");
    // What is cut is the end, and nothing of what is before it changes.
    let words: Vec<&str> = long.split_whitespace().take(12).collect();
    let beginnings: Vec<String> = (1..=12).map(|n| words[..n].join(" ")).collect();
    let all = run(["embed", MODEL].into_iter().chain(beginnings.iter().map(String::as_str))).ok();
    let (short, _) = all.lines().zip(vectors(&all)).map(|(line, v)| (v, line)).find(|(_, l)| tokens(l) == 8).unwrap();
    let cut = run(["embed", MODEL, "--context", "8", "--truncate", &beginnings[11]]).ok();
    assert_eq!((tokens(&cut), vectors(&cut).swap_remove(0)), (8, short));
}

#[test]
fn one_token_is_enough_and_ten_thousand_texts_are_not_too_many() {
    let one = run(["embed", MODEL, "a"]).ok();
    assert_eq!(tokens(&one), 1);
    let many: String = (0..10_000).map(|i| if i % 5_000 == 4_999 { "a\n".into() } else { format!("{i}\n") }).collect();
    let many = piped(&["embed", MODEL, "--dimensions", "2", "-"], many.as_bytes()).ok();
    let many = vectors(&many);
    assert_eq!(many.len(), 10_000);
    // In both windows of them, the text stands in its place.
    let alone = vectors(&run(["embed", MODEL, "--dimensions", "2", "a"]).ok()).swap_remove(0);
    assert_eq!((&many[4_999], &many[9_999]), (&alone, &alone));
    assert_ne!(many[4_998], alone);
}

#[test]
fn what_cannot_be_done_is_said() {
    let bert = fixtures::path("hf/bert").to_string_lossy().into_owned();
    for (arguments, part) in [
        (vec!["embed", &bert, "text"], "no tokenizer"),
        (vec!["run", &bert, "text"], "encoder"),
        (vec!["rerank", &bert, "query", "document"], "classification head"),
        (vec!["embed", MODEL, "text", ""], "text 2 is empty"),
        (vec!["embed", MODEL, "--dimensions", "100000", "text"], "numbers"),
        (vec!["embed", MODEL, "--file", "/nowhere/at/all"], "cannot be opened"),
        (vec!["hidden", &bert, "--ids", "9999", "-o", "/dev/null"], "vocabulary"),
    ] {
        let said = run(&arguments).refused(1);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    assert_eq!(piped(&["embed", MODEL, "-"], b"").ok(), "");
}
