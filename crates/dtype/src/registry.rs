//! The table of number formats. A row's position is its [`DType`], and never changes meaning
//! within one build.

use crate::block::writable;
use crate::{DType, Format, float, q4_0, q8_0};

// A row lives beside its code; this table only orders the rows.
macro_rules! registry {
    ($($name:ident = $row:expr),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u8)]
        enum Position { $($name),* }
        impl DType { $(pub const $name: DType = DType(Position::$name as u8);)* }
        /// Every number format, in `DType` order.
        pub static FORMATS: &[Format] = &[$(Format { dtype: DType::$name, ..$row }),*];
    };
}

registry! {
    F32 = float::F32,
    F16 = float::F16,
    BF16 = float::BF16,
    Q4_0 = writable::<q4_0::Q4_0, _>(),
    Q8_0 = writable::<q8_0::Q8_0, _>(),
}
