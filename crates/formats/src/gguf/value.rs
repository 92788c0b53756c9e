//! GGUF's value types, and values as the rest of the house wants them.

use super::array::Array;
use crate::error::Name;

/// The type of a value as written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

/// Every kind by its id, with its name and its bytes (of the shortest value, for strings and arrays).
const KINDS: [(Kind, &str, u64); 13] = [
    (Kind::U8, "u8", 1),
    (Kind::I8, "i8", 1),
    (Kind::U16, "u16", 2),
    (Kind::I16, "i16", 2),
    (Kind::U32, "u32", 4),
    (Kind::I32, "i32", 4),
    (Kind::F32, "f32", 4),
    (Kind::Bool, "bool", 1),
    (Kind::String, "string", 8),
    (Kind::Array, "array", 12),
    (Kind::U64, "u64", 8),
    (Kind::I64, "i64", 8),
    (Kind::F64, "f64", 8),
];

impl Kind {
    pub(crate) fn from_id(id: u32) -> Option<Self> {
        KINDS.get(id as usize).map(|row| row.0)
    }

    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// Bytes of a value, or of the shortest one.
    pub(crate) fn bytes(self) -> u64 {
        KINDS[self as usize].2
    }

    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F32 | Self::F64 | Self::Bool | Self::String | Self::Array)
    }

    /// The number or bool in exactly `self.bytes()` bytes; `None` for a bool that is neither 0 nor 1.
    /// Strings and arrays have other readers and read as `None`.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<Value> {
        Some(match self {
            Self::U8 => Value::U64(u8::from_le_bytes(fixed(bytes)?).into()),
            Self::I8 => Value::I64(i8::from_le_bytes(fixed(bytes)?).into()),
            Self::U16 => Value::U64(u16::from_le_bytes(fixed(bytes)?).into()),
            Self::I16 => Value::I64(i16::from_le_bytes(fixed(bytes)?).into()),
            Self::U32 => Value::U64(u32::from_le_bytes(fixed(bytes)?).into()),
            Self::I32 => Value::I64(i32::from_le_bytes(fixed(bytes)?).into()),
            Self::U64 => Value::U64(u64::from_le_bytes(fixed(bytes)?)),
            Self::I64 => Value::I64(i64::from_le_bytes(fixed(bytes)?)),
            Self::F32 => Value::F64(f32::from_le_bytes(fixed(bytes)?).into()),
            Self::F64 => Value::F64(f64::from_le_bytes(fixed(bytes)?)),
            Self::Bool => match bytes {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return None,
            },
            Self::String | Self::Array => return None,
        })
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// A metadata value, widened.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

impl Value {
    /// What it is, for messages: `u64 7`, `array of string`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::U64(v) => format!("the integer {v}"),
            Self::I64(v) => format!("the integer {v}"),
            Self::F64(v) => format!("the number {v}"),
            Self::Bool(v) => format!("the bool {v}"),
            Self::String(v) => format!("the string {}", Name::new(v)),
            Self::Array(v) => format!("an array of {} {}", v.len(), v.kind().name()),
        }
    }
}

/// A value with the type it has (or will have) in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    kind: Kind,
    value: Value,
}

impl Field {
    pub(crate) fn new(kind: Kind, value: Value) -> Self {
        Self { kind, value }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend((self.kind as u32).to_le_bytes());
        match &self.value {
            // The kind was chosen from the value (see the conversions below) or read with it, so that the low
            // bytes are the whole value.
            Value::U64(v) => out.extend(&v.to_le_bytes()[..self.kind.bytes() as usize]),
            Value::I64(v) => out.extend(&v.to_le_bytes()[..self.kind.bytes() as usize]),
            Value::F64(v) if self.kind == Kind::F32 => out.extend((*v as f32).to_le_bytes()),
            Value::F64(v) => out.extend(v.to_le_bytes()),
            Value::Bool(v) => out.push(u8::from(*v)),
            Value::String(v) => {
                out.extend((v.len() as u64).to_le_bytes());
                out.extend(v.as_bytes());
            }
            Value::Array(v) => {
                out.extend((v.kind() as u32).to_le_bytes());
                out.extend((v.len() as u64).to_le_bytes());
                out.extend(v.bytes());
            }
        }
    }
}

macro_rules! field_from {
    ($($from:ty => $kind:ident, $value:ident;)*) => {$(
        impl From<$from> for Field {
            fn from(value: $from) -> Self {
                Self::new(Kind::$kind, Value::$value(value.into()))
            }
        }
    )*};
}

field_from! {
    u8 => U8, U64;
    u16 => U16, U64;
    u32 => U32, U64;
    u64 => U64, U64;
    i8 => I8, I64;
    i16 => I16, I64;
    i32 => I32, I64;
    i64 => I64, I64;
    f32 => F32, F64;
    f64 => F64, F64;
    bool => Bool, Bool;
    &str => String, String;
    String => String, String;
    Array => Array, Array;
}

/// A value without its type is written as the type that readers expect: 32 bits where it fits.
impl From<Value> for Field {
    fn from(value: Value) -> Self {
        let kind = match &value {
            Value::U64(v) if u32::try_from(*v).is_ok() => Kind::U32,
            Value::U64(_) => Kind::U64,
            Value::I64(v) if i32::try_from(*v).is_ok() => Kind::I32,
            Value::I64(_) => Kind::I64,
            Value::F64(_) => Kind::F32,
            Value::Bool(_) => Kind::Bool,
            Value::String(_) => Kind::String,
            Value::Array(_) => Kind::Array,
        };
        Self::new(kind, value)
    }
}
