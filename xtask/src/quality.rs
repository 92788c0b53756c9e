//! `cargo xtask convert-quality`: our quantized models against llama.cpp's, by perplexity on text the models never saw.
//!
//! Both start from the same f16 file and both are measured by llama.cpp, so that only the quantizers differ.

use std::path::{Path, PathBuf};
use std::process::Command;

use akunu_convert::{Options, convert};
use anyhow::{Context, bail};

const MODELS: &[&str] = &["stories-llama", "stories-qwen3", "stories-gemma3"];
const TYPES: &[&str] = &["q8_0", "q6_k", "q5_k_m", "q5_0", "q4_k_m", "q4_0", "q3_k_m", "q2_k"];
/// The models were trained on texts of this length and know nothing beyond.
const CONTEXT: &str = "256";
/// How much higher our perplexity may be, in percent.
const TOLERANCE: f64 = 0.5;

/// `tools` is the folder of `llama-quantize` and `llama-perplexity`.
pub fn run(tools: &Path, types: &[&str]) -> anyhow::Result<bool> {
    let shared = crate::root().join("../shared/fixtures");
    let text = shared.join("stories.txt");
    if !text.exists() {
        println!("skipped: there is no text beside the repository (shared/fixtures/stories.txt)");
        return Ok(true);
    }
    let folder = std::env::temp_dir().join(format!("akunu-quality-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let within = measure(tools, if types.is_empty() { TYPES } else { types }, &shared, &text, &folder);
    std::fs::remove_dir_all(&folder)?;
    within
}

fn measure(tools: &Path, types: &[&str], shared: &Path, text: &Path, folder: &Path) -> anyhow::Result<bool> {
    let options = Options { overwrite: true, ..Options::default() };
    let mut within = true;
    println!("{:<16} {:<8} {:>10} {:>10} {:>9}", "model", "type", "ours", "llama.cpp", "higher");
    for model in MODELS {
        let source = shared.join("hf").join(model);
        let exact = folder.join("exact.gguf");
        convert(&source, &exact, "f16", options, &mut |_, _| {})?;
        println!("{model:<16} {:<8} {:>10.4}", "f16", perplexity(tools, &exact, text)?);
        for kind in types {
            let (ours, theirs) = (folder.join("ours.gguf"), folder.join("theirs.gguf"));
            convert(&exact, &ours, kind, options, &mut |_, _| {})?;
            output(Command::new(tools.join("llama-quantize")).args([&exact, &theirs]).arg(kind.to_uppercase()))?;
            let (a, b) = (perplexity(tools, &ours, text)?, perplexity(tools, &theirs, text)?);
            let higher = (a / b - 1.0) * 100.0;
            within &= higher <= TOLERANCE;
            let verdict = if higher <= TOLERANCE { "" } else { "  over the limit" };
            println!("{model:<16} {kind:<8} {a:>10.4} {b:>10.4} {higher:>+8.2}%{verdict}");
        }
    }
    Ok(within)
}

fn perplexity(tools: &Path, model: &PathBuf, text: &Path) -> anyhow::Result<f64> {
    let said = output(
        Command::new(tools.join("llama-perplexity")).arg("-m").arg(model).arg("-f").arg(text).args(["-c", CONTEXT]),
    )?;
    // The estimate is the last line; where the tool lost it, the running value of the last chunk is as good.
    let estimate = said.split("PPL = ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let running = || said.rsplit(']').next().and_then(|rest| rest.split(',').next());
    let value = estimate.or_else(running);
    value.and_then(|v| v.parse().ok()).with_context(|| format!("no perplexity in what was printed: {said}"))
}

/// What a command prints, on either stream.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let out = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let said = format!("{}{}", String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
    if !out.status.success() {
        bail!("{} ended with {}: {said}", command.get_program().display(), out.status);
    }
    Ok(said)
}
