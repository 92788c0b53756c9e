//! Rope frequencies with their scaling, from either file's way of saying it.

use crate::config::{Beyond, QueryGrowth};
use crate::keys::{self, Reader};
use crate::weights::Role;
use crate::{ArchDescriptor, Error, ModelConfig, Rope, Weights};
use akunu_formats::{ModelFile, Name};
use serde_json::Value as Json;
use std::f64::consts::PI;

/// How frequencies are stretched beyond the context the model was trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scaling {
    None,
    Linear {
        factor: f64,
    },
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: f64,
    },
    /// By divisors that the file lists, one list for contexts up to the original one and one for longer ones.
    Listed {
        original: f64,
        magnitude: f64,
    },
    Yarn {
        factor: f64,
        original: f64,
        fast: f64,
        slow: f64,
        magnitude: Option<f64>,
        truncate: bool,
    },
}

/// Computes the ropes of full and of sliding layers and drops the second where it is the same.
pub fn fill(
    descriptor: &ArchDescriptor,
    reader: &Reader,
    config: &mut ModelConfig,
    file: &ModelFile,
    weights: &Weights,
) -> Result<(), Error> {
    let tensor = |role| {
        let slice = weights.global(role)?;
        let tensor = &file.tensors()[slice.tensor];
        let mut values = vec![0.0; slice.cols];
        (tensor.dtype.format().decode)(file.planes(tensor), &mut values);
        Some(values)
    };
    let lists = [Role::RopeShort, Role::RopeLong].map(tensor);
    let pair = match reader.json() {
        Some(json) => from_json(descriptor, reader, config, json)?,
        None => from_gguf(descriptor, reader, config, lists[0].is_some())?,
    };
    let lists = match (reader.json(), pair[0].1) {
        (Some(json), Scaling::Listed { .. }) => {
            [list(reader, config, json, "short_factor")?, list(reader, config, json, "long_factor")?]
        }
        _ => lists,
    };
    let divided = |divisors: &[f32]| -> Vec<Rope> {
        let mut ropes = pair.map(|p| rope(config.rotated, p)).to_vec();
        for rope in &mut ropes {
            rope.frequencies.iter_mut().zip(divisors).for_each(|(frequency, divisor)| *frequency /= divisor);
        }
        ropes
    };
    let [short, long] = lists;
    let mut ropes = divided(&short.or_else(|| tensor(Role::RopeFactors)).unwrap_or_default());
    let mut beyond = match (long, pair[0].1) {
        (Some(long), Scaling::Listed { original, .. }) => {
            Some(Beyond { positions: original as usize, ropes: divided(&long) })
        }
        _ => None,
    };
    let finite = |r: &Rope| r.magnitude.is_finite() && r.frequencies.iter().all(|f| f.is_finite());
    if !ropes.iter().chain(beyond.iter().flat_map(|b| &b.ropes)).all(finite) {
        return Err(reader.bad("rope", "not finite", "finite frequencies are needed"));
    }
    if config.layers.iter().all(|l| l.rope.is_none()) {
        ropes.clear();
        beyond = None;
    } else if ropes[0] == ropes[1] {
        ropes.pop();
        beyond.iter_mut().for_each(|b| b.ropes.truncate(1));
        for layer in &mut config.layers {
            layer.rope = layer.rope.map(|_| 0);
        }
    }
    (config.ropes, config.beyond) = (ropes, beyond);
    config.query_growth = query_growth(reader, config)?;
    Ok(())
}

/// The parameters of full layers' rope in config.json.
fn parameters(json: &Json) -> Option<&Json> {
    let new = json.get("rope_parameters").filter(|v| v.is_object());
    let new = new.map(|new| new.get("full_attention").filter(|v| v.is_object()).unwrap_or(new));
    new.or_else(|| json.get("rope_scaling").filter(|v| v.is_object()))
}

/// A list of divisors in config.json, one for each pair.
fn list<'a>(reader: &Reader<'a>, config: &ModelConfig, json: &'a Json, key: &str) -> Result<Option<Vec<f32>>, Error> {
    let pairs = config.rotated / 2;
    let numbers = |v: &Json| {
        let numbers = v.as_array()?.iter().map(|n| n.as_f64().filter(|n| *n > 0.0).map(|n| n as f32));
        numbers.collect::<Option<Vec<f32>>>().filter(|list| list.len() == pairs)
    };
    let expected = format!("a list of {pairs} numbers above 0 is needed");
    let found = parameters(json).map(|p| reader.member(p, &[key], &expected, numbers)).transpose()?.flatten();
    match found {
        Some(list) => Ok(Some(list)),
        None => Err(Error::MissingKey { path: reader.file.path().into(), key: format!("rope_scaling.{key}") }),
    }
}

/// How queries grow with their position, where the file says so.
fn query_growth(reader: &Reader, config: &ModelConfig) -> Result<Option<QueryGrowth>, Error> {
    const SLOPE: &str = "llama_4_scaling_beta";
    let object = reader.json().map(parameters);
    if object == Some(None) {
        return Ok(None);
    }
    let object = object.flatten();
    let number = |object, key: &str| reader.member(object, &[key], "a number is needed", Json::as_f64);
    let slope = match object {
        Some(object) => number(object, SLOPE)?.map(|v| v as f32),
        None => reader.float(keys::QUERY_GROWTH)?,
    };
    let Some(slope) = slope.filter(|slope| *slope != 0.0) else { return Ok(None) };
    let period = match object {
        Some(object) => number(object, "original_max_position_embeddings")?.map(|v| v as f32),
        None => reader.uint(keys::ROPE_ORIGINAL_CONTEXT)?.map(|v| v as f32),
    };
    let growth = QueryGrowth { slope, period: period.unwrap_or(config.context as f32) };
    let name = if reader.json().is_some() { SLOPE } else { keys::QUERY_GROWTH.gguf };
    if !slope.is_finite() || growth.period.is_nan() || growth.period < 1.0 {
        return Err(reader.bad(name, slope, "a finite number, and a period of positions, are needed"));
    }
    // It goes with the rotation of queries.
    if config.rotated != config.head_dim || config.layers.iter().any(|l| l.rope.is_none()) {
        return Err(reader.bad(name, slope, "it is supported only where whole heads rotate in every layer"));
    }
    Ok(Some(growth))
}

/// Base and scaling of full and of sliding layers.
pub(crate) type Pair = [(f64, Scaling); 2];

/// Divisors of the frequencies, for the scaling that GGUF states as a tensor of them.
pub(crate) fn divisors(role: Role, config: &ModelConfig, (base, scaling): (f64, Scaling)) -> Option<Vec<f32>> {
    let scaled = match (role, scaling) {
        (Role::RopeFactors, Scaling::Llama3 { .. }) => rope(config.rotated, (base, scaling)),
        (Role::RopeShort, Scaling::Listed { .. }) => config.ropes.first()?.clone(),
        (Role::RopeLong, Scaling::Listed { .. }) => config.beyond.as_ref()?.ropes.first()?.clone(),
        _ => return None,
    };
    let plain = rope(config.rotated, (base, Scaling::None));
    Some(plain.frequencies.iter().zip(&scaled.frequencies).map(|(p, s)| p / s).collect())
}

fn from_gguf(descriptor: &ArchDescriptor, reader: &Reader, config: &ModelConfig, listed: bool) -> Result<Pair, Error> {
    let float = |key| reader.float(key).map(|v| v.map(f64::from));
    let base = float(keys::ROPE_BASE)?.unwrap_or(10_000.0);
    let old_factor = float(keys::ROPE_FACTOR_OLD)?;
    let factor = float(keys::ROPE_FACTOR)?.or(old_factor).filter(|f| *f != 0.0);
    let original = float_uint(reader, keys::ROPE_ORIGINAL_CONTEXT)?.unwrap_or(config.context as f64);
    let magnitude = float(keys::ROPE_MAGNITUDE)?;
    let scaling = match (reader.text(keys::ROPE_SCALING)?, factor) {
        _ if listed => Scaling::Listed { original, magnitude: magnitude.unwrap_or(1.0) },
        (Some("none"), _) | (None, None) => Scaling::None,
        (Some("linear") | None, factor) => Scaling::Linear { factor: factor.unwrap_or(1.0) },
        (Some("yarn"), Some(factor)) => Scaling::Yarn {
            factor,
            original,
            fast: float(keys::ROPE_BETA_FAST)?.unwrap_or(32.0),
            slow: float(keys::ROPE_BETA_SLOW)?.unwrap_or(1.0),
            magnitude: match (magnitude, float(keys::ROPE_LOG_MULTIPLIER)?.filter(|m| *m != 0.0)) {
                (Some(magnitude), _) => Some(magnitude * (0.1 * factor.ln() + 1.0)),
                (None, multiplier) => multiplier.map(|m| stretch(factor, 1.0) / stretch(factor, m)),
            },
            truncate: true,
        },
        (Some("yarn"), None) => return Err(reader.missing(keys::ROPE_FACTOR)),
        (Some(other), _) => return Err(unknown(reader, other)),
    };
    let sliding_base = float(keys::ROPE_BASE_SLIDING)?;
    let sliding = match sliding_base.or(descriptor.sliding_rope_base.map(f64::from)) {
        Some(base) => (base, Scaling::None),
        None => (base, scaling),
    };
    Ok([(base, scaling), sliding])
}

fn float_uint(reader: &Reader, key: keys::Key) -> Result<Option<f64>, Error> {
    Ok(reader.uint(key)?.map(|v| v as f64))
}

/// Both forms of config.json: `rope_theta` + `rope_scaling`, or `rope_parameters`, flat or by layer type.
pub(crate) fn from_json<'a>(
    descriptor: &ArchDescriptor,
    reader: &Reader<'a>,
    config: &ModelConfig,
    json: &'a Json,
) -> Result<Pair, Error> {
    if let Some(new) = json.get("rope_parameters").filter(|v| v.is_object()) {
        let full = new.get("full_attention").filter(|v| v.is_object()).unwrap_or(new);
        let sliding = new.get("sliding_attention").filter(|v| v.is_object()).unwrap_or(full);
        let number = |v| reader.member(v, &["rope_theta"], "a number is needed", Json::as_f64);
        let base = |v| Ok::<f64, Error>(number(v)?.or(number(json)?).unwrap_or(10_000.0));
        return Ok([
            (base(full)?, scaling(reader, config, json, full)?),
            (base(sliding)?, scaling(reader, config, json, sliding)?),
        ]);
    }
    let named = |names: &[&str]| reader.member(json, names, "a number is needed", Json::as_f64);
    let base = named(&["rope_theta", "global_rope_theta", "rotary_emb_base"])?.unwrap_or(10_000.0);
    let full = match json.get("rope_scaling").filter(|v| !v.is_null()) {
        Some(s) => scaling(reader, config, json, s)?,
        None => Scaling::None,
    };
    let local = named(&["rope_local_base_freq", "local_rope_theta"])?;
    let sliding = match local.or(descriptor.sliding_rope_base.map(f64::from)) {
        Some(base) => (base, Scaling::None),
        None => (base, full),
    };
    Ok([(base, full), sliding])
}

fn scaling<'a>(reader: &Reader<'a>, config: &ModelConfig, json: &'a Json, s: &'a Json) -> Result<Scaling, Error> {
    let of = |object, key: &str| reader.member(object, &[key], "a number is needed", Json::as_f64);
    let number = |key: &str| of(s, key);
    let need = |key: &str| {
        number(key)?
            .filter(|v| *v > 0.0)
            .ok_or_else(|| Error::MissingKey { path: reader.file.path().into(), key: format!("rope_scaling.{key}") })
    };
    let original = || {
        const KEY: &str = "original_max_position_embeddings";
        Ok::<f64, Error>(number(KEY)?.or(of(json, KEY)?).unwrap_or(config.context as f64))
    };
    let kind = reader.member(s, &["rope_type", "type"], "a text is needed", Json::as_str)?;
    Ok(match kind.unwrap_or("default") {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: need("factor")? },
        "llama3" => Scaling::Llama3 {
            factor: need("factor")?,
            low: need("low_freq_factor")?,
            high: need("high_freq_factor")?,
            original: original()?,
        },
        "longrope" | "su" => {
            let original = original()?;
            let factor = config.context as f64 / original;
            let usual = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() };
            Scaling::Listed { original, magnitude: number("attention_factor")?.unwrap_or(usual) }
        }
        "yarn" => {
            let factor = need("factor")?;
            let magnitude = match (number("attention_factor")?, number("mscale")?, number("mscale_all_dim")?) {
                (Some(m), _, _) => Some(m),
                (None, Some(m), Some(all)) if m != 0.0 && all != 0.0 => Some(stretch(factor, m) / stretch(factor, all)),
                _ => None,
            };
            Scaling::Yarn {
                factor,
                original: original()?,
                fast: number("beta_fast")?.unwrap_or(32.0),
                slow: number("beta_slow")?.unwrap_or(1.0),
                magnitude,
                truncate: reader.member(s, &["truncate"], "true or false is needed", Json::as_bool)?.unwrap_or(true),
            }
        }
        other => return Err(unknown(reader, other)),
    })
}

/// YaRN's factor on sines and cosines.
fn stretch(factor: f64, scale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 }
}

fn unknown(reader: &Reader, kind: &str) -> Error {
    Error::NotSupported { path: reader.file.path().into(), what: format!("rope scaling {}", Name::new(kind)) }
}

fn rope(rotated: usize, (base, scaling): (f64, Scaling)) -> Rope {
    let pairs = rotated / 2;
    let plain = |i: usize| base.powf(-2.0 * i as f64 / rotated as f64);
    let mut magnitude = 1.0;
    let frequency: Box<dyn Fn(usize) -> f64> = match scaling {
        Scaling::None => Box::new(plain),
        Scaling::Listed { magnitude: given, .. } => {
            magnitude = given;
            Box::new(plain)
        }
        Scaling::Linear { factor } => Box::new(move |i| plain(i) / factor),
        Scaling::Llama3 { factor, low, high, original } => Box::new(move |i| {
            // Long waves are stretched, short ones kept, those between blended.
            let f = plain(i);
            let turns = original * f / (2.0 * PI);
            let keep = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            keep * f + (1.0 - keep) * f / factor
        }),
        Scaling::Yarn { factor, original, fast, slow, magnitude: given, truncate } => {
            magnitude = given.unwrap_or(stretch(factor, 1.0));
            // The pair that makes `turns` turns over the original context.
            let pair = |turns: f64| rotated as f64 * (original / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
            let (mut first, mut last) = (pair(fast), pair(slow));
            if truncate {
                (first, last) = (first.floor(), last.ceil());
            }
            let first = first.max(0.0);
            let mut last = last.min(rotated as f64 - 1.0);
            if first == last {
                last += 0.001;
            }
            Box::new(move |i| {
                let stretch = ((i as f64 - first) / (last - first)).clamp(0.0, 1.0);
                plain(i) / factor * stretch + plain(i) * (1.0 - stretch)
            })
        }
    };
    Rope { frequencies: (0..pairs).map(|i| frequency(i) as f32).collect(), magnitude: magnitude as f32 }
}
