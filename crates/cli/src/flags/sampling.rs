//! How the next token is chosen and where a text ends: one table for `run` and `chat`.

use clap::{Arg, ArgAction, value_parser};

use super::shared::{flag, heading, option, path, rare};
use super::values;

/// What an option's value may be.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Number(fn(&str) -> Result<f32, String>),
}
use Kind::{Count, Number};

/// Options with one number: name, the value's name, help, default, and what it may be.
#[rustfmt::skip]
const NUMBERS: &[(&str, &str, &str, &str, Kind)] = &[
    ("top-k", "N", "Choose among this many of the likeliest tokens; 0: all", "40", Count),
    ("top-p", "P", "Choose among the likeliest tokens that together have this probability; 1: all", "0.95", Number(values::share)),
    ("min-p", "P", "Choose among tokens at least this share as likely as the likeliest; 0: all", "0.05", Number(values::share)),
    ("typical-p", "P", "Choose among the most typical tokens that together have this probability; 1: all", "1", Number(values::share)),
    ("top-n-sigma", "N", "Choose among tokens within N standard deviations of the largest logit; 0: all", "0", Number(values::not_negative)),
    ("xtc-probability", "P", "How often to exclude top choices: all above the threshold but the least likely; 0: never", "0", Number(values::share)),
    ("xtc-threshold", "P", "The probability above which a token counts as a top choice", "0.1", Number(values::share)),
    ("dynamic-temperature", "R", "Move the temperature by up to R with the entropy; 0: keep it", "0", Number(values::not_negative)),
    ("dynamic-exponent", "X", "How the entropy moves the temperature", "1", Number(values::positive)),
    ("mirostat", "TAU", "Keep the surprise near TAU bits a token (mirostat 2), instead of truncating; 0: off", "0", Number(values::not_negative)),
    ("mirostat-eta", "X", "How fast mirostat corrects itself", "0.1", Number(values::positive)),
    ("repeat-last", "N", "How many recent tokens the three penalties look at", "64", Count),
    ("repeat-penalty", "X", "Make recent tokens less likely; 1: not at all", "1", Number(values::positive)),
    ("frequency-penalty", "X", "Make recent tokens less likely every time they came; 0: not at all", "0", Number(values::finite)),
    ("presence-penalty", "X", "Make tokens that came recently less likely, once; 0: not at all", "0", Number(values::finite)),
    ("dry", "X", "Make it unlikely to repeat passages (DRY), the longer the less; 0: off, 0.8 is usual", "0", Number(values::not_negative)),
    ("dry-base", "X", "How fast DRY grows with the length of a passage", "1.75", Number(values::positive)),
    ("dry-allowed", "N", "The shortest repeated passage that DRY acts on, in tokens", "2", Count),
];

/// What `-h` shows of the table; `--help` shows all.
const OFTEN: [&str; 4] = ["top-k", "top-p", "min-p", "repeat-penalty"];

pub fn sampling_flags(temperature: &'static str) -> Vec<Arg> {
    let mut flags = vec![
        option("temperature", "T", "How freely to choose; 0 always takes the likeliest token")
            .value_parser(values::not_negative)
            .default_value(temperature),
    ];
    flags.extend(NUMBERS.iter().map(|&(name, value, help, default, kind)| {
        let flag = option(name, value, help).default_value(default).hide_short_help(!OFTEN.contains(&name));
        match kind {
            Count => flag.value_parser(value_parser!(usize)),
            Number(parser) => flag.value_parser(parser).allow_negative_numbers(true),
        }
    }));
    flags.push(rare(
        option(
            "dry-breaker",
            "TEXT",
            "DRY's passages end at tokens with this text; may be given again [default: newline : \" *]",
        )
        .action(ArgAction::Append),
    ));
    flags.push(rare(
        option("logit-bias", "ID=X", "Add X to the logit of a token; may be given again")
            .value_parser(values::bias)
            .action(ArgAction::Append)
            .allow_hyphen_values(true),
    ));
    flags.push(rare(
        option("samplers", "NAMES", "The stages of the choice, in their order; the rest is left out")
            .value_parser(values::stages)
            .default_value(values::CHAIN)
            .long_help(
                "The stages of the choice, in their order; what is not named is left out. Before them, always: what a \
                 grammar forbids goes, and --logit-bias is added. After them, always: one draw. With --mirostat only \
                 penalties, dry and temperature of them run.",
            ),
    ));
    flags.push(
        option("seed", "N", "Choose the same way every time [default: another way every time]")
            .value_parser(value_parser!(u64)),
    );
    flags.into_iter().map(|flag| flag.help_heading(heading::SAMPLING)).collect()
}

/// The form that a text must have; one of them.
pub fn grammar_flags() -> [Arg; 5] {
    const FORM: &str = "form";
    [
        flag("json-object", "The text must be a JSON object").group(FORM),
        option("json-schema", "SCHEMA", "The text must be JSON that a schema describes; `@FILE` reads it from a file")
            .group(FORM),
        option("regex", "PATTERN", "The text must match a regular expression as a whole").group(FORM),
        path("lark", "The text must keep to a Lark grammar (the dialect of llguidance)").group(FORM),
        path("gbnf", "The text must keep to a GBNF grammar (as of llama.cpp)").group(FORM),
    ]
    .map(|flag| flag.help_heading(heading::STRUCTURE))
}

/// What becomes of a text that is too long, and of the KV cache at the end.
pub fn session_flags() -> [Arg; 2] {
    [
        path("session", "Keep the conversation with its KV cache in this file: next time only what is new is computed"),
        flag("context-shift", "When the context is full, forget the oldest part after the beginning instead of ending"),
    ]
    .map(|flag| flag.help_heading(heading::CONTEXT))
}

/// Speculative decoding.
pub fn speculation_flags() -> [Arg; 2] {
    [
        option("speculate", "HOW", "Draft tokens and verify several in one step: the same text in less time")
            .value_parser(clap::builder::PossibleValuesParser::new(["off", "ngram"]))
            .default_value("off")
            .long_help(
                "Draft tokens and verify several in one step: the text stays the same, greedy or sampled. `ngram` drafts \
                 what followed the last tokens before, which suits editing and quoting; where drafts are refused it \
                 stops.",
            ),
        option("draft", "MODEL", "Draft with a smaller model of the same vocabulary")
            .value_parser(value_parser!(std::ffi::OsString))
            .value_hint(clap::ValueHint::AnyPath)
            .conflicts_with("speculate"),
    ]
    .map(|flag| flag.help_heading(heading::SPECULATION))
}

/// Where a text ends.
pub fn stop_flags() -> [Arg; 3] {
    [
        option("stop", "TEXT", "Stop before this text; may be given again")
            .value_parser(clap::builder::NonEmptyStringValueParser::new())
            .action(ArgAction::Append),
        rare(option("stop-token", "ID", "Stop before this token; may be given again"))
            .value_parser(value_parser!(u32))
            .action(ArgAction::Append),
        rare(flag("ignore-eos", "Go on after the model says it is finished")),
    ]
    .map(|flag| flag.help_heading(heading::STOPPING))
}
