//! The commands of a conversation, as a table.

use std::path::Path;

use akunu::SamplingOptions;
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
    let text = input::file(path, conversation.writer.engine.file().limits())?;
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
    let max = conversation.options.max_tokens;
    let s = &mut conversation.options.sampling;
    let numbers: Vec<String> = NUMBERS.iter().map(|n| format!("{}={}", n.0, (n.1)(s))).collect();
    let (top_k, last, seed) = (s.top_k, s.repeat_last, s.seed);
    said(format!("{} top-k={top_k} repeat-last={last} seed={seed} max-tokens={max}", numbers.join(" ")))
}

/// Parameters that are one number: name, where it is, and what it may be.
type Number = (&'static str, fn(&mut SamplingOptions) -> &mut f32, fn(&str) -> Result<f32, String>);

const NUMBERS: &[Number] = &[
    ("temperature", |s| &mut s.temperature, values::not_negative),
    ("dynamic-temperature", |s| &mut s.dynamic_temperature, values::not_negative),
    ("top-p", |s| &mut s.top_p, values::share),
    ("min-p", |s| &mut s.min_p, values::share),
    ("typical-p", |s| &mut s.typical_p, values::share),
    ("top-n-sigma", |s| &mut s.top_n_sigma, values::not_negative),
    ("xtc-probability", |s| &mut s.xtc_probability, values::share),
    ("xtc-threshold", |s| &mut s.xtc_threshold, values::share),
    ("repeat-penalty", |s| &mut s.repeat_penalty, values::positive),
    ("frequency-penalty", |s| &mut s.frequency_penalty, values::finite),
    ("presence-penalty", |s| &mut s.presence_penalty, values::finite),
    ("dry", |s| &mut s.dry.multiplier, values::not_negative),
];

fn set(conversation: &mut Conversation, name: &str, value: &str) -> Result<()> {
    let options = &mut conversation.options;
    let sampling = &mut options.sampling;
    let whole = |value: &str| value.parse::<u64>().map_err(|_| anyhow!("not a number that fits here"));
    if let Some((_, at, read)) = NUMBERS.iter().find(|n| n.0 == name) {
        *at(sampling) = read(value).map_err(|e| anyhow!(e))?;
        return Ok(());
    }
    match name {
        "top-k" => sampling.top_k = whole(value)? as usize,
        "repeat-last" => sampling.repeat_last = whole(value)? as usize,
        "seed" => sampling.seed = whole(value)?,
        "max-tokens" => options.max_tokens = values::count(value).map_err(|e| anyhow!(e))?,
        _ => return Err(anyhow!("is not a parameter")),
    }
    Ok(())
}
