//! A Rust file in three views: its text, its code without comments and string contents, its code with strings.
//!
//! All views have the same lines, so that what is found in one can be reported by line.

/// A Rust file.
pub(crate) struct Source {
    pub path: String,
    pub text: Vec<String>,
    /// Comments and the contents of strings and characters are blank.
    pub code: Vec<String>,
    /// Comments are blank.
    pub code_and_strings: Vec<String>,
    /// The line that the file's test module begins at, from 0; what follows are tests.
    pub tests_from: usize,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let (code, code_and_strings) = views(text);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let code = lines(&code);
        let is_test_file = ["tests/", "tests.rs", "benches/", "examples/"].iter().any(|part| path.contains(part))
            || path.ends_with("_tests.rs");
        let module = code.iter().position(|line| line.trim_start().starts_with("#[cfg(test)]"));
        let tests_from = if is_test_file { 0 } else { module.unwrap_or(usize::MAX) };
        Self { path: path.to_owned(), text: lines(text), code, code_and_strings: lines(&code_and_strings), tests_from }
    }

    /// Line numbers from 1 and lines of `view` outside tests.
    pub fn outside_tests<'a>(&self, view: &'a [String]) -> impl Iterator<Item = (usize, &'a str)> {
        view.iter().take(self.tests_from).enumerate().map(|(i, line)| (i + 1, line.as_str()))
    }
}

/// What the reader is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    LineComment,
    /// Nested so many times.
    BlockComment(u32),
    String,
    /// Ended by a quote and so many `#`.
    RawString(usize),
    Character,
}

/// The text without comments and string contents, and without comments only.
fn views(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut with_strings) = (String::with_capacity(text.len()), String::with_capacity(text.len()));
    let mut inside = Inside::Code;
    let mut i = 0;
    while i < chars.len() {
        let at = |offset: usize| chars.get(i + offset).copied().unwrap_or('\0');
        let before = inside;
        // Characters that belong together and are taken at once.
        let mut taken = 1;
        match inside {
            Inside::Code => match (at(0), at(1)) {
                ('/', '/') => inside = Inside::LineComment,
                ('/', '*') => (inside, taken) = (Inside::BlockComment(1), 2),
                ('"', _) => inside = Inside::String,
                ('r', '"' | '#') if i == 0 || !is_word(chars[i - 1]) || chars[i - 1] == 'b' => {
                    let hashes = (1..).take_while(|&n| at(n) == '#').count();
                    if at(1 + hashes) == '"' {
                        (inside, taken) = (Inside::RawString(hashes), 2 + hashes);
                    }
                }
                // A lifetime has no closing quote near; '\'' and 'x' do.
                ('\'', '\\') => inside = Inside::Character,
                ('\'', _) if at(2) == '\'' => inside = Inside::Character,
                _ => {}
            },
            Inside::LineComment if at(0) == '\n' => inside = Inside::Code,
            Inside::BlockComment(depth) => match (at(0), at(1)) {
                ('*', '/') => {
                    taken = 2;
                    inside = if depth == 1 { Inside::Code } else { Inside::BlockComment(depth - 1) };
                }
                ('/', '*') => (inside, taken) = (Inside::BlockComment(depth + 1), 2),
                _ => {}
            },
            Inside::String | Inside::Character => match (at(0), inside) {
                ('\\', _) => taken = 2,
                ('"', Inside::String) | ('\'', Inside::Character) => inside = Inside::Code,
                _ => {}
            },
            Inside::RawString(hashes) if at(0) == '"' && (1..=hashes).all(|n| at(n) == '#') => {
                (inside, taken) = (Inside::Code, 1 + hashes);
            }
            _ => {}
        }
        let is_comment = |s: Inside| matches!(s, Inside::LineComment | Inside::BlockComment(_));
        let comment = is_comment(before) || is_comment(inside);
        let delimiter = (before == Inside::Code) != (inside == Inside::Code);
        for &c in chars.iter().skip(i).take(taken) {
            let blank = |hidden: bool| if hidden && c != '\n' { ' ' } else { c };
            code.push(blank(comment || before != Inside::Code && !delimiter));
            with_strings.push(blank(comment));
        }
        i += taken;
    }
    (code, with_strings)
}

/// A character of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank_and_lines_stay() {
        let text = "let a = \"x // y\"; // z\n/* u /* v */ w */ let b = 'c'; let d: &'static str = r#\"e\"f\"#;\n";
        let (code, strings) = views(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.lines().count(), 2);
        assert!(code.contains("let a = \"") && !code.contains('x') && !code.contains('z'), "{code}");
        assert!(code.contains("let b = '") && !code.contains('v') && !code.contains("'c'"), "{code}");
        assert!(code.contains("&'static str = r#\"") && !code.contains("e\"f"), "{code}");
        assert!(strings.contains("\"x // y\"") && strings.contains("'c'") && strings.contains("e\"f"), "{strings}");
        assert!(!strings.contains('z') && !strings.contains('v'), "{strings}");
    }

    #[test]
    fn quotes_that_open_nothing() {
        let (code, _) = views(r#"let q = '"'; let e = '\''; let s = "\"a"; f::<'a>(b'"'); end"#);
        assert!(code.ends_with("end"), "{code}");
        assert!(!code.contains("\\\"a"), "{code}");
    }
}
