//! Where the time of an encoder goes: `cargo bench -p akunu --bench encoder -- MODEL [THREADS]` sums the time of every kernel over one window.

use akunu::{Engine, LoadOptions};
use std::collections::BTreeMap;

fn main() -> Result<(), akunu::Error> {
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    let model = arguments.next().unwrap_or_default();
    let threads = arguments.next().and_then(|t| t.parse().ok());
    let mut engine = Engine::load(model.as_ref(), LoadOptions { threads, ..LoadOptions::default() })?;
    engine.time_encoder()?;
    let mut kernels: BTreeMap<String, (u64, usize)> = BTreeMap::new();
    let times = engine.time_encoder()?;
    for (name, time) in &times {
        let sum = kernels.entry(name.clone()).or_default();
        *sum = (sum.0 + time, sum.1 + 1);
    }
    for (name, (time, count)) in kernels {
        println!("{:>9.2} ms  {count:>3} × {name}", time as f64 / 1e6);
    }
    println!("{:>9.2} ms", times.iter().map(|t| t.1).sum::<u64>() as f64 / 1e6);
    Ok(())
}
