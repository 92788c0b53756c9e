//! `tokenize` and `render`: exact output for other programs.

use akunu_testkit::{TempDir, fixtures};
use serde_json::Value;

use crate::support::{piped, run, words};

#[test]
fn tokens_are_shown_for_people_and_for_programs() {
    let json = words("tokenize embedded Once --json").json();
    assert_eq!(json["ids"].as_array().unwrap().len(), json["tokens"].as_array().unwrap().len());
    assert_eq!(json["tokens"][0], "Once");
    assert!(words("tokenize embedded Once").ok().contains("\"Once\""));
    let ids = words("tokenize embedded Once --ids").ok();
    assert_eq!(ids.trim(), json["ids"][0].to_string());
}

#[test]
fn a_text_comes_from_the_command_line_a_file_or_standard_input() {
    let folder = TempDir::new();
    let text = "Once upon\na time 🦀";
    let path = folder.write("text", text.as_bytes());
    let given = run(["tokenize", "embedded", text, "--json"]).ok();
    assert_eq!(run(["tokenize", "embedded", "--file", &path.to_string_lossy(), "--json"]).ok(), given);
    assert_eq!(piped(&["tokenize", "embedded", "--json"], text.as_bytes()).ok(), given);
}

#[test]
fn a_vocabulary_without_a_model_will_do() {
    let Some(vocabularies) = fixtures::shared("tokenizers") else { return };
    let path = vocabularies.join("ggml-vocab-gpt-2.gguf");
    let json = run(["tokenize", &path.to_string_lossy(), "Hello world", "--json", "--no-special"]).json();
    assert_eq!(json["ids"], serde_json::json!([15496, 995]));
}

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}\
                        {% if add_generation_prompt %}<assistant>{% endif %}";

#[test]
fn a_prompt_is_rendered_exactly() {
    let folder = TempDir::new();
    let template = folder.write("t.jinja", TEMPLATE.as_bytes());
    let template = template.to_string_lossy();
    let conversation = br#"{"messages": [{"role": "user", "content": "Hi\n"}], "add_generation_prompt": true}"#;
    let input = folder.write("c.json", conversation);
    let arguments = ["render", &template, "--input", &input.to_string_lossy(), "--bos", "<s>", "--eos", "</s>"];
    assert_eq!(run(arguments).ok(), "<s><user>Hi\n</s><assistant>");
    assert_eq!(piped(&["render", &template, "-i", "-"], conversation).ok(), "<user>Hi\n<assistant>");
}

#[test]
fn a_template_that_refuses_says_why() {
    let folder = TempDir::new();
    let template = folder.write("t.jinja", b"{{ raise_exception('only two roles\nare known') }}");
    let template = template.to_string_lossy();
    let sentence = piped(&["render", &template, "-i", "-"], b"{}").refused(1);
    assert!(sentence.contains("only two roles are known"), "{sentence}");
    for bad in ["", "[1]", "{", "\u{1}"] {
        piped(&["render", &template, "-i", "-"], bad.as_bytes()).refused(1);
    }
}

#[test]
fn public_templates_render_as_their_oracle_does() {
    let Some(folder) = fixtures::shared("chat_templates") else { return };
    let temp = TempDir::new();
    for name in ["Qwen-Qwen2.5-7B-Instruct", "google-gemma-2-2b-it"] {
        let mut rendered = 0;
        let cases: Value =
            serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap();
        let template = folder.join(format!("{name}.jinja"));
        for (case, value) in cases.as_object().unwrap() {
            let (Some(output), input) = (value["output"].as_str(), &value["input"]) else { continue };
            let path = temp.write("case.json", input.to_string().as_bytes());
            let (template, path) = (template.to_string_lossy(), path.to_string_lossy());
            // What the oracle's tokenizer had.
            let arguments = ["render", &template, "-i", &path, "--bos", "<s>", "--eos", "</s>"];
            assert_eq!(run(arguments).ok(), output, "{name}: {case}");
            rendered += 1;
        }
        assert!(rendered > 0, "{name}: no case has an output");
    }
}
