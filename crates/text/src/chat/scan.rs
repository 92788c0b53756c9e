//! Finding one's way in the text of an expression.

/// Words that end no operand.
pub(super) const KEYWORDS: [&str; 18] = [
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

/// Comparing with a literal of at most so many bytes costs no more than a step.
pub(super) const SHORT: usize = 256;

/// Whether what comes next is a value for the names before.
pub(super) fn assigned(bytes: &[u8], at: usize) -> bool {
    let at = skip_space(bytes, at);
    bytes.get(at) == Some(&b'=') && bytes.get(at + 1) != Some(&b'=')
}

/// Whether the right side of a comparison is a short literal, or a list of such.
pub(super) fn literals_follow(bytes: &[u8], from: usize) -> bool {
    let mut at = skip_space(bytes, from);
    let listed = matches!(bytes.get(at), Some(b'[' | b'('));
    at += usize::from(listed);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => match string_end(bytes, at, byte) {
                Some(end) => at = end,
                None => return false,
            },
            b']' | b')' | b',' if !listed => break,
            b']' | b')' => {
                at += 1;
                break;
            }
            b',' => at += 1,
            _ if byte.is_ascii_whitespace() => at += 1,
            _ if is_word(byte) => {
                let end = word_end(bytes, at);
                match &bytes[at..end] {
                    b"none" | b"true" | b"false" | b"None" | b"True" | b"False" => {}
                    digits if digits.iter().all(u8::is_ascii_digit) => {}
                    _ => return false,
                }
                at = end;
            }
            _ => return false,
        }
        if !listed {
            break;
        }
    }
    if at - from > SHORT {
        return false;
    }
    at = skip_space(bytes, at);
    match bytes.get(at) {
        None | Some(b')' | b']' | b'}' | b',' | b':') => true,
        Some(_) => std::str::from_utf8(&bytes[at..word_end(bytes, at)]).is_ok_and(|word| KEYWORDS.contains(&word)),
    }
}

/// Whether a key is a literal text, or the number of one of the first items: they cost no more than a step.
pub(super) fn is_near(key: &str) -> bool {
    let key = key.trim().as_bytes();
    match key.first() {
        Some(quote @ (b'\'' | b'"')) => key.len() <= SHORT && string_end(key, 0, *quote) == Some(key.len()),
        _ => key.len() <= 2 && key.iter().all(u8::is_ascii_digit),
    }
}

pub(super) fn skip_space(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// The next byte that is not white space.
pub(super) fn next(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(skip_space(bytes, at)).copied()
}

pub(super) fn word_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|b| is_word(**b)).count()
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
