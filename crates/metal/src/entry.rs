//! Where a kernel is: which source has it, for which number format, and what function constants that source declares.

use crate::formats::FORMATS;
use crate::{shaders, source};
use std::collections::HashMap;
use std::sync::OnceLock;

/// What must be compiled to have a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its source, below `shaders`.
    pub source: &'static str,
    /// Its suffix and dequantizer, where it is instantiated for formats.
    pub format: Option<(&'static str, &'static str)>,
}

impl Entry {
    /// The source with this format alone: a kernel is compiled when somebody wants it.
    pub fn text(&self) -> Result<String, String> {
        shaders::whole(self.source, self.format.as_slice())
    }
}

/// Where the kernel of this name is.
pub fn find(kernel: &str) -> Option<Entry> {
    static ENTRIES: OnceLock<HashMap<String, Entry>> = OnceLock::new();
    ENTRIES.get_or_init(entries).get(kernel).copied()
}

fn entries() -> HashMap<String, Entry> {
    let mut entries = HashMap::new();
    for (path, text) in shaders::all().filter(|(path, _)| path.ends_with(".metal")) {
        // Without its headers, which have no kernels.
        let alone = |asked: &str| Some(if asked == path { text.to_owned() } else { String::new() });
        // A header is in the binary, and so is the source: it is whole.
        let Ok(text) = source::whole(path, FORMATS, &alone) else { continue };
        let mut of_formats = false;
        for line in text.lines().map(str::trim) {
            of_formats = line == source::OF_FORMATS || of_formats && !line.starts_with("#line");
            let (name, format) = if let Some(list) = line.strip_prefix("INSTANTIATE(") {
                let mut parts = list.split([',', ')']).map(str::trim);
                let (name, format) = (parts.next().unwrap_or_default(), parts.nth(1));
                (name, FORMATS.iter().find(|(_, f)| of_formats && Some(*f) == format).copied())
            } else if let Some((_, declared)) = line.split_once("kernel void ") {
                (declared.split('(').next().unwrap_or_default(), None)
            } else {
                continue;
            };
            entries.insert(name.to_owned(), Entry { source: path, format });
        }
    }
    entries
}

/// What a function constant is declared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Uint,
    Float,
}

/// The function constants that a source declares, by number.
pub fn constants(text: &str) -> Result<Vec<(u32, Kind)>, String> {
    let declared = text.lines().map(str::trim).filter(|line| line.contains("[[function_constant("));
    declared.map(|line| constant(line).ok_or_else(|| format!("not a function constant: {line}"))).collect()
}

/// `constant uint head_dim [[function_constant(0)]];`
fn constant(line: &str) -> Option<(u32, Kind)> {
    let (declared, number) = line.strip_prefix("constant ")?.split_once("[[function_constant(")?;
    let kind = match declared.split_whitespace().next()? {
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "uint" => Kind::Uint,
        "float" => Kind::Float,
        _ => return None,
    };
    Some((number.split_once(')')?.0.parse().ok()?, kind))
}
