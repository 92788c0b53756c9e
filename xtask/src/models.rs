//! `cargo xtask models`: the real models that tests and benchmarks opt in to.

use std::io::{IsTerminal, Write};

use akunu_hub::{CATALOG, Hub, Sources};

pub fn list() -> anyhow::Result<bool> {
    for model in Hub::from_environment()?.list() {
        let place = model.path.map_or("not fetched".into(), |p| p.display().to_string());
        println!("{:<20} {:>13}  {:<50} {place}", model.name, model.bytes, model.about);
    }
    Ok(true)
}

/// Fetches the named models, or all of the catalog.
pub fn fetch(names: &[&str]) -> anyhow::Result<bool> {
    let hub = Hub::from_environment()?;
    let all: Vec<&str> = CATALOG.iter().map(|k| k.name).collect();
    let mut fetched = true;
    for name in if names.is_empty() { &all } else { names } {
        let mut progress = |done: u64, total: Option<u64>| {
            if std::io::stderr().is_terminal() {
                let total = total.map_or(String::new(), |t| format!(" of {}", t >> 20));
                eprint!("\r{name}: {}{total} MiB ", done >> 20);
                // Progress that does not show is no reason to stop.
                let _ = std::io::stderr().flush();
            }
        };
        match hub.fetch(name, Sources::All, &mut progress) {
            Ok(fetched) => println!("{name}: {} ({})", fetched.path.display(), fetched.origin),
            Err(error) => {
                fetched = false;
                println!("{name}: {error}");
            }
        }
    }
    Ok(fetched)
}
