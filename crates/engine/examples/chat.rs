//! One turn of a chat, in the format the model was trained with: `chat MODEL [QUESTION]`.

use akunu::{ChatTemplate, Encode, Engine, GenerateOptions, LoadOptions};
use serde_json::json;

fn main() -> Result<(), akunu::Error> {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        eprintln!("give a model that has a chat template");
        std::process::exit(2);
    };
    let question = arguments.next().unwrap_or("What is the capital of France?".into());
    let mut engine = Engine::load(model.as_ref(), LoadOptions::default())?;
    let template = ChatTemplate::from_model_file(engine.file())?;
    let input = json!({
        "messages": [{ "role": "user", "content": question }],
        "add_generation_prompt": true,
    });
    let tokenizer = engine.need_tokenizer()?;
    let prompt = template.render(&input, tokenizer.bos_text(), tokenizer.eos_text())?;
    // The template has written the special tokens itself.
    let tokens = tokenizer.encode(&prompt, Encode { add_special: false, parse_special: true })?;
    let mut sequence = engine.sequence();
    let mut answer = String::new();
    let mut generation = engine.generate(&mut sequence, &tokens, GenerateOptions::new().max_tokens(64))?;
    for piece in generation.by_ref() {
        answer += &piece?.text;
    }
    println!("{}", answer + &generation.rest());
    Ok(())
}
