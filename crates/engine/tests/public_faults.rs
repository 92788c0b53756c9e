//! Faults that were found in other engines and published: numbers of requests that they believed.
//!
//! | fault | what happened there | what we say |
//! |---|---|---|
//! | CVE-2026-21869, llama.cpp (`n_discard`) | a negative count of positions to forget moved the rest of the text in front of its buffer | counts have no sign; the command line says what is expected |
//! | llama.cpp 24786 (`n_discard`) | a count above the length of the text wrapped a size: abort | all that there is after the kept positions is forgotten |
//! | llama.cpp 3550 (`n_keep`) | keeping more than the context holds ended the server | the text ends where the context is full |
//!
//! A page that asks a server of its reader's machine in another's name (DNS rebinding) is not here: there is no server yet.

use akunu::{Engine, Finish, GenerateOptions, LoadOptions};

const CONTEXT: usize = 128;

fn load() -> Engine {
    let options = LoadOptions { context: Some(CONTEXT), sequences: 2, threads: Some(2), ..Default::default() };
    Engine::embedded(options).unwrap()
}

fn text(length: usize) -> Vec<u32> {
    [1, 403, 261, 299, 400].into_iter().cycle().take(length).collect()
}

#[test]
fn cve_2026_21869_n_discard_of_hostile_numbers() {
    let mut engine = load();
    let text = text(100);
    const MOST: usize = usize::MAX;
    // What -1 and -32 are without a sign, what is one too many, and sums that wrap.
    for (keep, drop, left) in [
        (0, MOST, 0),
        (0, MOST - 31, 0),
        (0, 100, 0),
        (0, 101, 0),
        (5, MOST, 5),
        (5, MOST - 4, 5),
        (5, 96, 5),
        (5, i32::MAX as usize, 5),
        (64, 1 << 63, 64),
        (99, 1, 99),
        (99, 2, 99),
        (100, 1, 100),
        (101, 1, 100),
        (MOST, MOST, 100),
        (MOST, 1, 100),
        (MOST - 50, 100, 100),
        (0, 0, 100),
    ] {
        let mut sequence = engine.sequence();
        engine.prefill(&mut sequence, &text).unwrap();
        engine.shift(&mut sequence, keep, drop).unwrap();
        assert_eq!(sequence.len(), left, "keep {keep}, drop {drop}");
        // What is left is what it was: it goes on as if the rest had never been there.
        let after = engine.prefill(&mut sequence, &[403, 261]).unwrap().to_vec();
        let mut fresh = engine.sequence();
        let same = [&text[..left], &[403, 261]].concat();
        assert_eq!(engine.prefill(&mut fresh, &same).unwrap(), after, "keep {keep}, drop {drop}");
    }
    // Nor is a block lost: all that were taken are there for a text as long as the context.
    let mut sequence = engine.sequence();
    engine.prefill(&mut sequence, &self::text(CONTEXT)).unwrap();
}

#[test]
fn llama_cpp_3550_n_keep_of_hostile_numbers() {
    let mut engine = load();
    for keep in
        [0, 1, 63, CONTEXT - 2, CONTEXT - 1, CONTEXT, CONTEXT + 1, i32::MAX as usize, usize::MAX - 1, usize::MAX]
    {
        let mut sequence = engine.sequence();
        let options = GenerateOptions::new().max_tokens(2 * CONTEXT).ignore_eos(true).context_shift(keep);
        let mut generation = engine.generate(&mut sequence, &text(60), options).unwrap();
        let pieces = generation.by_ref().map(Result::unwrap).count();
        let expected =
            if keep < CONTEXT - 1 { (2 * CONTEXT, Finish::Length) } else { (CONTEXT - 60 + 1, Finish::Context) };
        assert_eq!((pieces, generation.finish().unwrap()), expected, "keep {keep}");
    }
}
