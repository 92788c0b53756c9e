//! The support table of `docs/supported.md`, generated from the registries.

use akunu::Device;
use akunu_arch::FAMILIES;
use akunu_dtype::FORMATS;
use std::fmt::Write;

const BEGIN: &str = "<!-- support: generated, see crates/cli/tests/support_table.rs -->\n";
const END: &str = "<!-- /support -->";

fn table() -> String {
    let mut out =
        String::from("| family | `general.architecture` (GGUF) | `architectures` (HF, MLX) |\n|---|---|---|\n");
    for family in FAMILIES {
        let title = family.hf[0].split("For").next().unwrap_or_default().trim_end_matches("Model");
        let classes = family.hf.iter().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "| {title} | `{}` | {classes} |", family.gguf_as.unwrap_or(family).name);
    }
    let names = |keep: &dyn Fn(&akunu_dtype::Format) -> bool| {
        FORMATS.iter().filter(|f| keep(f)).map(|f| f.name).collect::<Vec<_>>().join(" ")
    };
    let mlx = FORMATS.iter().filter(|f| f.side_bytes > 0).count();
    let _ = writeln!(out, "\n| what | which |\n|---|---|");
    let _ = writeln!(
        out,
        "| files | GGUF v2 and v3 (also split), HF safetensors directories (also sharded), MLX directories, whisper.cpp ggml |"
    );
    let _ = writeln!(out, "| number formats, float | {} |", names(&|f| f.unpack.is_none() && f.name.contains('F')));
    let _ = writeln!(out, "| number formats, GGUF blocks | {} |", names(&|f| f.unpack.is_some() && f.side_bytes == 0));
    let _ = writeln!(
        out,
        "| number formats, MLX affine | 2, 3, 4, 5, 6, 8 bits × groups of 32, 64, 128 ({mlx} with scale types) |"
    );
    let _ = writeln!(out, "| written by `convert` | {} |", names(&|f| f.encode.is_some() && f.gguf_id.is_some()));
    let levels = ["generic", "avx2", "avxvnni", "avx512bw", "avx512", "amx", "neon", "dotprod", "i8mm"];
    assert!(Device::Cpu.levels().iter().all(|level| levels.contains(level)), "a level that is not listed");
    let levels = levels.join(", ");
    let _ = writeln!(out, "| hardware | any CPU; kernels by level, found at run time: {levels} |");
    out
}

/// After changing a registry: `AKUNU_BLESS=1 cargo test -p akunu-cli --test support_table`.
#[test]
fn the_documents_list_what_the_registries_hold() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/supported.md");
    let page = std::fs::read_to_string(path).unwrap();
    let start = page.find(BEGIN).unwrap() + BEGIN.len();
    let end = start + page[start..].find(END).unwrap();
    if std::env::var_os("AKUNU_BLESS").is_some() {
        std::fs::write(path, format!("{}{}{}", &page[..start], table(), &page[end..])).unwrap();
    } else {
        assert_eq!(&page[start..end], table());
    }
}
