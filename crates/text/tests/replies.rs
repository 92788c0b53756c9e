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
    ("Apriel-1.6-15b-Thinker-fixed", "apriel", Some("Here are my reasoning steps:\n"), 2),
    ("ByteDance-Seed-OSS", "seed-xml", Some("<seed:think>"), 2),
    ("Cohere2MoE", "cohere", Some("<|START_THINKING|>"), 2),
    ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere", Some("<|START_THINKING|>"), 2),
    ("GLM-4.6", "glm", Some("<think>"), 2),
    ("GigaChat3-10B-A1.8B", "json", None, 0),
    ("GigaChat3.1-10B-A1.8B", "gigachat", None, 1),
    ("Kimi-K2-Instruct", "json", None, 0),
    ("Kimi-K2-Thinking", "json", Some("<think>"), 0),
    ("LFM2-8B-A1B", "json", None, 0),
    ("LFM2.5-8B-A1B", "json", Some("<think>"), 0),
    ("MiMo-VL", "hermes", None, 2),
    ("MiniMax-M1", "minimax-m1", None, 2),
    ("MiniMax-M3", "json", Some("<mm:think>"), 0),
    ("NVIDIA-Nemotron-Nano-v2", "nemotron", Some("<think>"), 2),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", None, 2),
    ("Qwen-QwQ-32B", "hermes", Some("<think>"), 2),
    ("Qwen-Qwen2.5-7B-Instruct", "hermes", None, 2),
    ("Qwen3-Coder", "qwen-xml", None, 2),
    ("Qwen3.5-4B", "qwen-xml", Some("<think>"), 2),
    ("Spark2.5", "glm", Some("<think>"), 2),
    ("StepFun3.5-Flash", "qwen-xml", Some("<think>"), 2),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-r1", Some("<think>"), 2),
    ("deepseek-ai-DeepSeek-V3.1", "deepseek", Some("<think>"), 2),
    ("deepseek-ai-DeepSeek-V4-Flash-0731", "dsml", Some("<think>"), 2),
    ("deepseek-ai-DeepSeek-V4", "dsml", Some("<think>"), 2),
    ("google-gemma-2-2b-it", "json", None, 0),
    ("google-gemma-4-31B-it-interleaved", "gemma4", Some("<|channel>thought\n"), 2),
    ("ibm-granite-granite-4.0", "hermes", None, 2),
    ("inclusionai-ling-3.0-flash", "glm", Some("<think>"), 2),
    ("llama-cpp-deepseek-r1", "deepseek-r1", Some("<think>"), 2),
    ("meetkai-functionary-medium-v3.1", "functionary", None, 2),
    ("meetkai-functionary-medium-v3.2", "json", None, 0),
    ("meta-llama-Llama-3.3-70B-Instruct", "llama3", None, 1),
    ("mistralai-Ministral-3-14B-Reasoning-2512", "mistral-args", Some("[THINK]"), 2),
    ("mistralai-Mistral-Nemo-Instruct-2407", "mistral", None, 2),
    ("poolside-Laguna-S-2.1", "glm", Some("<think>"), 2),
    ("poolside-Laguna-XS-2.1", "glm", Some("<think>"), 2),
    ("tencent-Hy3", "hunyuan", Some("<think:opensource>"), 2),
    ("unsloth-Apriel-1.5", "apriel", Some("Here are my reasoning steps:\n"), 2),
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
            let is_known = format.name() != "json";
            if !is_known || !all.contains("Paulo") || count == 2 && !format.has_parallel_calls() {
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
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    for (name, format, open, rendered) in seen {
        let expected = TEMPLATES.iter().find(|row| row.0 == name);
        assert_eq!(expected, Some(&(&*name, format, open.as_deref(), rendered)));
    }
}

/// Templates that show what families write, for machines without the public ones.
fn own_templates() -> Vec<(&'static str, ChatTemplate)> {
    let template = |open: &str, call: &str, between: &str, close: &str| {
        let source = format!(
            "{{% for m in messages %}}<|{{{{ m.role }}}}|>{{{{ m.content }}}}{{% if m.tool_calls %}}{open}{{% for c in \
             m.tool_calls %}}{{% set f = c.function %}}{call}{{% if not loop.last %}}{between}{{% endif %}}{{% endfor \
             %}}{close}{{% endif %}}<|stop|>{{% endfor %}}{{% if add_generation_prompt %}}<|assistant|>{{% endif %}}"
        );
        ChatTemplate::new(&source).unwrap()
    };
    let tagged = |open: &str, between: &str, close: &str| {
        format!(
            "{{% for key, value in f.arguments.items() %}}{open}{{{{ key }}}}{between}{{{{ value if value is string \
             else value | tojson }}}}{close}{{% endfor %}}"
        )
    };
    let json = "{{ f.arguments | tojson }}";
    let named = |key: &str| format!("{{\"name\": \"{{{{ f.name }}}}\", \"{key}\": {json}}}");
    let qwen = tagged("<parameter=", ">\n", "\n</parameter>\n");
    let glm = tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n");
    let with_id = "{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}, \"id\": \"{{ c.id }}\"}";
    vec![
        ("hermes", template("", &format!("<tool_call>\n{}\n</tool_call>", named("arguments")), "\n", "")),
        (
            "qwen-xml",
            template(
                "",
                &format!("<tool_call>\n<function={{{{ f.name }}}}>\n{qwen}</function>\n</tool_call>"),
                "\n",
                "",
            ),
        ),
        ("glm", template("", &format!("<tool_call>{{{{ f.name }}}}\n{glm}</tool_call>"), "\n", "")),
        ("mistral", template("[TOOL_CALLS][", with_id, ", ", "]")),
        ("mistral-args", template("", &format!("[TOOL_CALLS]{{{{ f.name }}}}[ARGS]{json}"), "", "")),
        ("llama3", template("", &named("parameters"), "{{ raise_exception('one call') }}", "")),
        (
            "deepseek",
            template(
                "<｜tool▁calls▁begin｜>",
                &format!("<｜tool▁call▁begin｜>{{{{ f.name }}}}<｜tool▁sep｜>{json}<｜tool▁call▁end｜>"),
                "",
                "<｜tool▁calls▁end｜>",
            ),
        ),
        (
            "gemma4",
            template(
                "",
                "<|tool_call>call:{{ f.name }}{{ '{' }}{% for key, value in f.arguments.items() %}{{ key }}:{% if value is \
                 string %}<|\"|>{{ value }}<|\"|>{% else %}{{ value | tojson }}{% endif %}{% if not loop.last %},{% endif \
                 %}{% endfor %}{{ '}' }}<tool_call|>",
                "",
                "",
            ),
        ),
        ("json", ChatTemplate::new("{% for m in messages %}{{ m.content }}{% endfor %}<think></think>").unwrap()),
        ("harmony", ChatTemplate::new("<|start|>{# <|channel|> <|message|> to=functions. #}assistant").unwrap()),
    ]
}

const SPECIAL: &[&str] = &[
    "<eos>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|start|>",
    "<|constrain|>",
    "<|call|>",
    "<|return|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
];

/// A vocabulary of bytes, and of so many special tokens.
fn bytes_and(special: &[&str]) -> Tokenizer {
    let shown = |byte: u32| match byte {
        33..=126 | 161..=172 | 174..=255 => byte,
        0..=32 => 256 + byte,
        127..=160 => 256 + 33 + byte - 127,
        _ => 256 + 67,
    };
    let vocab: serde_json::Map<String, Value> = (0..256)
        .map(|byte| (char::from_u32(shown(byte)).unwrap().to_string(), byte.into()))
        .chain(special.iter().enumerate().map(|(n, token)| (token.to_string(), (256 + n).into())))
        .collect();
    let added = |(n, token): (usize, &&str)| {
        json!({
            "id": 256 + n, "content": token, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false,
        })
    };
    let level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let file = json!({
        "model": { "type": "BPE", "vocab": vocab, "merges": [] },
        "added_tokens": special.iter().enumerate().map(added).collect::<Vec<_>>(),
        "pre_tokenizer": level, "decoder": level,
    });
    let config = json!({ "eos_token": "<eos>" });
    Tokenizer::from_tokenizer_json(file.to_string().as_bytes(), Some(config.to_string().as_bytes())).unwrap()
}

/// Chance that is the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// What random tokens that a grammar allows come to, if they come to an end.
fn walk(tokenizer: &Tokenizer, grammars: &Grammars, grammar: &Grammar, chance: &mut Chance) -> Option<Vec<u32>> {
    const HINTS: &[&str] = &[
        "\n</parameter>",
        "</arg_value>",
        "\"",
        "}",
        "]",
        "<tool_call>",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "{\"",
        "<｜tool▁calls▁begin｜>",
        "<|end|>",
        "<|channel|>",
        "<|tool_call>",
        "<|\"|>",
        "```json\n{\n  \"name\": \"get",
        "{\"name\": \"now\",",
    ];
    let hint = |text: &&str| tokenizer.encode(text, Encode { add_special: false, parse_special: true }).unwrap();
    let hints: Vec<Vec<u32>> = HINTS.iter().map(hint).collect();
    let mut matcher = grammars.compile(grammar).unwrap();
    let ends = tokenizer.end_of_generation();
    let mut tokens = Vec::new();
    while tokens.len() < 4000 {
        let allowed = matcher.allowed().unwrap().to_vec();
        let allows = |token: &u32| allowed[*token as usize / 32] >> (token % 32) & 1 == 1;
        let all: Vec<u32> = (0..tokenizer.vocab_size() as u32).filter(allows).collect();
        assert!(!all.is_empty(), "nothing is allowed after {:?}", tokenizer.decode(&tokens, false));
        if matcher.is_finished() || chance.below(4) == 0 && all.iter().any(|t| ends.contains(t)) {
            return Some(tokens);
        }
        if chance.below(8) == 0 {
            for token in &hints[chance.below(hints.len())] {
                if !matcher.allows(*token) {
                    break;
                }
                matcher.accept(*token).unwrap();
                tokens.push(*token);
            }
            continue;
        }
        let token = all[chance.below(all.len())];
        if ends.contains(&token) {
            return Some(tokens);
        }
        matcher.accept(token).unwrap();
        tokens.push(token);
    }
    None
}

/// Whether a value is as a schema says. It knows the keywords that these tests use, and no others.
fn valid(value: &Value, schema: &Value) -> bool {
    let keywords = schema.as_object().into_iter().flatten();
    keywords.into_iter().all(|(keyword, rule)| match keyword.as_str() {
        "type" => match rule.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("null") => value.is_null(),
            _ => rule.as_array().unwrap().iter().any(|one| valid(value, &json!({ "type": one }))),
        },
        "properties" => value.as_object().is_none_or(|object| {
            object.iter().all(|(key, value)| rule.get(key).is_none_or(|schema| valid(value, schema)))
        }),
        "required" => rule.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
        "additionalProperties" => {
            assert_eq!(rule, false);
            value.as_object().unwrap().keys().all(|key| schema["properties"].get(key).is_some())
        }
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| valid(item, rule))),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap()),
        "minimum" => value.as_f64().is_none_or(|n| n >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|n| n <= rule.as_f64().unwrap()),
        "minLength" => value.as_str().is_none_or(|s| s.chars().count() as u64 >= rule.as_u64().unwrap()),
        "maxLength" => value.as_str().is_none_or(|s| s.chars().count() as u64 <= rule.as_u64().unwrap()),
        "enum" => rule.as_array().unwrap().contains(value),
        "description" => true,
        other => panic!("{other} is not checked"),
    })
}

fn tools_to_walk() -> Vec<Tool> {
    let schema = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let tool = |name: &str, schema| Tool { name: name.into(), parameters: ToolInput::Schema(schema), strict: true };
    let place = schema(
        json!({ "lat": { "type": "number", "minimum": -90, "maximum": 90 }, "name": { "type": ["string", "null"], "maxLength": 5 } }),
        json!(["lat"]),
    );
    vec![
        tool(
            "get",
            schema(
                json!({
                    "city": { "type": "string", "minLength": 2, "maxLength": 9 },
                    "days": { "type": "integer", "minimum": 1, "maximum": 14 },
                    "unit": { "type": "string", "enum": ["metric", "us"] },
                    "note": { "type": ["string", "null"] },
                }),
                json!(["city", "days", "unit", "note"]),
            ),
        ),
        tool(
            "get_places",
            schema(json!({ "places": { "type": "array", "items": place, "maxItems": 3 } }), json!(["places"])),
        ),
        tool("now", json!({ "type": "object", "properties": {}, "additionalProperties": false })),
    ]
}

fn walked(format: &ReplyFormat, tokenizer: &Tokenizer, tools: &[Tool], tokens: &[u32]) -> Read {
    let mut reader = format.reader("", tools);
    let (mut stream, mut read) = (tokenizer.stream_continuation(), Read::default());
    for token in tokens {
        read.take(reader.push(*token, &stream.push(*token)));
    }
    read.take(reader.push_text(&stream.flush()));
    read.take(reader.end());
    read
}

#[test]
fn whatever_a_mask_allows_is_a_valid_call() {
    let tools = tools_to_walk();
    let schema_of = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap_or_else(|| panic!("no tool {name:?}"));
        let ToolInput::Schema(schema) = &tool.parameters else { panic!("a schema") };
        schema
    };
    for tokenizer in [bytes_and(&SPECIAL[..1]), bytes_and(SPECIAL)] {
        let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
        for (name, template) in own_templates() {
            let format = ReplyFormat::of(&template, &tokenizer);
            let known = name != "harmony" || tokenizer.id_of("<|channel|>").is_some();
            assert_eq!(format.name(), if known { name } else { "json" });
            let (mut calls, mut texts, mut ended) = (0, 0, 0);
            for (choice, parallel) in [
                (ToolChoice::Required, true),
                (ToolChoice::Required, false),
                (ToolChoice::Named("get".into()), true),
                (ToolChoice::Auto, true),
            ] {
                let grammar = format.grammar(&tools, &choice, parallel, None).unwrap().unwrap();
                let mut chance = Chance(7);
                for _ in 0..12 {
                    let Some(tokens) = walk(&tokenizer, &grammars, &grammar, &mut chance) else { continue };
                    ended += 1;
                    let text = tokenizer.decode(&tokens, false);
                    let read = walked(&format, &tokenizer, &tools, &tokens);
                    let shown = format!("{name}, {choice:?}: {text:?} is {read:?}");
                    for (tool, arguments) in &read.calls {
                        let value: Value = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{e}: {shown}"));
                        assert!(valid(&value, schema_of(tool)), "{shown}");
                        assert!(!matches!(&choice, ToolChoice::Named(name) if name != tool), "{shown}");
                    }
                    calls += read.calls.len();
                    texts += usize::from(!read.text.is_empty());
                    if choice != ToolChoice::Auto {
                        assert!(!read.calls.is_empty() && read.text.is_empty(), "{shown}");
                        assert!(parallel || read.calls.len() == 1, "{shown}");
                    }
                }
            }
            println!("{name}: {ended} of 48 ended, {calls} calls, {texts} with text");
            assert!(ended > 36 && calls > 30 && texts > 0, "{name}: {ended} ended, {calls} calls, {texts} with text");
        }
    }
}

#[test]
fn a_call_that_strays_from_its_template_is_one() {
    let tokenizer = bytes_and(SPECIAL);
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    let (_, template) = own_templates().swap_remove(0);
    let format = ReplyFormat::of(&template, &tokenizer);
    let tools = [weather(), search()];
    let grammar = format.grammar(&tools, &ToolChoice::Auto, true, None).unwrap().unwrap();
    let allows = |text: &str| {
        let mut matcher = grammars.compile(&grammar).unwrap();
        let tokens = tokenizer.encode(text, Encode { add_special: false, parse_special: false }).unwrap();
        tokens.iter().all(|token| matcher.allows(*token) && matcher.accept(*token).is_ok()) && matcher.may_end()
    };
    let arguments = "{\n    \"city\": \"Rome\",\n    \"days\": 3\n  }";
    for reply in [
        format!("```json\n{{\n  \"name\": \"get_weather\",\n  \"arguments\": {arguments}\n}}\n```"),
        format!("{{\"name\": \"get_weather\", \"arguments\": {arguments}}}"),
        format!("\n{{ \"name\":\"get_weather\",\"arguments\":{arguments} }}"),
    ] {
        assert!(allows(&reply), "{reply}");
        for size in [1, 3, 1000] {
            let read = read(&format, "", &tools, &reply, size);
            assert_eq!(read.calls, [("get_weather".to_owned(), arguments.to_owned())], "{reply}");
            assert!(read.text.is_empty() && read.thought.is_empty(), "{read:?}");
        }
        // Its arguments are as the tool has them, also when a call as it should be follows.
        let wrong = reply.replace("\"days\": 3", "\"days\": \"3\"");
        assert!(wrong != reply && !allows(&wrong), "{wrong}");
        let call = "<tool_call>\n{\"name\": \"web-search\", \"arguments\": {\"query\": \"a\"}}\n</tool_call>";
        assert!(allows(&format!("Now.\n{call}")) && !allows(&format!("{wrong}\n{call}")));
    }
    for text in [
        "```json\n{\"name\": \"Ada\"}\n```",
        "{\"name\": \"get_weather_now\"}",
        "{}",
        "Call {\"name\": \"get_weather\"}",
    ] {
        assert!(allows(text), "{text}");
        assert_eq!(read(&format, "", &tools, text, 2), Read { text: text.into(), ..Read::default() });
    }
}

#[test]
fn an_answer_keeps_its_form_beside_calls() {
    let tools = tools_to_walk();
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"], "additionalProperties": false });
    let answer = Grammar::JsonSchema(schema.to_string());
    let tokenizer = bytes_and(SPECIAL);
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    for (name, template) in own_templates() {
        let format = ReplyFormat::of(&template, &tokenizer);
        for (choice, tools) in [(ToolChoice::Auto, &tools[..]), (ToolChoice::None, &tools[..]), (ToolChoice::Auto, &[])]
        {
            let grammar = format.grammar(tools, &choice, true, Some(&answer)).unwrap().unwrap();
            let mut chance = Chance(3);
            let mut answers = 0;
            for _ in 0..8 {
                let Some(tokens) = walk(&tokenizer, &grammars, &grammar, &mut chance) else { continue };
                let known = if choice == ToolChoice::None { &[] } else { tools };
                let read = walked(&format, &tokenizer, known, &tokens);
                if read.calls.is_empty() {
                    let value: Value = serde_json::from_str(&read.text)
                        .unwrap_or_else(|e| panic!("{name}: {e}: {:?} is {read:?}", tokenizer.decode(&tokens, false)));
                    assert!(valid(&value, &schema), "{name}: {read:?}");
                    answers += 1;
                }
            }
            assert!(answers > 0 || !tools.is_empty(), "{name}");
        }
    }
}

#[test]
fn a_tool_that_takes_a_text_gets_one() {
    let tokenizer = bytes_and(SPECIAL);
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    let tool = |grammar| Tool { name: "patch".into(), parameters: ToolInput::Text(grammar), strict: true };
    let lark = "start: \"*** Begin\\n\" LINE+ \"*** End\"\nLINE: /[+-][a-z\"}]{0,5}\\n/\n";
    for (name, template) in own_templates() {
        let format = ReplyFormat::of(&template, &tokenizer);
        type IsRight = fn(&str) -> bool;
        let cases: [(Option<Grammar>, IsRight); 3] = [
            (None, |_| true),
            (Some(Grammar::Regex("[a-z\"]{2,4}\\n".into())), |text| {
                (3..=5).contains(&text.len()) && text.ends_with('\n')
            }),
            (Some(Grammar::Lark(lark.into())), |text| text.starts_with("*** Begin\n") && text.ends_with("\n*** End")),
        ];
        for (grammar, is_right) in cases {
            let tools = [tool(grammar.clone())];
            let form = format.grammar(&tools, &ToolChoice::Required, false, None).unwrap().unwrap();
            let mut chance = Chance(11);
            for _ in 0..6 {
                let Some(tokens) = walk(&tokenizer, &grammars, &form, &mut chance) else { continue };
                let read = walked(&format, &tokenizer, &tools, &tokens);
                let shown = format!("{name}, {grammar:?}: {:?} is {read:?}", tokenizer.decode(&tokens, false));
                assert_eq!(read.calls.len(), 1, "{shown}");
                assert!(is_right(&read.calls[0].1), "{shown}");
            }
        }
    }
}

#[test]
fn a_hundred_and_more_tools_compile_in_moderate_time() {
    let tokenizer = bytes_and(SPECIAL);
    let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    let tools: Vec<Tool> = (0..128)
        .map(|n| Tool {
            name: format!("tool_{n}"),
            parameters: ToolInput::Schema(json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string" }, "limit": { "type": "integer", "minimum": 0 },
                    "mode": { "type": "string", "enum": ["read", "write", "append"] },
                    "filters": { "type": "array", "items": { "type": "object", "properties": { "key": { "type": "string" } } } },
                    "dry_run": { "type": "boolean" },
                },
                "required": ["path", "mode"],
            })),
            strict: false,
        })
        .collect();
    for (name, template) in own_templates() {
        let format = ReplyFormat::of(&template, &tokenizer);
        let begun = std::time::Instant::now();
        let grammar = format.grammar(&tools, &ToolChoice::Auto, true, None).unwrap().unwrap();
        let Grammar::Lark(text) = &grammar else { panic!("a grammar") };
        let mut matcher = grammars.compile(&grammar).unwrap();
        let compiled = begun.elapsed();
        matcher.allowed().unwrap();
        println!("{name}: {} bytes, compiled in {compiled:?}, with the first mask {:?}", text.len(), begun.elapsed());
        assert!(compiled.as_secs() < 30, "{name}: {compiled:?}");
    }
}

#[test]
fn what_looks_like_a_call_and_is_none_is_text() {
    let tokenizer = bytes_and(&SPECIAL[..1]);
    let tools = [weather()];
    for (name, template) in own_templates() {
        let format = ReplyFormat::of(&template, &tokenizer);
        for reply in [
            "<tool_call>",
            "<tool_call>\n{\"name\": \"nobody\", \"arguments\": {}}\n</tool_call>",
            "a <tool_cal",
            "[TOOL_CALLS] no",
            "{\"name\": \"get_weather",
            "```json\n{\"name\": \"nobody\", \"arguments\": {}}\n```",
            "```json\n{\"name\": \"get_weather\"}\n```",
            "{\"name\": 3}",
            "<tool_call>\n<function=get_weather",
            "x <｜tool▁calls▁begin｜>y",
            "<tool_call><tool_call><tool_call>",
            "\u{fdd0}<tool_call>\u{fdd1}",
        ] {
            for size in [1, 2, 1000] {
                let read = read(&format, "", &tools, reply, size);
                let shown = unmarked(reply);
                assert!(read.calls.is_empty() && read.text == shown, "{name}: {reply:?} is {read:?}");
            }
        }
    }
}

/// Characters that stand for tokens inside the reader are no text.
fn unmarked(text: &str) -> String {
    text.replace(['\u{fdd0}', '\u{fdd1}'], "\u{fffd}")
}

#[test]
fn a_reader_takes_anything_in_linear_time() {
    let tokenizer = bytes_and(&SPECIAL[..1]);
    let tools = [weather()];
    let units = [
        "<tool_call>",
        "<tool_call>\n",
        "<",
        "[TOOL_CALLS][",
        "{\"name\": \"",
        "<think>",
        "</think>",
        "\n",
        "<tool_call>get_weather\n<arg_key>",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{",
        "\n</parameter",
        "x",
    ];
    for (name, template) in own_templates() {
        let format = ReplyFormat::of(&template, &tokenizer);
        for unit in units {
            let reply = unit.repeat(200_000 / unit.len());
            let begun = std::time::Instant::now();
            let _ = read(&format, "", &tools, &reply, 7);
            assert!(begun.elapsed().as_secs() < 10, "{name}: {unit:?} took {:?}", begun.elapsed());
        }
        let mut chance = Chance(5);
        for _ in 0..300 {
            let reply: String = (0..20).map(|_| units[chance.below(units.len())]).collect();
            let whole = read(&format, "", &tools, &reply, 100_000);
            let cut = read(&format, "", &tools, &reply, 1 + chance.below(4));
            assert_eq!(whole, cut, "{name}: {reply:?}");
        }
    }
}
