//! `docs/metal-kernels.md`: every kernel, with what its source says of it.

use crate::kernels::{self, CATEGORIES, KernelRow};
use crate::shaders;
use std::fmt::Write;

const HEAD: &str = "# Metal kernels

<!-- Written by `cargo run -p akunu-metal`: do not edit. -->
Every kernel of the Metal backend, by category: the sources are in `crates/metal/shaders`, the rows in `crates/metal/src/kernels`.
`FORMAT` stands for every number format of weights (`crates/metal/src/formats.rs`), or of the KV cache where keys and values are read
or written: f32, f16, q8_0. A kernel without an op is run by no program: it is there to be called by itself. Constants `mlx_…` are
those of the MLX formats. Nobody has run any of them on Apple's hardware; they run under the emulator in every test.
";

/// The page.
pub fn page() -> String {
    let mut out = String::from(HEAD);
    let _ = writeln!(out, "\n{} kernels, {} names.", kernels::table().len(), families(kernels::table()).len());
    for category in CATEGORIES {
        let rows = (category.rows)();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {}", category.name);
        let _ = writeln!(out, "| kernel | file | op | parameters | constants | threads; threadgroups | chosen for |");
        let _ = writeln!(out, "|---|---|---|---|---|---|---|");
        for (name, row) in families(&rows) {
            let source = Source::of(row);
            let op = row.op.map_or("–", |op| op.spec().name);
            let _ = writeln!(
                out,
                "| `{name}` | `{}` | {op} | {} | {} | {} | {} |",
                row.source,
                source.structs(),
                source.constants(),
                row.geometry,
                row.chosen
            );
        }
    }
    out
}

/// Rows without their formats, each once.
fn families(rows: &[KernelRow]) -> Vec<(String, &KernelRow)> {
    let mut found: Vec<(String, &KernelRow)> = Vec::new();
    for row in rows {
        let name = match row.format {
            Some(format) => row.name.replace(format, "FORMAT"),
            None => row.name.clone(),
        };
        if found.last().is_none_or(|(last, _)| *last != name) {
            found.push((name, row));
        }
    }
    found
}

/// A kernel's function in its source.
struct Source {
    signature: String,
    whole: String,
}

impl Source {
    fn of(row: &KernelRow) -> Source {
        let formats: Vec<(&str, &str)> = row.format.iter().map(|format| (*format, "F")).collect();
        let whole = shaders::whole(row.source, &formats).unwrap_or_default();
        let instantiated = whole.lines().find_map(|line| {
            let (name, rest) = line.strip_prefix("INSTANTIATE(")?.split_once(',')?;
            (name == row.name).then(|| rest.split([',', ')']).next().unwrap_or("").trim().to_owned())
        });
        let function = instantiated.unwrap_or_else(|| row.name.clone());
        let start = whole.find(&format!("kernel void {function}(")).unwrap_or(whole.len());
        let signature = whole[start..].split_once(") {").map_or("", |(signature, _)| signature).to_owned();
        Source { signature, whole }
    }

    /// The structs of its parameters.
    fn structs(&self) -> String {
        let words = self.signature.split("constant ").skip(1).filter_map(|rest| rest.split([' ', '&']).next());
        let names: Vec<String> =
            words.filter(|word| word.ends_with("Params")).map(|word| format!("`{word}`")).collect();
        if names.is_empty() { "–".into() } else { names.join(", ") }
    }

    /// The function constants of its source, with their numbers.
    fn constants(&self) -> String {
        let mut found = Vec::new();
        for line in self.whole.lines().map(str::trim) {
            let Some((declared, rest)) = line.split_once(" [[function_constant(") else { continue };
            let (Some(number), Some(name)) = (rest.split(')').next(), declared.split(' ').next_back()) else {
                continue;
            };
            // Declared, and used.
            if self.whole.matches(name).count() > 1 {
                found.push(format!("{number} `{name}`"));
            }
        }
        if found.is_empty() { "–".into() } else { found.join(", ") }
    }
}
