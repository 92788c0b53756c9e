//! Tools as OpenAI's APIs list them: one has a tool's fields beside its type, the other one level deeper.

use crate::App;
use crate::answer::{Tools, custom_form};
use crate::http::body::short;
use crate::problem::Problem;
use akunu::{ToolChoice, ToolInput};
use serde_json::{Value, json};

/// The tools of a request.
pub fn tools(app: &App, list: &[Value], choice: Option<&Value>, parallel: bool) -> Result<Tools, Problem> {
    let mut tools = Tools { parallel, ..Tools::none() };
    for (i, tool) in list.iter().enumerate() {
        let field = format!("tools[{i}]");
        match (tool["type"].as_str(), &tool["tools"]) {
            (Some("namespace"), Value::Array(inner)) => {
                let space = tool["name"].as_str().unwrap_or_default();
                for (k, tool) in inner.iter().enumerate() {
                    let name = add(app, &mut tools, &format!("{field}.tools[{k}]"), tool)?;
                    name.map(|name| tools.namespaces.insert(name, space.to_owned()));
                }
            }
            _ => drop(add(app, &mut tools, &field, tool)?),
        }
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

/// Adds a tool; its name, if it is one that can be called.
fn add(app: &App, tools: &mut Tools, field: &str, tool: &Value) -> Result<Option<String>, Problem> {
    let kind = tool["type"].as_str().unwrap_or("function");
    let of = if tool[kind].is_object() { &tool[kind] } else { tool };
    let name = of["name"].as_str().unwrap_or_default();
    let input = match kind {
        "function" => ToolInput::Schema(match &of["parameters"] {
            Value::Null => json!({ "type": "object", "properties": {} }),
            schema => schema.clone(),
        }),
        "custom" => ToolInput::Text(custom_form(field, of.get("format"))?),
        kind if app.options.drop_hosted_tools => {
            tracing::debug!(kind, "a tool that others host is left out");
            return Ok(None);
        }
        kind => {
            let kind = short(kind);
            let sentence =
                format!("{field}: tools of type {kind:?} are not here; `--drop-hosted-tools` leaves them out");
            return Err(Problem::field(field, sentence));
        }
    };
    tools.add(field, name, of["description"].as_str(), input, of["strict"].as_bool().unwrap_or(false))?;
    Ok(Some(name.to_owned()))
}

fn unknown_choice(choice: &str) -> Result<Tools, Problem> {
    let sentence = format!("tool_choice: {:?} is not none, auto, required or the name of a function", short(choice));
    Err(Problem::field("tool_choice", sentence))
}
