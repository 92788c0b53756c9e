//! Template sources made safe to run: `{% generation %}` becomes something the engine knows, and every place where a
//! text can grow reports to the budget.
//!
//! The engine bounds steps and recursion, not bytes: `s + s` in a loop would double a text until memory ends. So
//! expressions are counted (see `expression.rs`), values on their way into a variable pass a filter that limits their
//! depth, those on their way into a namespace one that sets them (see `namespace.rs`), and long literal texts are announced before they are emitted. None of this changes what is rendered.

use super::budget::{KEEP, TICK};
use super::expression::counted;
use super::namespace::SET;
use super::scan::{is_word, string_end};

/// The variable that takes what setting an attribute gives, and before that the text of a block.
const DONE: &str = "__done";

/// Literal texts shorter than this are paid for by the step that emits them.
const SHORT_LITERAL: usize = 32;

/// The engine's compiler recurses along chains of operators and of `elif`; these are far above what templates have.
const MAX_OPERATORS: usize = 2000;
const MAX_ELIFS: usize = 500;

/// The rewritten template, or why it cannot be compiled.
pub(super) fn prepare(source: &str) -> Result<String, &'static str> {
    let mut elifs = 0;
    // The attributes that open blocks are to be set to.
    let mut blocks: Vec<Option<Attribute<'_>>> = Vec::new();
    let mut out = String::with_capacity(source.len() + source.len() / 4);
    let mut rest = source;
    while let Some(at) = next_tag(rest) {
        out.push_str(&rest[..at]);
        let tag = &rest[at..];
        if tag.starts_with("{#") {
            let end = tag.find("#}").map_or(tag.len(), |end| end + 2);
            out.push_str(&tag[..end]);
            rest = &tag[end..];
            continue;
        }
        let Some(parsed) = Tag::parse(tag) else {
            // Unterminated: the engine says so better.
            out.push_str(tag);
            return Ok(out);
        };
        if parsed.operators() > MAX_OPERATORS {
            return Err("an expression in it is too long");
        }
        elifs += usize::from(parsed.keyword() == "elif");
        if elifs > MAX_ELIFS {
            return Err("it has too many conditions");
        }
        let after = &tag[parsed.length..];
        if parsed.keyword() == "raw" {
            let end = find_endraw(after).unwrap_or(after.len());
            if end >= SHORT_LITERAL {
                out.push_str(&format!("{} do {TICK}({end}) %}}", parsed.open));
            }
            out.push_str(&tag[..parsed.length + end]);
            rest = &after[end..];
            continue;
        }
        let mut following = Vec::new();
        match parsed.keyword() {
            "set" if assignment(parsed.body).is_none() => blocks.push(Attribute::of(parsed.body)?),
            "endset" => {
                let set = blocks.pop().flatten();
                following.extend(set.map(|a| format!("set {DONE} = {}|{SET}('{}', {DONE})", a.object, a.name)));
            }
            _ => {}
        }
        let literal = literal_length(after);
        if literal >= SHORT_LITERAL {
            following.push(if parsed.is_block() {
                format!("do {TICK}({literal})")
            } else {
                format!("{TICK}({literal})")
            });
        }
        parsed.write(&mut out, &following)?;
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Where the next `{{`, `{%` or `{#` is.
fn next_tag(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).position(|pair| pair[0] == b'{' && matches!(pair[1], b'{' | b'%' | b'#'))
}

/// How much text follows up to the next tag that does something.
fn literal_length(mut text: &str) -> usize {
    let mut length = 0;
    loop {
        let Some(at) = next_tag(text) else { return length + text.len() };
        length += at;
        match text[at..].strip_prefix("{#").and_then(|comment| comment.split_once("#}")) {
            Some((_, after)) => text = after,
            None => return length,
        }
    }
}

fn find_endraw(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find("{%") {
        let tag = &text[from + at..];
        if tag[2..].trim_start_matches(['-', '+']).trim_start().starts_with("endraw") {
            return Some(from + at);
        }
        from += at + 2;
    }
    None
}

/// A `{{ … }}` or `{% … %}` tag.
struct Tag<'s> {
    /// `{{`, `{%` with their whitespace mark.
    open: &'s str,
    body: &'s str,
    /// `}}`, `%}` with their whitespace mark.
    close: &'s str,
    length: usize,
}

impl<'s> Tag<'s> {
    /// The tag that `text` starts with.
    fn parse(text: &'s str) -> Option<Tag<'s>> {
        let bytes = text.as_bytes();
        let ending = if bytes[1] == b'{' { "}}" } else { "%}" };
        let opened = 2 + usize::from(matches!(bytes.get(2), Some(b'-' | b'+')));
        let mut at = opened;
        let mut depth = 0usize;
        while at < bytes.len() {
            let here = &text[at..];
            let marked = here.strip_prefix(['-', '+']).is_some_and(|h| h.starts_with(ending));
            if depth == 0 && (marked || here.starts_with(ending)) {
                let length = at + 2 + usize::from(marked);
                let (open, close) = (&text[..opened], &text[at..length]);
                return Some(Tag { open, body: &text[opened..at], close, length });
            }
            match bytes[at] {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                quote @ (b'\'' | b'"') => at = string_end(bytes, at, quote)? - 1,
                _ => {}
            }
            at += 1;
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
        None
    }

    fn is_block(&self) -> bool {
        self.open.starts_with("{%")
    }

    fn keyword(&self) -> &'s str {
        if !self.is_block() {
            return "";
        }
        let body = self.body.trim_start();
        &body[..body.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(body.len())]
    }

    /// How many operators, at most, its expression has: signs outside of strings, and words.
    fn operators(&self) -> usize {
        let bytes = self.body.as_bytes();
        let mut count = 0;
        let mut at = 0;
        while at < bytes.len() {
            let (word, before) = (is_word(bytes[at]), at.checked_sub(1).is_some_and(|i| is_word(bytes[i])));
            count += usize::from(!(bytes[at].is_ascii_whitespace() || word && before));
            at = match bytes[at] {
                quote @ (b'\'' | b'"') => string_end(bytes, at, quote).unwrap_or(bytes.len()),
                _ => at + 1,
            };
        }
        count
    }

    /// Writes the tag, and others that follow it and take over the closing mark, so that white space is trimmed as before.
    fn write(&self, out: &mut String, following: &[String]) -> Result<(), &'static str> {
        out.push_str(self.open);
        match self.keyword() {
            "generation" => out.push_str(" if true "),
            "endgeneration" => out.push_str(" endif "),
            "set" => {
                let at = assignment(self.body);
                let (target, value) = self.body.split_at(at.map_or(self.body.len(), |at| at + 1));
                match (Attribute::of(self.body)?, at) {
                    (Some(Attribute { object, name, .. }), Some(_)) => {
                        out.push_str(&format!(" set {DONE} = {object}|{SET}('{name}', ("));
                        counted(value, out);
                        out.push_str(")) ");
                    }
                    (Some(Attribute { filters, .. }), None) => {
                        out.push_str(&format!(" set {DONE} "));
                        counted(filters, out);
                    }
                    (None, Some(_)) => {
                        out.push_str(target);
                        out.push_str(" (");
                        counted(value, out);
                        out.push_str(")|");
                        out.push_str(KEEP);
                        out.push(' ');
                    }
                    (None, None) => counted(self.body, out),
                }
            }
            _ => counted(self.body, out),
        }
        let (end, begin) = if self.is_block() { ("%}", "{%") } else { ("}}", "{{") };
        for tag in following {
            out.push_str(&format!("{end}{begin} {tag} "));
        }
        out.push_str(self.close);
        Ok(())
    }
}

/// What `set object.name …` sets.
struct Attribute<'s> {
    object: &'s str,
    name: &'s str,
    /// Of a block.
    filters: &'s str,
}

impl<'s> Attribute<'s> {
    fn of(body: &'s str) -> Result<Option<Self>, &'static str> {
        let target = body.trim_start().strip_prefix("set").unwrap_or_default();
        let end = target.find(['=', '|']).unwrap_or(target.len());
        let (target, filters) = target.split_at(end);
        match target.rsplit_once('.') {
            None => Ok(None),
            Some(_) if target.contains([',', '(']) => Err("it sets several attributes at once"),
            Some((object, name)) => Ok(Some(Attribute { object: object.trim(), name: name.trim(), filters })),
        }
    }
}

/// Where the `=` of `set target = value` is.
fn assignment(body: &str) -> Option<usize> {
    let bytes = body.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'=' if depth == 0 => return (bytes.get(at + 1) != Some(&b'=')).then_some(at),
            // The target of a block has filters, and no value.
            b'|' if depth == 0 => return None,
            quote @ (b'\'' | b'"') => at = string_end(bytes, at, quote)? - 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_rewritten_and_the_rest_is_left_alone() {
        for (source, expected) in [
            ("plain {# a + b #} text", "plain {# a + b #} text"),
            ("{{ a + '}}' }}", "{{ a |__count + '}}' |__count }}"),
            ("{{- f({'a': {}}) -}}", "{{- f({'a': {}}) -}}"),
            ("{% if x +%}", "{% if x +%}"),
            ("{%- set a = b -%}", "{%- set a = ( b )|__keep -%}"),
            ("{%- set ns.a = b -%}", "{%- set __done = ns|__set('a', ( b )) -%}"),
            (
                "{% set n.s.a|upper -%} {% set x %}{% endset %} {%- endset -%}",
                "{% set __done |upper -%} {% set x %}{% endset %} {%- endset %}{% set __done = n.s|__set('a', __done) -%}",
            ),
            ("{% set x %}", "{% set x %}"),
            ("{% set x | default(a + b == c) %}", "{% set x | default((a |__count + b |__count )|__read == c) %}"),
            ("{%- generation -%}x{% endgeneration %}", "{%- if true -%}x{% endif %}"),
            (
                "{% raw %}{{ a + b }}{% endraw %}{{ a+b }}",
                "{% raw %}{{ a + b }}{% endraw %}{{ a|__count +b |__count }}",
            ),
            ("{{ a", "{{ a"),
        ] {
            assert_eq!(prepare(source).as_deref(), Ok(expected), "{source}");
        }
        assert!(prepare("{% set ns.a, b = 1, 2 %}").is_err());
        let long = "x".repeat(40);
        let raw = format!("{{%- raw -%}}{long}{{% endraw %}}");
        assert_eq!(prepare(&raw).unwrap(), format!("{{%- do __tick(40) %}}{raw}"));
        let ticked = prepare(&format!("{{% if a -%}}{long}")).unwrap();
        assert_eq!(ticked, format!("{{% if a %}}{{% do __tick(40) -%}}{long}"));
        let ticked = prepare(&format!("{{{{ a }}}}{long}")).unwrap();
        assert_eq!(ticked, format!("{{{{ a }}}}{{{{ __tick(40) }}}}{long}"));
    }
}
