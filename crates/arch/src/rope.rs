//! Rope frequencies with their scaling, from either file's way of saying it.

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
    Linear { factor: f64 },
    Llama3 { factor: f64, low: f64, high: f64, original: f64 },
    Yarn { factor: f64, original: f64, fast: f64, slow: f64, magnitude: Option<f64>, truncate: bool },
}

/// Computes the ropes of full and of sliding layers and drops the second where it is the same.
pub fn fill(
    descriptor: &ArchDescriptor,
    reader: &Reader,
    config: &mut ModelConfig,
    file: &ModelFile,
    weights: &Weights,
) -> Result<(), Error> {
    let [full, sliding] = match reader.json() {
        Some(json) => from_json(descriptor, reader, config, json)?,
        None => from_gguf(descriptor, reader, config)?,
    };
    let mut ropes = vec![rope(config.rotated, full), rope(config.rotated, sliding)];
    if let Some(slice) = weights.global(Role::RopeFactors) {
        let tensor = &file.tensors()[slice.tensor];
        let mut factors = vec![0.0; slice.cols];
        (tensor.dtype.format().decode)(file.planes(tensor), &mut factors);
        for rope in &mut ropes {
            for (frequency, factor) in rope.frequencies.iter_mut().zip(&factors) {
                *frequency /= factor;
            }
        }
    }
    if ropes.iter().any(|r| r.frequencies.iter().any(|f| !f.is_finite())) {
        return Err(reader.bad("rope", "not finite", "finite frequencies are needed"));
    }
    if config.layers.iter().all(|l| l.rope.is_none()) {
        ropes.clear();
    } else if ropes[0] == ropes[1] {
        ropes.pop();
        for layer in &mut config.layers {
            layer.rope = layer.rope.map(|_| 0);
        }
    }
    config.ropes = ropes;
    Ok(())
}

/// Base and scaling of full and of sliding layers.
pub(crate) type Pair = [(f64, Scaling); 2];

/// Divisors of the frequencies, for the scaling that GGUF states as a tensor of them.
pub(crate) fn divisors(rotated: usize, base: f64, scaling: Scaling) -> Option<Vec<f32>> {
    matches!(scaling, Scaling::Llama3 { .. }).then(|| {
        let (plain, scaled) = (rope(rotated, (base, Scaling::None)), rope(rotated, (base, scaling)));
        plain.frequencies.iter().zip(&scaled.frequencies).map(|(p, s)| p / s).collect()
    })
}

fn from_gguf(descriptor: &ArchDescriptor, reader: &Reader, config: &ModelConfig) -> Result<Pair, Error> {
    let float = |key| reader.float(key).map(|v| v.map(f64::from));
    let base = float(keys::ROPE_BASE)?.unwrap_or(10_000.0);
    let old_factor = float(keys::ROPE_FACTOR_OLD)?;
    let factor = float(keys::ROPE_FACTOR)?.or(old_factor).filter(|f| *f != 0.0);
    let original = float_uint(reader, keys::ROPE_ORIGINAL_CONTEXT)?.unwrap_or(config.context as f64);
    let scaling = match (reader.text(keys::ROPE_SCALING)?, factor) {
        (Some("none"), _) | (None, None) => Scaling::None,
        (Some("linear") | None, factor) => Scaling::Linear { factor: factor.unwrap_or(1.0) },
        (Some("yarn"), Some(factor)) => Scaling::Yarn {
            factor,
            original,
            fast: float(keys::ROPE_BETA_FAST)?.unwrap_or(32.0),
            slow: float(keys::ROPE_BETA_SLOW)?.unwrap_or(1.0),
            magnitude: float(keys::ROPE_MAGNITUDE)?.map(|m| m * (0.1 * factor.ln() + 1.0)),
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
        "yarn" => {
            let factor = need("factor")?;
            let stretch = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
            let magnitude = match (number("attention_factor")?, number("mscale")?, number("mscale_all_dim")?) {
                (Some(m), _, _) => Some(m),
                (None, Some(m), Some(all)) if m != 0.0 && all != 0.0 => Some(stretch(m) / stretch(all)),
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

fn unknown(reader: &Reader, kind: &str) -> Error {
    Error::NotSupported { path: reader.file.path().into(), what: format!("rope scaling {}", Name::new(kind)) }
}

fn rope(rotated: usize, (base, scaling): (f64, Scaling)) -> Rope {
    let pairs = rotated / 2;
    let plain = |i: usize| base.powf(-2.0 * i as f64 / rotated as f64);
    let mut magnitude = 1.0;
    let frequency: Box<dyn Fn(usize) -> f64> = match scaling {
        Scaling::None => Box::new(plain),
        Scaling::Linear { factor } => Box::new(move |i| plain(i) / factor),
        Scaling::Llama3 { factor, low, high, original } => Box::new(move |i| {
            // Long waves are stretched, short ones kept, those between blended.
            let f = plain(i);
            let turns = original * f / (2.0 * PI);
            let keep = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            keep * f + (1.0 - keep) * f / factor
        }),
        Scaling::Yarn { factor, original, fast, slow, magnitude: given, truncate } => {
            magnitude = given.unwrap_or(if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 });
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
