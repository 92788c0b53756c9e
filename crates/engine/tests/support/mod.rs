//! Running a model over a golden's inputs, in every way that must not matter.

use akunu::{Activations, Device, Engine, LoadOptions};
use akunu_arch::Model;
use akunu_formats::ModelFile;
use akunu_testkit::golden::Golden;
use std::path::Path;

/// A way to run that must give the same result.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub level: &'static str,
    pub threads: usize,
    pub chunk: usize,
}

/// Every level of this machine with one chunking each for 1 and 2 threads, and every chunking at the best.
pub fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    let levels = Device::Cpu.levels();
    for level in &levels {
        ways.push(Way { level, threads: 1, chunk: 256 });
        ways.push(Way { level, threads: 2, chunk: 7 });
    }
    for chunk in [1, 64] {
        ways.push(Way { level: levels[levels.len() - 1], threads: 2, chunk });
    }
    ways
}

pub fn options(way: Way, activations: Activations) -> LoadOptions {
    LoadOptions {
        level: Some(way.level.to_string()),
        threads: Some(way.threads),
        chunk: Some(way.chunk),
        activations,
        ..LoadOptions::default()
    }
}

/// The cases of a golden file.
pub fn cases(golden: &Golden) -> Vec<usize> {
    let cases: Vec<usize> = (0..).take_while(|c| golden.has(&format!("input_ids.{c}"))).collect();
    assert!(!cases.is_empty(), "a golden without cases");
    cases
}

/// The contexts to load a model with, and the cases that each is for. Long contexts may have other ropes: the oracle takes those of
/// the text it sees, and 24 tokens more.
#[allow(dead_code)]
pub fn contexts(path: &Path, golden: &Golden) -> Vec<(Option<usize>, Vec<usize>)> {
    let model = ModelFile::open(path).ok().and_then(|file| Model::read(&file).ok());
    let limit = model.and_then(|model| model.config.beyond).map(|beyond| beyond.positions);
    let short = |case: &usize| limit.is_some_and(|limit| ids(golden, *case).len() + 24 <= limit);
    let (short, long): (Vec<usize>, Vec<usize>) = cases(golden).iter().partition(|case| short(case));
    [(limit, short), (None, long)].into_iter().filter(|(_, cases)| !cases.is_empty()).collect()
}

pub fn ids(golden: &Golden, case: usize) -> Vec<u32> {
    golden.i32(&format!("input_ids.{case}")).iter().map(|i| *i as u32).collect()
}

/// Our logits at the positions the golden has, `[position][vocab]`.
pub fn logits(engine: &mut Engine, golden: &Golden, case: usize) -> Vec<f32> {
    let ids = ids(golden, case);
    let positions = match golden.has(&format!("positions.{case}")) {
        true => golden.i32(&format!("positions.{case}")).iter().map(|p| *p as usize).collect(),
        false => (0..ids.len()).collect::<Vec<_>>(),
    };
    let mut rows = Vec::new();
    engine
        .logits(&ids, |position, logits| {
            if positions.contains(&position) {
                rows.extend_from_slice(logits);
            }
        })
        .unwrap();
    rows
}

pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
