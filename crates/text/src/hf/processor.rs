//! The `post_processor` of tokenizer.json: the tokens that go around a text.

use serde_json::Value;

use crate::error::{Error, excerpt};
use crate::hf::{kind, malformed};

/// The most tokens that may go around a text; real processors add up to four.
const MAX_FRAME: usize = 256;

/// Adds to the tokens before and after a text; `count` is the size of the vocabulary.
pub(super) fn read(
    value: Option<&Value>,
    count: usize,
    before: &mut Vec<u32>,
    after: &mut Vec<u32>,
) -> Result<(), Error> {
    let Some(value) = value.filter(|v| !v.is_null()) else { return Ok(()) };
    match kind(value)? {
        "Sequence" => {
            for part in value.get("processors").and_then(Value::as_array).into_iter().flatten() {
                read(Some(part), count, before, after)?;
            }
        }
        "ByteLevel" => {}
        "BertProcessing" | "RobertaProcessing" => {
            let id = |key: &str| {
                let id = value.get(key).and_then(|pair| pair.get(1)).and_then(Value::as_u64);
                checked(id.ok_or_else(|| malformed(format!("the post-processor has no {key}")))?, count)
            };
            before.insert(0, id("cls")?);
            after.push(id("sep")?);
        }
        "TemplateProcessing" => template(value, count, before, after)?,
        other => return Err(Error::Unsupported(format!("the post-processor {:?}", excerpt(other)))),
    }
    fits(before.len() + after.len())
}

/// The tokens between the texts of a pair, where the processor says them.
pub(super) fn between(value: Option<&Value>, count: usize) -> Result<Option<Vec<u32>>, Error> {
    let Some(value) = value.filter(|v| !v.is_null()) else { return Ok(None) };
    match kind(value)? {
        "Sequence" => {
            let parts = value.get("processors").and_then(Value::as_array).into_iter().flatten();
            parts.map(|part| between(Some(part), count)).try_fold(None, |last, part| Ok(part?.or(last)))
        }
        "RobertaProcessing" => {
            let id = value.get("sep").and_then(|pair| pair.get(1)).and_then(Value::as_u64);
            let id = checked(id.ok_or_else(|| malformed("the post-processor has no sep"))?, count)?;
            Ok(Some(vec![id; 2]))
        }
        "TemplateProcessing" => {
            let Some(items) = value.get("pair").and_then(Value::as_array) else { return Ok(None) };
            let text = |item: &&Value| item.get("Sequence").is_none();
            let items = items.iter().skip_while(text).skip(1).take_while(text);
            let mut tokens = Vec::new();
            for item in items {
                ids(value, item, count, |id| tokens.push(id))?;
                fits(tokens.len())?;
            }
            Ok(Some(tokens))
        }
        _ => Ok(None),
    }
}

/// The ids of a template's item that is a token.
fn ids(template: &Value, item: &Value, count: usize, mut each: impl FnMut(u32)) -> Result<(), Error> {
    let name = item.get("SpecialToken").and_then(|t| t.get("id")).and_then(Value::as_str);
    let name = name.ok_or_else(|| malformed("a template has an item that is neither text nor token"))?;
    let ids = template.get("special_tokens").and_then(|t| t.get(name)).and_then(|t| t.get("ids"));
    let ids = ids.and_then(Value::as_array);
    for id in ids.ok_or_else(|| malformed(format!("a template names {:?} without its ids", excerpt(name))))? {
        each(checked(id.as_u64().ok_or_else(|| malformed("a template's id is not a number"))?, count)?);
    }
    Ok(())
}

fn template(value: &Value, count: usize, before: &mut Vec<u32>, after: &mut Vec<u32>) -> Result<(), Error> {
    let mut front = Vec::new();
    let mut back = Vec::new();
    let mut seen = false;
    for item in value.get("single").and_then(Value::as_array).into_iter().flatten() {
        if item.get("Sequence").is_some() {
            if std::mem::replace(&mut seen, true) {
                return Err(Error::Unsupported("a template that repeats the text".to_owned()));
            }
            continue;
        }
        let to = if seen { &mut back } else { &mut front };
        ids(value, item, count, |id| to.push(id))?;
        fits(front.len() + back.len())?;
    }
    if !seen {
        return Err(malformed("a template leaves the text out"));
    }
    before.splice(0..0, front);
    after.extend(back);
    Ok(())
}

fn fits(count: usize) -> Result<(), Error> {
    if count > MAX_FRAME {
        return Err(Error::Unsupported(format!("a post-processor that adds more than {MAX_FRAME} tokens")));
    }
    Ok(())
}

fn checked(id: u64, count: usize) -> Result<u32, Error> {
    match u32::try_from(id) {
        Ok(small) if (small as usize) < count => Ok(small),
        _ => Err(Error::SpecialIdOutOfRange { what: "post-processor's", id, count }),
    }
}

#[cfg(test)]
mod tests {
    use super::between;
    use serde_json::{Value, json};

    #[test]
    fn pairs_have_between_them_what_the_processor_says() {
        let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
        let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        let special = json!({"<s>": {"ids": [0]}, "</s>": {"ids": [2]}});
        let xlm = [token("<s>"), text("A"), token("</s>"), token("</s>"), text("B"), token("</s>")];
        let template = json!({"type": "TemplateProcessing", "single": [], "pair": xlm, "special_tokens": special});
        let rows: &[(Value, Option<&[u32]>)] = &[
            (json!(null), None),
            (json!({"type": "ByteLevel"}), None),
            (json!({"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 0]}), None),
            (json!({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}), Some(&[2, 2])),
            (template.clone(), Some(&[2, 2])),
            (json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}), Some(&[2, 2])),
        ];
        for (processor, want) in rows {
            assert_eq!(between(Some(processor), 3).unwrap().as_deref(), *want, "{processor}");
        }
        let outside = json!({"type": "RobertaProcessing", "sep": ["</s>", 3]});
        assert!(between(Some(&outside), 3).is_err());
    }
}
