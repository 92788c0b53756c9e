//! The JSON header of a safetensors file, read as a stream into entries.

use std::fmt;

use akunu_dtype::DType;
use akunu_limits::Limits;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::Entry;
use crate::error::{Fault, Name};
use crate::model_file::check_tensors;

/// More dimensions than any weight has; a shape of a million ones must not be kept.
const MAX_DIMS: usize = 8;

/// Entries with offsets from the start of the data, each with `begin <= end`.
pub(super) fn parse(json: &[u8], limits: &Limits) -> Result<Vec<Entry>, Fault> {
    let invalid = |e: serde_json::Error| Fault::Json(format!("its header says {e}"));
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let mut over = None;
    let entries = Header { limits, over: &mut over }.deserialize(&mut deserializer);
    let entries = entries.map_err(|e| over.unwrap_or_else(|| invalid(e)))?;
    deserializer.end().map_err(invalid)?;
    Ok(entries)
}

struct Header<'a> {
    limits: &'a Limits,
    /// The fault that serde's error cannot carry.
    over: &'a mut Option<Fault>,
}

impl<'de> DeserializeSeed<'de> for Header<'_> {
    type Value = Vec<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Header<'_> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value_seed(Strings)?;
                continue;
            }
            if let Err(fault) = check_tensors(entries.len() as u64 + 1, self.limits) {
                *self.over = Some(fault);
                return Err(de::Error::custom("too many tensors"));
            }
            // serde_json adds the position to an error that has none, so that the name comes before it.
            let info = map.next_value_seed(Info).map_err(|e| at(&name, &e))?;
            entries.push(Entry { name, ..info });
        }
        Ok(entries)
    }
}

fn at<E: de::Error>(name: &str, error: &E) -> E {
    E::custom(format_args!("of tensor {}: {error}", Name::new(name)))
}

/// `__metadata__`: a map of strings, checked and dropped.
struct Strings;

impl<'de> DeserializeSeed<'de> for Strings {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Strings {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings in __metadata__")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<String, String>()?.is_some() {}
        Ok(())
    }
}

/// One tensor's `dtype`, `shape` and `data_offsets`.
struct Info;

impl<'de> DeserializeSeed<'de> for Info {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Info {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            let duplicate = match key.as_str() {
                "dtype" => {
                    let name: String = map.next_value()?;
                    let unknown = || de::Error::custom(format_args!("dtype {} is not supported", Name::new(&name)));
                    dtype.replace(DType::from_safetensors(&name).ok_or_else(unknown)?).is_some()
                }
                "shape" => shape.replace(map.next_value_seed(Numbers { most: MAX_DIMS })?).is_some(),
                "data_offsets" => offsets.replace(map.next_value_seed(Numbers { most: 2 })?).is_some(),
                other => return Err(de::Error::custom(format_args!("unknown field {}", Name::new(other)))),
            };
            if duplicate {
                return Err(de::Error::custom(format_args!("field {key} appears twice")));
            }
        }
        let dtype = dtype.ok_or_else(|| de::Error::missing_field("dtype"))?;
        let shape = shape.ok_or_else(|| de::Error::missing_field("shape"))?;
        let offsets = offsets.ok_or_else(|| de::Error::missing_field("data_offsets"))?;
        let [begin, end] = offsets[..] else {
            return Err(de::Error::custom("data_offsets must be two numbers"));
        };
        let Some(len) = end.checked_sub(begin) else {
            return Err(de::Error::custom(format_args!("data_offsets end at {end}, before their start at {begin}")));
        };
        Ok(Entry { name: String::new(), dtype, shape, offset: begin, len })
    }
}

/// At most `most` non-negative integers.
struct Numbers {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Numbers {
    type Value = Vec<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Numbers {
    type Value = Vec<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} non-negative integers", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = seq.next_element::<usize>()? {
            if numbers.len() == self.most {
                return Err(de::Error::invalid_length(numbers.len() + 1, &self));
            }
            numbers.push(number);
        }
        Ok(numbers)
    }
}
