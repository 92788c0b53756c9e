//! Template expressions rewritten so that every operation that makes new text or new lists pays for it.
//!
//! The operands of `+` pass a filter that counts them, those of `~` one that also writes them as Python does; slices and
//! the results of filters are counted; `*` becomes a filter that counts before it repeats. The filters give back what
//! they got, so the value of an expression stays what it was, with one difference that is wanted: what is added to a
//! text marked `|safe` is escaped, as Python's markup strings do.

use super::budget::{COUNT, COUNT_ALL, MARKUP, NUMBER, REPEAT, TEXT};

/// Words that end no operand.
const KEYWORDS: [&str; 18] = [
    "and",
    "or",
    "not",
    "in",
    "is",
    "if",
    "elif",
    "else",
    "for",
    "set",
    "do",
    "call",
    "filter",
    "with",
    "macro",
    "recursive",
    "block",
    "autoescape",
];

/// What an open bracket (or the whole expression) is, and which operations are under way directly inside it.
#[derive(Default)]
struct Frame {
    /// `x[…]`, and whether a colon makes it a slice.
    subscript: bool,
    sliced: bool,
    /// The arguments of a filter, and the filter that its result goes through.
    result: Option<&'static str>,
    sum: bool,
    /// The sum has a term marked `|safe`.
    safe_sum: bool,
    text: bool,
    /// What ends the right operand of `*`.
    factor: Option<Factor>,
    /// `/`, `%` or `**` came before: the left operand of a following `*` is not the last word.
    quotient: bool,
}

#[derive(Clone, Copy)]
enum Factor {
    /// It is the argument of a filter.
    Argument,
    /// It must be a number.
    Number,
}

impl Frame {
    /// Ends the right operand of `*`.
    fn end_factor(&mut self, out: &mut String) {
        match self.factor.take() {
            None => return,
            Some(Factor::Argument) => out.push(')'),
            Some(Factor::Number) => pipe(NUMBER, out),
        }
        self.quotient = false;
    }

    /// Ends every operation that is under way.
    fn end(&mut self, out: &mut String) {
        self.end_factor(out);
        for (active, filter) in [(&mut self.safe_sum, MARKUP), (&mut self.text, TEXT), (&mut self.sum, COUNT)] {
            if std::mem::take(active) {
                pipe(filter, out);
            }
        }
        self.quotient = false;
    }
}

fn pipe(filter: &str, out: &mut String) {
    out.push('|');
    out.push_str(filter);
    out.push(' ');
}

/// Appends the rewritten `body` to `out`.
pub(super) fn counted(body: &str, out: &mut String) {
    let bytes = body.as_bytes();
    let mut frames = vec![Frame::default()];
    let mut at = 0;
    let mut operand = false; // The last token ends an operand.
    let mut piped = false; // The last token is `|`.
    let mut safe_term = false; // The last term ends in `|safe`.
    let mut filter = None; // The last token is a filter whose arguments follow.
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        if byte.is_ascii_whitespace() {
            out.push(byte as char);
            at += 1;
            continue;
        }
        let was_piped = std::mem::take(&mut piped);
        let called = filter.take();
        // Never empty: the first frame is not popped.
        let Some(frame) = frames.last_mut() else { return };
        match byte {
            b'\'' | b'"' => {
                at = string_end(bytes, at, byte).unwrap_or(bytes.len());
                out.push_str(&body[start..at]);
                (operand, safe_term) = (true, false);
            }
            _ if is_word(byte) => {
                at += bytes[at..].iter().position(|&b| !is_word(b)).unwrap_or(bytes.len() - at);
                let word = &body[start..at];
                if KEYWORDS.contains(&word) && !was_piped {
                    if operand {
                        frame.end(out);
                    }
                    operand = false;
                    out.push_str(word);
                    continue;
                }
                out.push_str(word);
                (operand, safe_term) = (true, was_piped && word == "safe");
                if was_piped {
                    let result = if word == "map" { COUNT_ALL } else { COUNT };
                    if next(bytes, at) == Some(b'(') { filter = Some(result) } else { pipe(result, out) }
                }
            }
            b'+' if operand => {
                frame.end_factor(out);
                if frame.safe_sum {
                    pipe(MARKUP, out);
                }
                if std::mem::take(&mut frame.text) {
                    pipe(TEXT, out);
                }
                pipe(COUNT, out);
                frame.safe_sum |= safe_term;
                (frame.sum, frame.quotient) = (true, false);
                out.push('+');
                (at, operand) = (at + 1, false);
            }
            b'~' if operand => {
                frame.end_factor(out);
                pipe(TEXT, out);
                (frame.text, frame.quotient) = (true, false);
                out.push('~');
                (at, operand) = (at + 1, false);
            }
            b'*' | b'/' | b'%' if operand => {
                let double = byte != b'%' && bytes.get(at + 1) == Some(&byte);
                at += 1 + usize::from(double);
                match (byte, double) {
                    (b'*', false) => {
                        frame.end_factor(out);
                        if frame.quotient {
                            out.push('*');
                            frame.factor = Some(Factor::Number);
                        } else {
                            out.push('|');
                            out.push_str(REPEAT);
                            out.push('(');
                            frame.factor = Some(Factor::Argument);
                        }
                    }
                    // Binds tighter than `*`: part of the operand.
                    (b'*', true) => {
                        frame.quotient |= frame.factor.is_none();
                        out.push_str("**");
                    }
                    _ => {
                        frame.end_factor(out);
                        frame.quotient = true;
                        out.push_str(&body[start..at]);
                    }
                }
                operand = false;
            }
            b'(' | b'[' | b'{' => {
                let subscript = byte == b'[' && operand;
                let result = called.filter(|_| byte == b'(');
                frames.push(Frame { subscript, result, ..Frame::default() });
                out.push(byte as char);
                (at, operand) = (at + 1, false);
            }
            b')' | b']' | b'}' => {
                if operand {
                    frame.end(out);
                }
                out.push(byte as char);
                at += 1;
                let closed = if frames.len() > 1 { frames.pop() } else { None }.unwrap_or_default();
                if let Some(result) = closed.result {
                    pipe(result, out);
                }
                // Between a slice and what is taken from it no filter can stand; then the slice itself is short-lived.
                if closed.subscript && closed.sliced && !matches!(next(bytes, at), Some(b'[' | b'.' | b'(')) {
                    pipe(COUNT, out);
                }
                (operand, safe_term) = (true, false);
            }
            _ => {
                if matches!(byte, b',' | b':' | b'=' | b'<' | b'>' | b'!' | b'-') && operand {
                    frame.end(out);
                }
                frame.sliced |= byte == b':';
                piped = byte == b'|';
                (operand, safe_term) = (false, false);
                at += 1;
                out.push(byte as char);
            }
        }
    }
    if operand && let Some(frame) = frames.last_mut() {
        frame.end(out);
    }
}

/// The next byte that is not white space.
fn next(bytes: &[u8], at: usize) -> Option<u8> {
    bytes[at..].iter().copied().find(|b| !b.is_ascii_whitespace())
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The index after the string literal that starts at `at`.
pub(super) fn string_end(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 1,
            b if b == quote => return Some(i + 1),
            _ => {}
        }
        i += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_text_is_counted() {
        for (body, expected) in [
            ("a + b", "a |__count + b|__count "),
            ("+1", "+1"),
            ("a.b + c[0] - d", "a.b |__count + c[0] |__count - d"),
            ("'a + b' ~ x ~ y", "'a + b' |__text ~ x |__text ~ y|__text "),
            ("a + b ~ c + d", "a |__count + b |__text ~ c |__text |__count + d|__count "),
            ("f(a + b, c)", "f(a |__count + b|__count , c)"),
            ("a + b if c else d", "a |__count + b |__count if c else d"),
            ("a + b == c", "a |__count + b |__count == c"),
            ("x | trim", "x | trim|__count "),
            ("x | default('a') | map('b')", "x | default('a')|__count  | map('b')|__count_all "),
            ("s[1:]", "s[1:]|__count "),
            ("s[1:][0]", "s[1:][0]"),
            ("[1, a][b]", "[1, a][b]"),
            ("{'a': b}['c']", "{'a': b}['c']"),
            ("a * b", "a |__repeat( b)"),
            ("a * b * c", "a |__repeat( b )|__repeat( c)"),
            ("a * b + c", "a |__repeat( b )|__count + c|__count "),
            ("a / b * c + d", "a / b * c |__number |__count + d|__count "),
            ("a * b ** c * d", "a |__repeat( b ** c )|__repeat( d)"),
            ("a ** b * c", "a ** b * c|__number "),
            ("a % b // c", "a % b // c"),
            ("-a * -b", "-a |__repeat( -b)"),
            ("f(*args)", "f(*args)"),
            ("'x'|safe + f(a) + c", "'x'|safe|__count  |__count + f(a) |__markup |__count + c|__markup |__count "),
            ("[a|safe + b, c]", "[a|safe|__count  |__count + b|__markup |__count , c]"),
            ("x is in + y", "x is in + y"),
            ("é ~ 'ü'", "é |__text ~ 'ü'|__text "),
        ] {
            let mut out = String::new();
            counted(body, &mut out);
            assert_eq!(out, expected, "{body}");
        }
    }
}
