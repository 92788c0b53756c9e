//! Thoughts end when their budget is used up, whatever else goes on.

use akunu::{
    Engine, Event, GenerateOptions, Grammar, LoadOptions, Request, SamplingOptions, Scheduler, SchedulerOptions,
    Service, Speculation, Thinking, Thoughts,
};

const CLOSING: &str = " That is enough.</think>\n\n";

fn engine() -> Engine {
    Engine::embedded(LoadOptions { sequences: 4, ..Default::default() }).unwrap()
}

fn thoughts(budget: usize) -> Thoughts {
    Thoughts { budget: Some(budget), closing: " That is enough.".into(), ..Default::default() }
}

fn options(budget: usize, temperature: f32) -> GenerateOptions {
    let sampling = SamplingOptions { temperature, seed: 5, ..Default::default() };
    GenerateOptions::new().max_tokens(60).sampling(sampling).thinking(Thinking::Open).thoughts(thoughts(budget))
}

fn closing(engine: &Engine) -> Vec<u32> {
    engine.tokenizer().unwrap().encode(CLOSING, Default::default()).unwrap()
}

fn tokens(engine: &mut Engine, prompt: &[u32], options: GenerateOptions) -> Vec<u32> {
    let mut sequence = engine.sequence();
    engine.generate(&mut sequence, prompt, options).unwrap().map(|piece| piece.unwrap().token).collect()
}

#[test]
fn so_many_tokens_are_thought_and_then_the_closing_sentence_comes() {
    let mut engine = engine();
    let options = |budget, temperature| options(budget, temperature).ignore_eos(true);
    let (prompt, closing) = ([1, 77, 200], closing(&engine));
    for temperature in [0.0, 0.9] {
        let free = GenerateOptions { thoughts: Thoughts::default(), ..options(0, temperature) };
        let free = tokens(&mut engine, &prompt, free);
        for budget in [0, 1, 7, 20] {
            let got = tokens(&mut engine, &prompt, options(budget, temperature));
            assert_eq!(got[..budget], free[..budget], "{budget}");
            assert_eq!(got[budget..budget + closing.len()], closing, "{budget}");
            assert_eq!(got.len(), 60, "forced tokens count: {budget}");
        }
    }
    // More than is thought changes nothing.
    let free = GenerateOptions { thoughts: Thoughts::default(), ..options(0, 0.9) };
    let free = tokens(&mut engine, &prompt, free);
    assert_eq!(tokens(&mut engine, &prompt, options(60, 0.9)), free);
}

#[test]
fn the_grammar_holds_from_there() {
    let mut engine = engine();
    let options = options(9, 0.7).grammar(Grammar::Regex("[0-9]{3}".into()));
    let text = engine.generate_text("Tom said", options.clone()).unwrap();
    let (_, answer) = text.split_once(CLOSING).unwrap_or_else(|| panic!("{text:?}"));
    assert!(answer.len() == 3 && answer.bytes().all(|b| b.is_ascii_digit()), "{text:?}");
    // A compiled grammar is the same one.
    let matcher = engine.grammars().unwrap().compile(options.grammar.as_ref().unwrap()).unwrap();
    let compiled = GenerateOptions { grammar: None, matcher: Some(matcher), ..options };
    for _ in 0..2 {
        assert_eq!(engine.generate_text("Tom said", compiled.clone()).unwrap(), text);
    }
}

#[test]
fn drafts_logprobs_batches_and_preemption_change_nothing() {
    let mut engine = Engine::embedded(LoadOptions { context: Some(256), sequences: 1, ..Default::default() }).unwrap();
    let prompts: Vec<Vec<u32>> = (0..4).map(|n| vec![1, 70 + n, 80 + 3 * n]).collect();
    let options = |n: u32| {
        let mut options = options(5 + 30 * n as usize, if n.is_multiple_of(2) { 0.0 } else { 0.8 });
        (options.max_tokens, options.ignore_eos) = (150, true);
        if n == 3 { options.grammar(Grammar::Regex("[a-f]{30}".into())) } else { options }
    };
    let alone: Vec<Vec<u32>> = (0..4).map(|n| tokens(&mut engine, &prompts[n as usize], options(n))).collect();
    for n in 0..4 {
        let drafted = options(n).speculation(Speculation::Ngram);
        assert_eq!(tokens(&mut engine, &prompts[n as usize], drafted), alone[n as usize], "drafts of {n}");
        let shown = options(n).logprobs(1);
        let mut sequence = engine.sequence();
        let pieces: Vec<_> = engine.generate(&mut sequence, &prompts[n as usize], shown).unwrap().collect();
        assert!(pieces.iter().all(|piece| piece.as_ref().unwrap().logprobs.is_some()));
        let got: Vec<u32> = pieces.into_iter().map(|piece| piece.unwrap().token).collect();
        assert_eq!(got, alone[n as usize], "log-probabilities of {n}");
    }
    let mut scheduler = Scheduler::new(engine, SchedulerOptions { cache: 0, ..Default::default() });
    for n in 0..4 {
        let tokens = prompts[n as usize].clone();
        scheduler.submit(Request { tokens, options: options(n) }).unwrap();
    }
    let mut got = vec![Vec::new(); 4];
    while scheduler.step(|id, event| match event {
        Event::Piece(piece) => got[id.0 as usize].push(piece.token),
        Event::Finished(_) => {}
        Event::Failed(why) => panic!("{why}"),
    }) {}
    assert!(scheduler.metrics().preempted > 0, "{:?}", scheduler.metrics());
    assert_eq!(got, alone);
}

#[test]
fn a_service_compiles_where_it_is_asked() {
    let service = Service::start(engine(), SchedulerOptions::default()).unwrap();
    let refused = service.submit_text("Tom", GenerateOptions::new().grammar(Grammar::Regex("(".into())));
    assert!(refused.is_err_and(|e| e.to_string().contains("unclosed group")));
    let matcher = service.compile(&Grammar::Regex(" (yes|no)".into())).unwrap();
    for _ in 0..2 {
        let options = GenerateOptions { matcher: Some(matcher.clone()), ..GenerateOptions::new() };
        let text: String =
            service.submit_text("Tom said", options).unwrap().map(|piece| piece.map(|p| p.text).unwrap()).collect();
        assert!([" yes", " no"].contains(&&*text), "{text:?}");
    }
}
