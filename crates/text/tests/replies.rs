//! Replies: which form a template shows, that the reader gives back what the template renders, and that what a mask allows
//! is a valid call.

use akunu_formats::ModelFile;
use akunu_testkit::fixtures;
use akunu_text::{
    ChatTemplate, Encode, Grammar, Grammars, ReplyFormat, ReplyPart, Tokenizer, Tool, ToolChoice, ToolInput,
};
use serde_json::{Value, json};

/// The template, its form, what stands before its thoughts, and how many calls it renders in a message.
#[rustfmt::skip]
const TEMPLATES: &[(&str, &str, Option<&str>, usize)] = &[
];

fn tokenizer() -> Tokenizer {
    let file = ModelFile::open(&fixtures::path("gguf/stories-llama-Q4_0.gguf")).unwrap();
    Tokenizer::from_model_file(&file).unwrap()
}

/// The public templates, where they are.
fn templates() -> Vec<(String, ChatTemplate)> {
    let Some(folder) = fixtures::shared("chat_templates") else { return Vec::new() };
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "jinja"));
    paths.sort();
    let template = |path: &std::path::Path| ChatTemplate::new(&std::fs::read_to_string(path).unwrap()).unwrap();
    paths.iter().map(|p| (p.file_stem().unwrap().to_string_lossy().into_owned(), template(p))).collect()
}

fn weather() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": { "type": "string", "description": "Where." },
            "days": { "type": "integer", "description": "How many." },
            "metric": { "type": "boolean", "description": "Units." },
            "hours": { "type": "array", "items": { "type": "integer" }, "description": "When." },
        },
        "required": ["city", "days"],
    });
    Tool { name: "get_weather".into(), parameters: ToolInput::Schema(schema), strict: true }
}

fn search() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { "query": { "type": "string", "description": "What." } },
        "required": ["query"],
    });
    Tool { name: "web-search".into(), parameters: ToolInput::Schema(schema), strict: true }
}

/// A tool as templates take it.
fn described(tool: &Tool) -> Value {
    let ToolInput::Schema(schema) = &tool.parameters else { panic!("a schema") };
    json!({ "type": "function", "function": { "name": tool.name, "description": "A tool.", "parameters": schema } })
}

/// What a reply says, with its deltas put together.
#[derive(Debug, Default, PartialEq)]
struct Read {
    text: String,
    thought: String,
    calls: Vec<(String, String)>,
}

impl Read {
    fn take(&mut self, parts: Vec<ReplyPart>) {
        for part in parts {
            match part {
                ReplyPart::Text(text) => self.text += &text,
                ReplyPart::Thought(text) => self.thought += &text,
                ReplyPart::Call { index, name } => {
                    assert_eq!(index, self.calls.len());
                    self.calls.push((name, String::new()));
                }
                ReplyPart::Arguments { index, text } => self.calls[index].1 += &text,
            }
        }
    }
}

/// Reads a text in pieces of so many characters. Special tokens are what the vocabulary says.
fn read(format: &ReplyFormat, prompt: &str, tools: &[Tool], reply: &str, size: usize) -> Read {
    let mut reader = format.reader(prompt, tools);
    let mut read = Read::default();
    let chars: Vec<char> = reply.chars().collect();
    for piece in chars.chunks(size) {
        read.take(reader.push_text(&piece.iter().collect::<String>()));
    }
    read.take(reader.end());
    read
}

#[test]
fn what_a_template_renders_is_read_back() {
    let tokenizer = tokenizer();
    let tools = [weather(), search()];
    let arguments = [
        json!({ "city": "S\"ão\" <b> \n Paulo}", "days": 3, "metric": true, "hours": [1, 2] }),
        json!({ "query": "12" }),
    ];
    let mut failures = Vec::new();
    let mut seen = Vec::new();
    for (name, template) in templates() {
        let format = ReplyFormat::of(&template, &tokenizer);
        let question = json!({ "role": "user", "content": "The question." });
        let described: Vec<Value> = tools.iter().map(described).collect();
        let render = |messages: Value, prompt: bool| {
            let input = json!({ "messages": messages, "tools": described, "add_generation_prompt": prompt });
            template.render(&input, "<s>", "</s>").unwrap_or_default()
        };
        let prompt = render(json!([question]), true);
        let mut rendered = 0;
        for count in [1, 2] {
            let call = |n: usize| {
                let function = json!({ "name": tools[n].name, "arguments": arguments[n].to_string() });
                json!({ "id": format!("abcdefgh{n}"), "type": "function", "function": function })
            };
            let calls: Vec<Value> = (0..count).map(call).collect();
            let mut messages =
                vec![question.clone(), json!({ "role": "assistant", "content": null, "tool_calls": calls })];
            format.normalize(&mut messages);
            let all = render(messages.into(), false);
            if !all.contains("Paulo") || count == 2 && !format.has_parallel_calls() {
                continue;
            }
            // What the model writes is what comes after the prompt.
            let common = all.char_indices().zip(prompt.chars()).find(|((_, a), b)| a != b);
            let at = common.map_or(prompt.len().min(all.len()), |((at, _), _)| at);
            // Not inside a tag, where the prompt has opened a thinking block and the history has none.
            let open = all[..at].rfind('<').filter(|open| !all[*open..at].contains('>'));
            let at = open.unwrap_or(at);
            for size in [1, 3, 1000] {
                let read = read(&format, &all[..at], &tools, &all[at..], size);
                let got: Vec<(String, Value)> = read
                    .calls
                    .iter()
                    .map(|(name, text)| {
                        (name.clone(), serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()))
                    })
                    .collect();
                let expected: Vec<(String, Value)> =
                    (0..count).map(|n| (tools[n].name.clone(), arguments[n].clone())).collect();
                if got != expected {
                    failures.push(format!(
                        "{name} ({}), pieces of {size}: {read:?}\n  of {:?}",
                        format.name(),
                        &all[at..]
                    ));
                    break;
                }
                rendered = count;
            }
        }
        let open = format.thinking().map(|tags| tags.open.clone());
        seen.push((name, format.name(), open, rendered));
    }
    for (name, format, open, rendered) in &seen {
        println!("    ({name:?}, {format:?}, {open:?}, {rendered}),");
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    for (name, format, open, rendered) in seen {
        let expected = TEMPLATES.iter().find(|row| row.0 == name);
        assert_eq!(expected, Some(&(&*name, format, open.as_deref(), rendered)));
    }
}
