//! Where a conversation leaves the prefix that the cache had of it: what users of agents ask when every turn is slow.

use crate::models::Generator;
use serde_json::Value;

/// The bytes of a prompt at which its messages begin.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<usize>);

impl Places {
    /// Finds the messages' texts in a prompt, one after the other; a template may have changed some beyond recognition, and
    /// those count to the one before.
    pub fn find(prompt: &str, messages: &[Value]) -> Self {
        let (mut from, mut begins) = (0, 0);
        let places = messages.iter().map(|message| {
            let text = message["content"].as_str().map(str::trim).unwrap_or_default();
            // A long text is known by its beginning.
            let text = &text[..text.floor_char_boundary(256)];
            if let Some(at) = prompt.get(from..).and_then(|rest| rest.find(text)).filter(|_| !text.is_empty()) {
                begins = from + at;
                from = begins + text.len();
            }
            begins
        });
        Places(places.collect())
    }

    /// The message that token `at` of `tokens` belongs to.
    pub fn message(&self, generator: &Generator, tokens: &[u32], at: usize) -> Option<usize> {
        // Its last byte: its first may be a space before the message.
        let bytes: usize = tokens.iter().take(at + 1).map(|token| generator.token_bytes(*token).len()).sum();
        self.0.iter().rposition(|begins| *begins < bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_found_in_their_order() {
        let messages = ["be kind", "hi", "hi there", "hi"].map(|text| json!({ "content": text }));
        let prompt = "<s>be kind</s><u>hi</u><a>hi there</a><u>hi</u>";
        assert_eq!(Places::find(prompt, &messages).0, [3, 17, 26, 41]);
    }
}
