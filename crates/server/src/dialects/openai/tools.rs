//! Tools as OpenAI's APIs list them: one has a tool's fields beside its type, the other one level deeper.

use crate::answer::{Tools, custom_form};
use crate::http::body::short;
use crate::problem::Problem;
use akunu::{ToolChoice, ToolInput};
use serde_json::{Value, json};

/// The tools of a request.
pub fn tools(list: &[Value], choice: Option<&Value>, parallel: bool) -> Result<Tools, Problem> {
    let mut tools = Tools { parallel, ..Tools::none() };
    for (i, tool) in list.iter().enumerate() {
        let field = format!("tools[{i}]");
        let kind = tool["type"].as_str().unwrap_or("function");
        let of = if tool[kind].is_object() { &tool[kind] } else { tool };
        let name = of["name"].as_str().unwrap_or_default();
        let input = match kind {
            "function" => ToolInput::Schema(match &of["parameters"] {
                Value::Null => json!({ "type": "object", "properties": {} }),
                schema => schema.clone(),
            }),
            "custom" => ToolInput::Text(custom_form(&field, of.get("format"))?),
            kind => {
                let sentence = format!("{field}: tools of type {:?} are not supported", short(kind));
                return Err(Problem::field(&field, sentence));
            }
        };
        tools.add(&field, name, of["description"].as_str(), input, of["strict"].as_bool().unwrap_or(false))?;
    }
    tools.choice = match choice {
        None | Some(Value::Null) => ToolChoice::Auto,
        Some(Value::String(choice)) => match choice.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            other => return unknown_choice(other),
        },
        Some(choice) => {
            let kind = choice["type"].as_str().unwrap_or("function");
            match choice[kind]["name"].as_str().or(choice["name"].as_str()) {
                Some(name) => ToolChoice::Named(name.to_owned()),
                None => return unknown_choice(kind),
            }
        }
    };
    tools.check("tool_choice")?;
    Ok(tools)
}

fn unknown_choice(choice: &str) -> Result<Tools, Problem> {
    let sentence = format!("tool_choice: {:?} is not none, auto, required or the name of a function", short(choice));
    Err(Problem::field("tool_choice", sentence))
}
