//! Where a conversation leaves the prefix that the cache had of it: what users of agents ask when every turn is slow.

use crate::models::Generator;
use serde_json::Value;

/// The bytes of a prompt at which the texts of its messages end.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<usize>);

impl Places {
    /// Finds the messages' texts in a prompt, one after the other; a template may have changed some beyond recognition.
    pub fn find(prompt: &str, messages: &[Value]) -> Self {
        let mut end = 0;
        let ends = messages.iter().map(|message| {
            let text = message["content"].as_str().map(str::trim).unwrap_or_default();
            // A long text is known by its beginning.
            let known = &text[..text.floor_char_boundary(256)];
            if let Some(at) = prompt.get(end..).and_then(|rest| rest.find(known)) {
                end = prompt.floor_char_boundary(end + at + text.len());
            }
            end
        });
        Places(ends.collect())
    }

    /// The message that token `at` of `tokens` belongs to; what stands between two belongs to the second.
    pub fn message(&self, generator: &Generator, tokens: &[u32], at: usize) -> Option<usize> {
        let bytes: usize = tokens.iter().take(at).map(|token| generator.token_bytes(*token).len()).sum();
        self.0.iter().position(|end| bytes < *end)
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
        assert_eq!(Places::find(prompt, &messages).0, [10, 19, 34, 43]);
    }
}
