//! Which form a template shows: it renders a conversation with calls, and a family that writes them in the same way is the
//! template's.

use serde_json::{Value, json};

use super::families::{self, Arguments, Family};
use super::literal::ID;
use super::{ReplyFormat, ThinkTags, values};
use crate::{ChatTemplate, Tokenizer};

const QUESTION: &str = "What-is-it";
const CONTENT: &str = "I-look-it-up";
const THOUGHT: &str = "They-want-to-know";
const NAMES: [&str; 2] = ["first_probe", "second_probe"];
/// Some templates want nine characters.
const IDS: [&str; 2] = ["probe0001", "probe0002"];

/// The form of a template's replies.
pub fn format(template: &ChatTemplate, tokenizer: &Tokenizer) -> ReplyFormat {
    let probe = Probe { template, tokenizer };
    let harmony = ["<|channel|>", "<|message|>", "to=functions."];
    let prompt = probe.render(Vec::new(), true).unwrap_or_default();
    let shows_tools = prompt.contains(NAMES[0]);
    // Its texts end at tokens; where they are not tokens, nothing ends them.
    let channels = tokenizer.id_of(harmony[0]).is_some_and(|id| tokenizer.is_special(id));
    if channels && harmony.iter().all(|mark| template.source().contains(mark)) {
        let (open, close) = families::ANALYSIS;
        let tags =
            ThinkTags { open: open.into(), close: close.into(), then: "<|start|>assistant".into(), in_grammar: true };
        return ReplyFormat::new(families::harmony(), tokenizer, Some(tags), shows_tools, false);
    }
    let found = probe.family();
    let thinking = probe.thinking(&prompt);
    let (family, as_text) = found.unwrap_or_else(|| (families::generic(), false));
    ReplyFormat::new(family, tokenizer, thinking, shows_tools, as_text)
}

struct Probe<'p> {
    template: &'p ChatTemplate,
    tokenizer: &'p Tokenizer,
}

impl Probe<'_> {
    /// What comes after the question.
    fn render(&self, answer: Vec<Value>, prompt: bool) -> Option<String> {
        let mut messages = vec![json!({ "role": "user", "content": QUESTION })];
        messages.extend(answer);
        let parameters = json!({
            "type": "object",
            "properties": {
                "city": { "type": "string", "description": "A city." },
                "days": { "type": "integer", "description": "A number." },
            },
            "required": ["city"],
        });
        let tool = |name| {
            let function = json!({ "name": name, "description": "A tool.", "parameters": parameters });
            json!({ "type": "function", "function": function })
        };
        let tools = NAMES.map(tool);
        let mut input = ChatTemplate::extras(&tools);
        input.insert("messages".into(), messages.into());
        input.insert("tools".into(), tools.to_vec().into());
        input.insert("add_generation_prompt".into(), prompt.into());
        self.template.render(&input.into(), self.tokenizer.bos_text(), self.tokenizer.eos_text()).ok()
    }

    /// The family whose calls look like the template's, and whether arguments are text to the template.
    fn family(&self) -> Option<(Family, bool)> {
        let arguments = json!({ "city": "Qua\"rzum", "days": 3 });
        for as_text in [false, true] {
            let shown = if as_text { values::json(&arguments).into() } else { arguments.clone() };
            for count in [2, 1] {
                let call = |n: usize| {
                    let function = json!({ "name": NAMES[n], "arguments": shown });
                    json!({ "id": IDS[n], "type": "function", "function": function })
                };
                let calls: Vec<Value> = (0..count).map(call).collect();
                let answers = [CONTENT, ""].map(|content| {
                    let message = json!({ "role": "assistant", "content": content, "tool_calls": calls });
                    self.render(vec![message], false)
                });
                let rendered = answers.into_iter().flatten().find(|text| text.contains("rzum"));
                let Some(rendered) = rendered else { continue };
                let source = self.template.source();
                let writes = |family: &Family| source.contains(family.text.0) && (count == 1 || family.next.is_some());
                let mut known: Vec<Family> = families::families().into_iter().filter(writes).collect();
                let written = |family: &Family| write(family, &NAMES[..count], &arguments);
                let exact = known.iter().position(|family| rendered.contains(&written(family)));
                let close = || {
                    let rendered = solid(&rendered);
                    known.iter().position(|family| rendered.contains(&solid(&written(family))))
                };
                if let Some(found) = exact.or_else(close) {
                    let mut family = known.swap_remove(found);
                    if count == 1 {
                        family.next = None;
                    }
                    return Some((family, as_text));
                }
            }
        }
        None
    }

    /// What stands around thoughts.
    fn thinking(&self, prompt: &str) -> Option<ThinkTags> {
        let message = json!({ "role": "assistant", "content": CONTENT, "reasoning_content": THOUGHT });
        let rendered = self.render(vec![message], false).unwrap_or_default();
        let shown =
            |tag: &str| [self.template.source(), prompt, &rendered].iter().any(|text| text.contains(tag.trim_end()));
        let is_token = |tag: &str| self.tokenizer.id_of(tag).is_some();
        let (open, close) = families::THOUGHTS
            .into_iter()
            .find(|(_, close)| shown(close))
            .or_else(|| families::THOUGHTS.into_iter().find(|(open, _)| shown(open)))
            .or_else(|| families::THOUGHTS.into_iter().find(|(open, close)| is_token(open) && is_token(close)))?;
        let after_thought = rendered.split_once(THOUGHT).map(|(_, after)| after).unwrap_or_default();
        let then = after_thought.trim_start().strip_prefix(close).and_then(|after| after.split_once(CONTENT));
        let then = then.map_or("\n\n", |(then, _)| then);
        Some(ThinkTags { open: open.into(), close: close.into(), then: then.into(), in_grammar: false })
    }
}

/// The calls, as a family writes them.
fn write(family: &Family, names: &[&str], arguments: &Value) -> String {
    let mut out = String::new();
    let Value::Object(properties) = arguments else { return out };
    for (number, (name, id)) in names.iter().zip(IDS).enumerate() {
        let before = if number == 0 { &family.first } else { family.next.as_ref().unwrap_or(&family.first) };
        let mut call = format!("{before}{name}{}", family.middle);
        match &family.arguments {
            Arguments::Json => call.push_str(&values::json(arguments)),
            Arguments::Braces(quote) => {
                let value = |value: &Value| match value {
                    Value::String(text) => format!("{quote}{text}{quote}"),
                    other => values::json(other),
                };
                let each: Vec<String> = properties.iter().map(|(key, of)| format!("{key}:{}", value(of))).collect();
                call.push_str(&format!("{{{}}}", each.join(",")));
            }
            Arguments::Tagged(tags) => {
                for (key, value) in properties {
                    let (equals, value) = match value {
                        Value::String(text) => (tags.equals[0], text.clone()),
                        other => (tags.equals[1], values::json(other)),
                    };
                    call.extend([tags.open, key, equals, &value, tags.close]);
                }
            }
        }
        call.push_str(&family.after);
        // Templates that number calls by themselves have ids of one digit.
        let number = number.to_string();
        let id = if family.first.contains(ID) { &number } else { id };
        out.push_str(&call.replace(ID, id));
    }
    out.push_str(family.close);
    out
}

fn solid(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}
