//! Stop strings in a stream of text, wherever the pieces are cut.

/// Holds text back while it may be the beginning of a stop string.
#[derive(Debug, Default)]
pub struct StopStrings {
    /// Each with its place among those given.
    stops: Vec<(usize, String)>,
    held: String,
}

impl StopStrings {
    /// Empty strings stop nothing.
    pub fn new(stops: &[String]) -> Self {
        Self { stops: stops.iter().cloned().enumerate().filter(|s| !s.1.is_empty()).collect(), held: String::new() }
    }

    /// Adds text; what can be shown, and which stop string came, by its place among those given: then nothing after it will.
    pub fn push(&mut self, text: &str) -> (String, Option<usize>) {
        if self.stops.is_empty() {
            return (text.to_owned(), None);
        }
        self.held.push_str(text);
        let found = self.stops.iter().filter_map(|(i, stop)| Some((self.held.find(stop)?, *i)));
        if let Some((at, which)) = found.min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), Some(which));
        }
        let kept = self.stops.iter().map(|(_, stop)| overlap(&self.held, stop)).max().unwrap_or(0);
        let shown = self.held.len() - kept;
        let rest = self.held.split_off(shown);
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// What was held back and became no stop string.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes at the end of `text` that begin `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    let ends = |n: &usize| text.as_bytes().ends_with(&stop.as_bytes()[..*n]);
    // A match of bytes that ends a text begins at a character, because `stop` does.
    (1..=longest).rev().find(ends).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let stops: Vec<String> = stops.iter().map(|s| s.to_string()).collect();
        let mut stream = StopStrings::new(&stops);
        let mut shown = String::new();
        for piece in pieces {
            let (text, stopped) = stream.push(piece);
            shown.push_str(&text);
            if stopped.is_some() {
                return (shown, stopped);
            }
        }
        shown.push_str(&stream.flush());
        (shown, None)
    }

    #[test]
    fn a_stop_string_is_found_however_the_text_is_cut() {
        let text = "one two\n\nUser: three";
        let chars: Vec<String> = text.chars().map(String::from).collect();
        for size in 1..text.len() {
            let pieces: Vec<String> = chars.chunks(size).map(|c| c.concat()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(run(&["\nUser:"], &pieces), ("one two\n".into(), Some(0)), "{size}");
            assert_eq!(run(&["three", "two"], &pieces), ("one ".into(), Some(1)), "{size}");
            assert_eq!(run(&["User?", "\n\n\n", ""], &pieces), (text.into(), None), "{size}");
        }
    }

    #[test]
    fn what_cannot_become_a_stop_is_shown_at_once() {
        let mut stream = StopStrings::new(&["aab".to_owned(), "é!".to_owned()]);
        assert_eq!(stream.push("xa"), ("x".into(), None));
        assert_eq!(stream.push("a"), ("".into(), None));
        assert_eq!(stream.push("a"), ("a".into(), None));
        assert_eq!(stream.push("c"), ("aac".into(), None));
        assert_eq!(stream.push("é"), ("".into(), None));
        assert_eq!(stream.push("?"), ("é?".into(), None));
    }
}
