//! Continues a text: `cargo run --release --example generate [PROMPT [MODEL]]`.

use akunu::{Engine, GenerateOptions, LoadOptions};

fn main() -> Result<(), akunu::Error> {
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().unwrap_or("Once upon a time".into());
    let mut engine = match arguments.next() {
        Some(path) => Engine::load(path.as_ref(), LoadOptions::default())?,
        None => Engine::embedded(LoadOptions::default())?,
    };
    let options = GenerateOptions::new().max_tokens(64).temperature(0.8).seed(1);
    println!("{prompt}{}", engine.generate_text(&prompt, options)?);
    Ok(())
}
