//! Many texts at once: one engine, a thread of its own, answers as they come.

use akunu::{Engine, GenerateOptions, LoadOptions, SchedulerOptions, Service};

fn main() -> Result<(), akunu::Error> {
    let prompts = ["Once upon a time", "The dog", "Tom and Lily went", "In the garden"];
    let engine = Engine::embedded(LoadOptions { sequences: prompts.len(), ..LoadOptions::default() })?;
    let service = Service::start(engine, SchedulerOptions::default())?;
    let options = GenerateOptions::new().max_tokens(24);
    let replies: Result<Vec<_>, _> = prompts.iter().map(|p| service.submit_text(p, options.clone())).collect();
    for (prompt, mut reply) in prompts.iter().zip(replies?) {
        let text: Result<String, _> = reply.by_ref().map(|piece| piece.map(|p| p.text)).collect();
        // Text held back at the end comes with the summary.
        let rest = reply.summary().map_or("", |summary| summary.rest.as_str());
        println!("{prompt}{}{rest}", text?);
    }
    let metrics = service.metrics();
    println!("{} tokens in {} steps", metrics.generated_tokens, metrics.steps);
    Ok(())
}
