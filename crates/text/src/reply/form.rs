//! The grammar of a reply: free text or a given form, and calls that are valid.

use std::fmt::Write;

use serde_json::{Value, json};

use super::literal::{Literal, quoted};
use super::parameters::Kind;
use super::reader::is_name;
use super::shape::Shape;
use super::{Inner, Tool, ToolChoice, ToolInput};
use crate::grammar::{STYLE, WHITE_SPACE, lark_of, regex_literal, schema_within_limits};
use crate::{Error, Grammar};

/// Any text.
const ANY: &str = "/(?s:.*)/";

pub fn grammar(
    inner: &Inner,
    tools: &[Tool],
    choice: &ToolChoice,
    parallel: bool,
    answer: Option<&Grammar>,
) -> Result<Option<Grammar>, Error> {
    let tools: Vec<&Tool> = match choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Auto | ToolChoice::Required => tools.iter().collect(),
        ToolChoice::Named(name) => match tools.iter().find(|tool| tool.name == *name) {
            Some(tool) => vec![tool],
            None => return Err(unusable(format!("the tool {name:?} that is to be called is not among the tools"))),
        },
    };
    let calls_only = matches!(choice, ToolChoice::Required | ToolChoice::Named(_));
    let thinks_inside = inner.thinking.as_ref().is_some_and(|tags| tags.in_grammar);
    match answer {
        _ if calls_only && tools.is_empty() => Err(unusable("a tool is to be called, and there are none".into())),
        None if tools.is_empty() => Ok(None),
        Some(answer) if tools.is_empty() && inner.thinking.is_none() && inner.pieces.text.0.is_empty() => {
            Ok(Some(answer.clone()))
        }
        _ => {
            let mut form = Form { inner, text: String::new() };
            form.write(&tools, calls_only, parallel, answer, thinks_inside)?;
            Ok(Some(Grammar::Lark(form.text)))
        }
    }
}

fn unusable(why: String) -> Error {
    Error::Grammar(why)
}

pub struct Form<'f> {
    inner: &'f Inner,
    text: String,
}

impl Form<'_> {
    pub fn rule(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.text, "{name}: {body}");
    }

    fn write(
        &mut self,
        tools: &[&Tool],
        calls_only: bool,
        parallel: bool,
        answer: Option<&Grammar>,
        thinks_inside: bool,
    ) -> Result<(), Error> {
        let pieces = &self.inner.pieces;
        let mut starts = Vec::new();
        // Models put an empty line between their thoughts and what they do then.
        let gap = if self.inner.thinking.is_some() && !thinks_inside { "GAP " } else { "" };
        self.rule("GAP", "/\\n{0,2}/");
        if !tools.is_empty() {
            let free = !calls_only && answer.is_none();
            starts.extend(self.calls(tools, parallel && pieces.next.is_some(), free, gap)?);
            if free {
                starts.extend(self.strays(tools)?);
            }
        }
        if !calls_only {
            // Only a token ends a text that may be anything.
            let (before, close) = pieces.text.1.split_at_token();
            let (open, close) = match before.is_empty() {
                true => (pieces.text.0.lark(), close.lark()),
                false => Default::default(),
            };
            let body = match answer {
                Some(answer) => {
                    let answer = lark_of(answer, &self.inner.tokenizer.limits())?;
                    self.rule("answer", &answer);
                    format!("{gap}{open}answer {close}")
                }
                None => {
                    let excluded = if tools.is_empty() { Vec::new() } else { self.excluded(tools) };
                    self.rule("FREE", &text_without(&excluded));
                    format!("{open}FREE {close}")
                }
            };
            starts.push(body);
        }
        let body = starts.join(" | ");
        if thinks_inside && let Some((open, close)) = &pieces.think {
            let then = self.inner.thinking.as_ref().map_or("", |tags| &tags.then);
            let then = Literal::new(then, &self.inner.tokenizer);
            self.rule("THOUGHT", ANY);
            self.rule("start", &format!("({}THOUGHT {}{})* ({body})", open.lark(), close.lark(), then.lark()));
        } else {
            self.rule("start", &body);
        }
        Ok(())
    }

    /// What a text beside calls is not, as regular expressions.
    fn excluded(&self, tools: &[&Tool]) -> Vec<String> {
        let pieces = &self.inner.pieces;
        if self.inner.family.bare {
            // What begins as a call is one.
            let begins: Vec<String> = pieces.first.marked().iter().map(|c| escape(&c.to_string())).collect();
            return vec![format!("\\s*{}(?s:.*)", begins.join("\\s*"))];
        }
        let (marker, _) = pieces.first.split_marker();
        let marker = marker.text().map(|marker| format!("(?s:.*){}(?s:.*)", escape(marker)));
        marker.into_iter().chain(self.begins_as_stray(tools)).collect()
    }

    /// How a stray call of one of the tools begins, up to the end of the tool's name, and whatever follows.
    fn begins_as_stray(&self, tools: &[&Tool]) -> Option<String> {
        let pieces = &self.inner.pieces;
        let name_ends: String = pieces.middle.exact().into_iter().take(1).collect();
        let names: Vec<String> = tools.iter().map(|tool| escape(&tool.name)).collect();
        let firsts: Vec<String> = pieces.strays.iter().map(|stray| spaced(&stray.first)).collect();
        let begins = format!("\\s*(?:{})(?:{}){}(?s:.*)", firsts.join("|"), names.join("|"), escape(&name_ends));
        (!firsts.is_empty()).then_some(begins)
    }

    /// Ways to begin with a stray call.
    fn strays(&mut self, tools: &[&Tool]) -> Result<Vec<String>, Error> {
        let pieces = &self.inner.pieces;
        let mut starts = Vec::new();
        for (number, tool) in tools.iter().enumerate() {
            if pieces.strays.is_empty() || tool.is_raw() {
                continue;
            }
            let arguments = format!("stray_arguments_{number}");
            // White space as the model likes it.
            let schema = self.styled(tool.schema(), tool, true, json!({ "whitespace_pattern": WHITE_SPACE }))?;
            self.rule(&arguments, &format!("%json {schema}"));
            for (kind, stray) in pieces.strays.iter().enumerate() {
                let name = format!("{kind}_{number}");
                let head = format!("{}{}{}", spaced(&stray.first), escape(&tool.name), spaced(&pieces.middle));
                self.rule(&format!("STRAY_{name}"), &format!("/\\s*{head}/"));
                self.rule(&format!("STRAY_END_{name}"), &format!("/{}/", spaced(&stray.after)));
                starts.push(format!("STRAY_{name} {arguments} STRAY_END_{name}"));
            }
        }
        Ok(starts)
    }

    /// Ways to begin with calls.
    fn calls(&mut self, tools: &[&Tool], parallel: bool, free: bool, gap: &str) -> Result<Vec<String>, Error> {
        let pieces = &self.inner.pieces;
        let (mut calls, mut raw) = (Vec::new(), Vec::new());
        for (number, tool) in tools.iter().enumerate() {
            if tool.name.is_empty() || tool.name.len() > 256 || !tool.name.chars().all(is_name) {
                return Err(unusable(format!(
                    "{:?} cannot be a tool's name: letters, digits and _ - . : / can",
                    crate::error::excerpt(&tool.name)
                )));
            }
            match self.call(number, tool)? {
                call if tool.is_raw() => raw.push(call),
                call => calls.push(call),
            }
        }
        let (first, close) = (pieces.first.lark(), pieces.close.lark());
        let next = pieces.next.as_ref().map(Literal::lark).unwrap_or_default();
        // A text ends the reply: nothing else says where it ends.
        let after = pieces.after.lark();
        let mut ends = Vec::new();
        if !calls.is_empty() {
            self.rule("call", &format!("({}) {after}", calls.join(" | ")));
            ends.push(if parallel { format!("call ({next}call)* {close}") } else { format!("call {close}") });
        }
        if !raw.is_empty() {
            self.rule("raw", &raw.join(" | "));
            let before = if parallel && !calls.is_empty() { format!("(call {next})* ") } else { String::new() };
            ends.push(format!("{before}raw"));
        }
        self.rule("calls", &ends.join(" | "));
        let mut starts = Vec::new();
        if free && !self.inner.family.bare {
            let (marker, rest) = pieces.first.split_marker();
            match marker.text() {
                Some(text) => {
                    let before = text_without(self.begins_as_stray(tools).as_slice());
                    self.rule(&format!("before[suffix={}]", quoted(text)), &before);
                    starts.push(format!("before {}calls", rest.lark()));
                }
                None if pieces.text.0.is_empty() => {
                    let before = text_without(self.begins_as_stray(tools).as_slice());
                    self.rule("BEFORE", &before);
                    starts.push(format!("BEFORE {first}calls"));
                }
                None => starts.push(format!("{gap}{first}calls")),
            }
        } else {
            starts.push(format!("{gap}{first}calls"));
            if !pieces.lead.is_empty() {
                starts.push(format!("{gap}{}{first}calls", pieces.lead.lark()));
            }
        }
        Ok(starts)
    }

    /// A call from its name on, to where its arguments end.
    fn call(&mut self, number: usize, tool: &Tool) -> Result<String, Error> {
        let pieces = &self.inner.pieces;
        let name = Literal::new("", &self.inner.tokenizer).then(&tool.name).followed_by(&pieces.middle).lark();
        let rule = format!("arguments_{number}");
        if let ToolInput::Text(Some(grammar)) = &tool.parameters
            && tool.is_raw()
        {
            let body = lark_of(grammar, &self.inner.tokenizer.limits())?;
            self.rule(&rule, &body);
        } else if pieces.tags.is_some() {
            self.tagged(&rule, tool)?;
        } else if let Some(quote) = &pieces.quote {
            Shape { form: self, tool, quote, root: tool.schema(), rules: 0 }.object_of(&rule, &tool.schema())?;
        } else {
            let schema = self.schema(tool.schema(), tool, true)?;
            self.rule(&rule, &format!("%json {schema}"));
        }
        Ok(format!("{name}{rule}"))
    }

    /// A schema, written as templates write JSON, so that a call is found again in the history as it was generated.
    pub fn schema(&self, schema: Value, tool: &Tool, object: bool) -> Result<String, Error> {
        let style = json!({ "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false });
        self.styled(schema, tool, object, style)
    }

    fn styled(&self, mut schema: Value, tool: &Tool, object: bool, mut style: Value) -> Result<String, Error> {
        if object && let Some(map) = schema.as_object_mut() {
            map.remove("$schema");
        }
        style["lenient"] = (!tool.strict).into();
        if let Some(map) = schema.as_object_mut() {
            map.insert(STYLE.into(), style);
        }
        let text = schema.to_string();
        schema_within_limits(&text)
            .map_err(|why| unusable(format!("the schema of the tool {:?} cannot be kept: {why}", tool.name)))?;
        Ok(text)
    }

    /// Every argument between its tags, in the order in which they are declared.
    fn tagged(&mut self, rule: &str, tool: &Tool) -> Result<(), Error> {
        let Some(tags) = &self.inner.pieces.tags else { return Ok(()) };
        let mut body = String::new();
        for (number, parameter) in tool.parameters().into_iter().enumerate() {
            let value = format!("{rule}_{number}");
            let text = parameter.kind != Kind::Json;
            let name = Literal::new("", &self.inner.tokenizer).then(&parameter.name);
            let head = tags.open.followed_by(&name).followed_by(&tags.equals[usize::from(!text)]);
            let close = tags.close.lark();
            if text {
                self.text_value(&value, &parameter.schema, tool, &tags.close)?;
            } else {
                let schema = self.schema(parameter.schema, tool, false)?;
                self.rule(&value, &format!("%json {schema}\n"));
                self.rule(&format!("{value}_closed"), &format!("{value} {close}"));
            }
            let optional = if parameter.required { "" } else { "?" };
            let _ = write!(body, "({}{value}_closed){optional} ", head.lark());
        }
        self.rule(rule, if body.is_empty() { "\"\"" } else { &body });
        Ok(())
    }

    /// A string as it is, and what ends it: the rule's name goes on with `_closed`.
    pub fn text_value(&mut self, rule: &str, schema: &Value, tool: &Tool, close: &Literal) -> Result<(), Error> {
        let rule = format!("{rule}_closed");
        let given = schema["enum"].as_array().cloned().or_else(|| schema.get("const").map(|one| vec![one.clone()]));
        if let Some(given) = given {
            let strings: Vec<String> = given.iter().filter_map(Value::as_str).map(quoted).collect();
            self.rule(&rule, &format!("({}) {}", strings.join(" | "), close.lark()));
            return Ok(());
        }
        let body = body(schema, tool)?;
        // Where a token ends it, any text may come before.
        let (before, token) = close.split_at_token();
        if !token.is_empty() {
            let name = rule.to_uppercase();
            self.rule(&name, &body);
            self.rule(&rule, &format!("{name} {}", token.lark()));
            return Ok(());
        }
        let end = before.exact().into_iter().collect::<String>();
        let end = end.trim_end();
        let excluded = format!("(?s:.*){}(?s:.*)", escape(end.trim_start()));
        self.rule(&format!("{rule}_text[suffix={}]", quoted(end)), &format!("{body} & ~/{excluded}/"));
        let rest: String = before.exact()[end.chars().count()..].iter().collect();
        self.rule(&rule, &format!("{rule}_text {}", quoted(&rest)));
        Ok(())
    }
}

/// The form of a string that stands as it is, as a regular expression.
fn body(schema: &Value, tool: &Tool) -> Result<String, Error> {
    let mut all = vec![ANY.to_owned()];
    let length = |key: &str| schema[key].as_u64();
    if let (least, Some(most)) = (length("minLength").unwrap_or(0), length("maxLength")) {
        all.push(format!("/(?s:.{{{least},{most}}})/"));
    } else if let Some(least) = length("minLength").filter(|least| *least > 0) {
        all.push(format!("/(?s:.{{{least},}})/"));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        match searched(pattern) {
            Some(pattern) => all.push(pattern),
            None if tool.strict => {
                let shown = crate::error::excerpt(pattern);
                return Err(unusable(format!("the pattern {shown:?} of the tool {:?} cannot be kept", tool.name)));
            }
            None => {}
        }
    }
    Ok(all.join(" & "))
}

/// Text in which a pattern is found; `None` where that depends on what stands around.
fn searched(pattern: &str) -> Option<String> {
    let (start, rest) = pattern.strip_prefix('^').map_or(("(?s:.*)", pattern), |rest| ("", rest));
    let (rest, end) = match rest.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') => (rest, ""),
        _ => (rest, "(?s:.*)"),
    };
    let parsed = regex_syntax::parse(rest).ok()?;
    // `^a|b$` is something else.
    let splits = matches!(parsed.kind(), regex_syntax::hir::HirKind::Alternation(_)) && rest.len() < pattern.len();
    (parsed.properties().look_set().is_empty() && !splits).then(|| format!("/{start}(?:{}){end}/", regex_literal(rest)))
}

/// Any text but these, as regular expressions.
fn text_without(excluded: &[String]) -> String {
    let all: Vec<String> = excluded.iter().map(|excluded| format!(" & ~/{excluded}/")).collect();
    format!("{ANY}{}", all.concat())
}

/// A fixed text as a regular expression, with white space, though not without end, around the signs of JSON.
fn spaced(literal: &Literal) -> String {
    let mut out = String::new();
    let is_sign = |c: char| "{},:".contains(c);
    let mut after_sign = false;
    for c in literal.marked() {
        if after_sign || is_sign(c) {
            out.push_str("\\s{0,16}");
        }
        out.push_str(&escape(&c.to_string()));
        after_sign = is_sign(c);
    }
    if after_sign {
        out.push_str("\\s{0,16}");
    }
    out
}

/// Text as a regular expression in the language of grammars.
fn escape(text: &str) -> String {
    regex_literal(&regex_syntax::escape(text))
}
