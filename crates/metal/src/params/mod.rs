//! The parameters of kernels: one definition for host and GPU.
//!
//! Structs are `repr(C)` with fields of 4 bytes, a multiple of 16 bytes long. `shaders/params.h` is written from them
//! (`cargo run -p akunu-metal`), with the offsets of all fields asserted on both sides.

mod plan;

use std::fmt::Write;

/// A struct of parameters as the bytes that a kernel reads.
pub trait Words {
    fn bytes(&self) -> Vec<u8>;
}

/// A struct in the shaders' header.
pub struct Layout {
    pub name: &'static str,
    pub bytes: usize,
    /// Name, type in Metal's language, offset.
    pub fields: Vec<(&'static str, String, usize)>,
}

/// A field of 4 bytes, or several.
pub trait Word: Copy {
    const METAL: &'static str;
    const COUNT: usize = 1;
    fn put(self, to: &mut Vec<u8>);
}

impl Word for u32 {
    const METAL: &'static str = "uint";
    fn put(self, to: &mut Vec<u8>) {
        to.extend(self.to_le_bytes());
    }
}

impl Word for f32 {
    const METAL: &'static str = "float";
    fn put(self, to: &mut Vec<u8>) {
        to.extend(self.to_le_bytes());
    }
}

/// Seven words; never the last field of a struct.
impl Word for akunu_plan::op::KvParams {
    const METAL: &'static str = "KVParams";
    fn put(self, to: &mut Vec<u8>) {
        to.extend(bytemuck::bytes_of(&self));
    }
}

impl<T: Word, const N: usize> Word for [T; N] {
    const METAL: &'static str = T::METAL;
    const COUNT: usize = N;
    fn put(self, to: &mut Vec<u8>) {
        self.into_iter().for_each(|word| word.put(to));
    }
}

/// Defines structs of parameters: their Rust, their bytes, and their place in the header.
macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            #[repr(C, align(16))]
            pub struct $name { $($(#[$field_doc])* pub $field: $type),* }

            const _: () = assert!(size_of::<$name>() % 16 == 0);

            impl crate::params::Words for $name {
                fn bytes(&self) -> Vec<u8> {
                    let mut bytes = Vec::with_capacity(size_of::<Self>());
                    $(crate::params::Word::put(self.$field, &mut bytes);)*
                    bytes.resize(size_of::<Self>(), 0);
                    bytes
                }
            }
        )*

        /// The structs of this file, for the header.
        pub(crate) fn layouts() -> Vec<crate::params::Layout> {
            vec![$(crate::params::Layout {
                name: stringify!($name),
                bytes: size_of::<$name>(),
                fields: vec![$((
                    stringify!($field),
                    crate::params::declared::<$type>(stringify!($field)),
                    std::mem::offset_of!($name, $field),
                )),*],
            }),*]
        }
    };
}
pub(crate) use params;

/// `uint name[N]`, or without the count.
pub(crate) fn declared<T: Word>(name: &str) -> String {
    match T::COUNT {
        1 => format!("{} {name}", T::METAL),
        n => format!("{} {name}[{n}]", T::METAL),
    }
}

/// `shaders/params.h`.
pub fn header() -> String {
    let mut out = String::from(
        "// Written by `cargo run -p akunu-metal` from src/params and the plan's own structs: do not edit.\n#pragma once\n",
    );
    plan::constants(&mut out);
    let layouts = plan::layouts().into_iter().chain(crate::kernels::layouts());
    for Layout { name, bytes, fields } in layouts {
        let _ = writeln!(out, "\nstruct {name} {{");
        let mut at = 0;
        for (_, declared, offset) in &fields {
            assert_eq!(*offset % 4, 0, "{name}: fields are whole words");
            let _ = writeln!(out, "    {declared};");
            at = *offset;
        }
        let last = fields.last().map_or(0, |(_, declared, _)| count(declared) * 4);
        let words = (bytes - at - last) / 4;
        if words > 0 {
            let _ = writeln!(out, "    uint unused[{words}];");
        }
        let _ = writeln!(out, "}};\nstatic_assert(sizeof({name}) == {bytes}, \"as the host has it\");");
        for (field, _, offset) in &fields {
            let _ = writeln!(
                out,
                "static_assert(__builtin_offsetof({name}, {field}) == {offset}, \"as the host has it\");"
            );
        }
    }
    out
}

/// Words of a field by its declaration.
fn count(declared: &str) -> usize {
    declared.split_once('[').and_then(|(_, n)| n.strip_suffix(']')?.parse().ok()).unwrap_or(1)
}
