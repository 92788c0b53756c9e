//! How a text's rows become its vector, as embedding models say it: a key in GGUF, a file named by `modules.json` beside
//! safetensors.

use crate::Error;
use crate::keys::{self, Reader};
use akunu_formats::Name;
use serde_json::Value as Json;

/// How the rows of a text become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    Mean,
    First,
    Last,
}

/// What becomes of the last hidden states.
#[derive(Default)]
pub struct Modules {
    pub pooling: Option<Pooling>,
    /// See [`crate::ModelConfig::answers`].
    pub answers: Option<(usize, Option<usize>)>,
}

pub fn read(reader: &Reader) -> Result<Modules, Error> {
    if reader.gguf().is_some() {
        let pooling = match reader.uint(keys::POOLING)? {
            // 0 is none; 4 is a classification head, which is seen by its tensors.
            None | Some(0 | 4) => None,
            Some(1) => Some(Pooling::Mean),
            Some(2) => Some(Pooling::First),
            Some(3) => Some(Pooling::Last),
            Some(other) => return Err(reader.bad(keys::POOLING.gguf, other, "0 to 4 is known")),
        };
        return Ok(Modules { pooling, answers: None });
    }
    let mut read = Modules::default();
    let Some(modules) = side_file(reader, "modules.json")? else { return Ok(read) };
    for module in modules.as_array().into_iter().flatten() {
        let kind = module["type"].as_str().unwrap_or("").rsplit('.').next().unwrap_or("");
        match kind {
            "Transformer" | "Normalize" => {}
            "Pooling" | "Dense" | "LogitScore" => {
                let folder = module["path"].as_str().unwrap_or("1_Pooling");
                let name = format!("{folder}/config.json");
                let config = side_file(reader, &name)?;
                let config =
                    config.ok_or_else(|| reader.bad("modules.json", Name::new(&name), "there is no such file"))?;
                match kind {
                    "Pooling" => read.pooling = Some(of_config(reader, &name, &config)?),
                    // Its weights are among the model's: `akunu_formats` reads them.
                    "Dense" => is_plain(reader, &config)?,
                    _ => read.answers = Some(answers(reader, &name, &config)?),
                }
            }
            other => {
                let what = format!("a {} layer after the model (modules.json)", Name::new(other));
                return Err(Error::NotSupported { path: reader.file.path().into(), what });
            }
        }
    }
    Ok(read)
}

/// Whether a dense layer is a product and nothing else.
fn is_plain(reader: &Reader, config: &Json) -> Result<(), Error> {
    match config["activation_function"].as_str().unwrap_or("").rsplit('.').next() {
        Some("Identity") => Ok(()),
        other => {
            let what = format!("the activation {} of a dense layer", Name::new(other.unwrap_or("")));
            Err(Error::NotSupported { path: reader.file.path().into(), what })
        }
    }
}

/// The tokens that a score is made of.
fn answers(reader: &Reader, name: &str, config: &Json) -> Result<(usize, Option<usize>), Error> {
    let token = |key: &str| config[key].as_u64().map(|token| token as usize);
    match (token("true_token_id"), token("false_token_id")) {
        (Some(yes), no) if no.is_some() || config["false_token_id"].is_null() => Ok((yes, no)),
        _ => {
            Err(reader.bad(name, "without the number of a token", "true_token_id is needed, and false_token_id may be"))
        }
    }
}

/// As GGUF numbers it.
pub fn gguf_number(pooling: Pooling) -> u32 {
    match pooling {
        Pooling::Mean => 1,
        Pooling::First => 2,
        Pooling::Last => 3,
    }
}

/// What a classification head looks at, where the file says it.
pub fn of_head(reader: &Reader) -> Result<Option<Pooling>, Error> {
    let said = reader.json().and(reader.text(keys::HEAD_POOLING)?);
    match said {
        None => Ok(None),
        Some("cls") => Ok(Some(Pooling::First)),
        Some("mean") => Ok(Some(Pooling::Mean)),
        Some(other) => Err(reader.bad("classifier_pooling", Name::new(other), "cls or mean is supported")),
    }
}

/// The one way that the file of a pooling module turns on.
fn of_config(reader: &Reader, name: &str, config: &Json) -> Result<Pooling, Error> {
    const WAYS: &[(&str, Pooling)] = &[
        ("pooling_mode_mean_tokens", Pooling::Mean),
        ("pooling_mode_cls_token", Pooling::First),
        ("pooling_mode_lasttoken", Pooling::Last),
    ];
    let on = |key: &str| config.get(key).and_then(|v| v.as_bool()) == Some(true);
    let known: Vec<Pooling> = WAYS.iter().filter(|(key, _)| on(key)).map(|(_, way)| *way).collect();
    let all = config.as_object().into_iter().flatten();
    let count = all.filter(|(key, value)| key.starts_with("pooling_mode_") && value.as_bool() == Some(true)).count();
    match known[..] {
        [way] if count == 1 => Ok(way),
        _ => Err(reader.bad(name, "not one of mean, first and last token", "one of them is supported")),
    }
}

fn side_file(reader: &Reader, name: &str) -> Result<Option<Json>, Error> {
    let Some(bytes) = reader.file.side_file(name).transpose()? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(json) => Ok(Some(json)),
        Err(error) => Err(reader.bad(name, "not JSON", &error.to_string())),
    }
}
