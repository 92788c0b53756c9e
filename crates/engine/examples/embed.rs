//! Which of some sentences is nearest to the first: `embed MODEL SENTENCE SENTENCE…`.

use akunu::{Embedder, LoadOptions, Reading, Text, TooLong, normalize};

fn main() -> Result<(), akunu::Error> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().unwrap_or_default();
    let sentences: Vec<String> = arguments.collect();
    let mut embedder = Embedder::load(model.as_ref(), LoadOptions::default(), Reading::Embedding(None))?;
    let texts: Result<Vec<Text>, _> = sentences.iter().map(|s| embedder.text(s, TooLong::Cut)).collect();
    let mut vectors = vec![Vec::new(); sentences.len()];
    embedder.read(&texts?, |text, vector| {
        vectors[text] = vector.to_vec();
        normalize(&mut vectors[text]);
    })?;
    for (sentence, vector) in sentences.iter().zip(&vectors) {
        let cosine: f32 = vector.iter().zip(&vectors[0]).map(|(a, b)| a * b).sum();
        println!("{cosine:.4}  {sentence}");
    }
    Ok(())
}
