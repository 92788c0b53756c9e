//! Metal's language is C++ but for a few things, which are written anew here: function constants, threadgroup memory that a kernel
//! declares, and how kernels are called. Everything else is in `cpp/include/metal_stdlib`.

use crate::source;
use std::fmt::Write;

/// An argument of a kernel: what its attribute says, as the emulator calls it.
struct Argument(String);

/// C++ of a Metal source that is whole, with a table of its kernels at the end: of those that are no templates only `once`.
pub fn translate(path: &str, source: &str, once: bool) -> Result<String, String> {
    let source = keyword(source);
    let mut out = String::from("#include <metal_stdlib>\n");
    // A kernel that is instantiated for some formats here is instantiated for others elsewhere; the rest is in the first file.
    let mut of_formats = false;
    let mut registered = Vec::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let mut words = line.trim().to_owned();
        if words.starts_with("threadgroup ") && lines.peek().is_some_and(|next| next.trim().starts_with('[')) {
            // Its bounds are on a line of their own.
            words += lines.next().expect("it was there").trim();
            out.push('\n');
        }
        let words = words.as_str();
        let at = || format!("{path}: {words}");
        if words.contains("[[function_constant(") {
            out += &function_constant(words).ok_or_else(|| format!("{}: not a function constant", at()))?;
        } else if let Some(declared) = words.strip_prefix("threadgroup ").filter(|d| d.ends_with("];")) {
            out += &threadgroup_memory(declared).ok_or_else(|| format!("{}: not a declaration", at()))?;
        } else if words == source::OF_FORMATS {
            of_formats = true;
        } else if let Some(list) = words.strip_prefix("INSTANTIATE(") {
            if once || of_formats {
                registered.push(list.to_owned());
            }
        } else if !words.starts_with("#include <metal_") {
            of_formats &= !words.starts_with("#line");
            // Here `threadgroup` is nothing, and `constant` is `const`, which may be said once.
            let line = line.replace("[[threadgroup(", "[[argument(");
            let line = without_const(&without_const(&line, "const constant", "constant"), "constant const", "constant");
            out += &without_const(&line, "constant constexpr const", "constant constexpr");
        }
        out.push('\n');
    }
    let text = without_comments(&source);
    let kernels = kernels(&text).map_err(|why| format!("{path}: {why}"))?;
    for (name, template, arguments) in &kernels {
        if !template && once {
            register(&mut out, name, name, arguments);
        }
    }
    for line in registered {
        let parts: Vec<&str> = line.trim_end_matches([')', ';']).splitn(3, ',').map(str::trim).collect();
        let [name, function, parameters] = parts[..] else { return Err(format!("{path}: INSTANTIATE({line}")) };
        let found = kernels.iter().find(|(of, ..)| of == function);
        let (_, _, arguments) = found.ok_or_else(|| format!("{path}: there is no kernel {function}"))?;
        register(&mut out, name, &format!("{function}<{parameters}>"), arguments);
    }
    Ok(out)
}

fn register(out: &mut String, name: &str, function: &str, arguments: &[Argument]) {
    let arguments: Vec<&str> = arguments.iter().map(|a| a.0.as_str()).collect();
    let list = arguments.join(", ");
    let _ = writeln!(
        out,
        "static void emulator_run_{name}() {{ emulator_call(&{function}, {list}); }}\n\
         static emulator::Register emulator_register_{name}(\"{name}\", emulator_run_{name});"
    );
}

/// A line with `less` instead of words that say `const` twice.
fn without_const(line: &str, words: &str, less: &str) -> String {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let mut parts = line.split(words);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += if goes_on(part) { words } else { less };
        out += part;
    }
    out
}

/// `kernel`, where a source has the attribute `[[kernel]]` instead.
fn keyword(source: &str) -> String {
    let mut parts = source.split("[[kernel");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (attribute, rest) = part.split_once("]]").unwrap_or((part, ""));
        out += "kernel";
        out.extend(attribute.chars().filter(|c| *c == '\n'));
        out += rest;
    }
    out
}

/// `constant uint head_dim [[function_constant(0)]];`
fn function_constant(line: &str) -> Option<String> {
    let (declared, number) = line.strip_prefix("constant ")?.split_once(" [[function_constant(")?;
    let (kind, name) = declared.trim().rsplit_once(' ')?;
    let number: u32 = number.strip_suffix(")]];")?.parse().ok()?;
    Some(format!("static const emulator_function_constant<{kind}, {number}> {name};"))
}

/// `float sums[32];`
fn threadgroup_memory(declared: &str) -> Option<String> {
    let (declared, bounds) = declared.strip_suffix(';')?.split_once('[')?;
    let (kind, name) = declared.trim().rsplit_once(' ')?;
    Some(format!("EMULATOR_SHARED({kind}, {name}, [{bounds});"))
}

/// The names of kernels, whether they are templates, and their arguments.
fn kernels(text: &str) -> Result<Vec<(String, bool, Vec<Argument>)>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("kernel void ") {
        let before = rest[..at].trim_end();
        let template = before.ends_with('>') && before.rfind("template").is_some_and(|t| !before[t..].contains(';'));
        let after = &rest[at + "kernel void ".len()..];
        let open = after.find('(').ok_or("a kernel has arguments")?;
        let name = after[..open].trim().to_owned();
        let (mut depth, mut end) = (0, None);
        let mut parts = vec![String::new()];
        for (at, c) in after[open..].char_indices() {
            match c {
                '(' | '[' | '<' => depth += 1,
                ')' | ']' | '>' => depth -= 1,
                _ => {}
            }
            match c {
                _ if depth == 0 => {
                    end = Some(open + at);
                    break;
                }
                '(' if depth == 1 => {}
                ',' if depth == 1 => parts.push(String::new()),
                _ => parts.last_mut().expect("one at least").push(c),
            }
        }
        // A buffer without a number has the first that no other has.
        let mut free = (0..).map(|n| format!("buffer({n})")).filter(|number| !parts.iter().any(|p| p.contains(number)));
        let mut arguments = Vec::new();
        for part in &parts {
            let argument = argument(part, &mut free);
            arguments.push(argument.ok_or_else(|| format!("{name}: the argument {part:?}"))?);
        }
        found.push((name.clone(), template, arguments));
        rest = &after[end.ok_or("arguments end")?..];
    }
    Ok(found)
}

/// Of `device float *x [[buffer(0)]]`, what the emulator gives it; one that has no attribute is the next of the free buffers.
fn argument(text: &str, free: &mut dyn Iterator<Item = String>) -> Option<Argument> {
    let attributes = match text.trim().strip_suffix("]]").and_then(|text| text.rsplit_once("[[")) {
        Some((_, attributes)) => attributes.to_owned(),
        None if text.contains(['*', '&']) => free.next()?,
        None => return None,
    };
    // After it may be a function constant, which says whether the argument is there.
    let attribute = attributes.split(", ").next()?;
    let numbered = |kind: &str| attribute.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')');
    Some(Argument(match (numbered("buffer"), numbered("threadgroup")) {
        (Some(number), _) => format!("emulator_buffer{{{number}}}"),
        (_, Some(number)) => format!("emulator_threadgroup{{{number}}}"),
        _ => format!("emulator_{attribute}()"),
    }))
}

fn without_comments(source: &str) -> String {
    let mut text = String::new();
    for line in source.lines() {
        text += line.split_once("//").map_or(line, |(code, _)| code);
        text.push('\n');
    }
    while let Some((before, after)) = text.split_once("/*") {
        text = format!("{before}{}", after.split_once("*/").map_or("", |(_, rest)| rest));
    }
    text
}
