//! The commands of a conversation, as a table.

use std::path::Path;

use anyhow::{Result, anyhow};

use crate::conversation::Conversation;
use crate::failure::{NextStep, failure};
use crate::flags::values;
use crate::input;

/// What a command did.
pub enum Outcome {
    /// Something to show.
    Said(String),
    Leave,
}

type Action = fn(&mut Conversation, &str) -> Result<Outcome>;

struct Slash {
    name: &'static str,
    argument: &'static str,
    help: &'static str,
    action: Action,
}

const COMMANDS: &[Slash] = &[
    Slash { name: "help", argument: "", help: "show this", action: help },
    Slash { name: "reset", argument: "", help: "forget the conversation, keep the system message", action: reset },
    Slash {
        name: "system",
        argument: "[TEXT]",
        help: "show or set the system message; `-` removes it",
        action: system,
    },
    Slash { name: "save", argument: "FILE", help: "write the conversation as JSON", action: save },
    Slash { name: "load", argument: "FILE", help: "go on with a saved conversation", action: load },
    Slash { name: "stats", argument: "", help: "show sizes and the speed of the last answer", action: stats },
    Slash { name: "params", argument: "[NAME=VALUE…]", help: "show or set how answers are chosen", action: params },
    Slash { name: "exit", argument: "", help: "leave; so does Ctrl-D", action: exit },
];

/// Runs `text` (without its slash) as a command.
pub fn run(conversation: &mut Conversation, text: &str) -> Result<Outcome> {
    let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match COMMANDS.iter().find(|c| c.name == name) {
        Some(command) => (command.action)(conversation, argument.trim()),
        None => Err(failure(format!("there is no command /{name}"), "`/help` lists them")),
    }
}

fn said(text: impl Into<String>) -> Result<Outcome> {
    Ok(Outcome::Said(text.into()))
}

fn help(_: &mut Conversation, _: &str) -> Result<Outcome> {
    let lines = COMMANDS.iter().map(|c| format!("{:<24} {}", format!("/{} {}", c.name, c.argument), c.help));
    let more = [
        "A line that ends in \\ goes on; \"\"\" begins and ends a longer message; // begins one with a slash."
            .to_owned(),
        "Ctrl-C stops an answer.".to_owned(),
    ];
    said(lines.chain(more).collect::<Vec<_>>().join("\n"))
}

fn reset(conversation: &mut Conversation, _: &str) -> Result<Outcome> {
    conversation.reset();
    said("forgotten")
}

fn exit(_: &mut Conversation, _: &str) -> Result<Outcome> {
    Ok(Outcome::Leave)
}

fn system(conversation: &mut Conversation, text: &str) -> Result<Outcome> {
    match text {
        "" => said(conversation.system().unwrap_or("there is no system message").to_owned()),
        "-" => {
            conversation.set_system("");
            said("the system message is removed")
        }
        text => {
            conversation.set_system(text);
            said("the system message is set")
        }
    }
}

fn save(conversation: &mut Conversation, path: &str) -> Result<Outcome> {
    if path.is_empty() {
        return Err(failure("there is no file name", "`/save FILE`"));
    }
    let text = format!("{:#}\n", conversation.to_json());
    std::fs::write(path, text).or_fail(|e| format!("{path}: cannot be written: {e}"), "choose another file")?;
    said(format!("saved {} messages to {path}", conversation.len()))
}

fn load(conversation: &mut Conversation, path: &str) -> Result<Outcome> {
    if path.is_empty() {
        return Err(failure("there is no file name", "`/load FILE`"));
    }
    load_file(conversation, Path::new(path))?;
    said(format!("loaded {} messages from {path}", conversation.len()))
}

/// Goes on with a saved conversation.
pub fn load_file(conversation: &mut Conversation, path: &Path) -> Result<()> {
    let text = input::file(path)?;
    let named = |what: String| failure(format!("{}: {what}", path.display()), "give a file that `/save` wrote");
    conversation.load(&text).map_err(named)
}

fn stats(conversation: &mut Conversation, _: &str) -> Result<Outcome> {
    let last = &conversation.last;
    said(format!(
        "{} messages; {} of {} positions in the KV cache\nlast answer: {} tokens reused, {}",
        conversation.len(),
        conversation.cached(),
        conversation.writer.engine.context(),
        last.reused,
        last.speeds,
    ))
}

fn params(conversation: &mut Conversation, text: &str) -> Result<Outcome> {
    for part in text.split_whitespace() {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| failure(format!("{part:?} is not NAME=VALUE"), "for example `/params temperature=0.5`"))?;
        set(conversation, name, value)
            .map_err(|what| failure(format!("{name}: {what}"), "`/params` shows names and values"))?;
    }
    let (o, s) = (&conversation.options, &conversation.options.sampling);
    said(format!(
        "temperature={} top-k={} top-p={} min-p={} repeat-penalty={} seed={} max-tokens={}",
        s.temperature, s.top_k, s.top_p, s.min_p, s.repeat_penalty, s.seed, o.max_tokens,
    ))
}

fn set(conversation: &mut Conversation, name: &str, value: &str) -> Result<()> {
    let options = &mut conversation.options;
    let sampling = &mut options.sampling;
    let whole = |value: &str| value.parse::<u64>().map_err(|_| anyhow!("not a number that fits here"));
    match name {
        "temperature" => sampling.temperature = values::not_negative(value).map_err(|e| anyhow!(e))?,
        "top-k" => sampling.top_k = whole(value)? as usize,
        "top-p" => sampling.top_p = values::share(value).map_err(|e| anyhow!(e))?,
        "min-p" => sampling.min_p = values::share(value).map_err(|e| anyhow!(e))?,
        "repeat-penalty" => sampling.repeat_penalty = values::positive(value).map_err(|e| anyhow!(e))?,
        "seed" => sampling.seed = whole(value)?,
        "max-tokens" => options.max_tokens = values::count(value).map_err(|e| anyhow!(e))?,
        _ => return Err(anyhow!("is not a parameter")),
    }
    Ok(())
}
