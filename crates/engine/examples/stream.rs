//! Prints a text as it is generated, then goes on with the same sequence: nothing is computed twice.

use akunu::{Encode, Engine, GenerateOptions, LoadOptions};
use std::io::Write;

fn main() -> Result<(), akunu::Error> {
    let mut engine = Engine::embedded(LoadOptions::default())?;
    let mut sequence = engine.sequence();
    for (text, first) in [("Once upon a time there was a cat.", true), (" One day the cat", false)] {
        let prompt = engine.need_tokenizer()?.encode(text, Encode { add_special: first, parse_special: false })?;
        print!("{text}");
        let options = GenerateOptions::new().max_tokens(32).stop("\n");
        let mut generation = engine.generate(&mut sequence, &prompt, options)?;
        for piece in generation.by_ref() {
            print!("{}", piece?.text);
            // Nobody waits for a full line.
            std::io::stdout().flush().ok();
        }
        println!("{}", generation.rest());
    }
    Ok(())
}
