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
        let name = item.get("SpecialToken").and_then(|t| t.get("id")).and_then(Value::as_str);
        let name = name.ok_or_else(|| malformed("a template has an item that is neither text nor token"))?;
        let ids = value.get("special_tokens").and_then(|t| t.get(name)).and_then(|t| t.get("ids"));
        let ids = ids.and_then(Value::as_array);
        for id in ids.ok_or_else(|| malformed(format!("a template names {:?} without its ids", excerpt(name))))? {
            let id = checked(id.as_u64().ok_or_else(|| malformed("a template's id is not a number"))?, count)?;
            if seen {
                back.push(id)
            } else {
                front.push(id)
            }
            fits(front.len() + back.len())?;
        }
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
