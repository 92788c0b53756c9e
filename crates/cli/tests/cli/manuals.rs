//! What is generated from the flag table.

use akunu_testkit::TempDir;

use crate::support::{run, words};

const COMMANDS: [&str; 14] = [
    "run",
    "chat",
    "inspect",
    "bench",
    "logits",
    "perplexity",
    "tokenize",
    "render",
    "synth",
    "convert",
    "models",
    "devices",
    "completions",
    "man",
];

#[test]
fn every_command_has_help() {
    let help = words("--help").ok();
    for command in COMMANDS {
        assert!(help.contains(&format!("  {command} ")), "{command} in {help}");
        let text = run([command, "--help"]).ok();
        assert!(text.contains("Usage: akunu"), "{text}");
    }
    assert!(words("--version").ok().starts_with("akunu "));
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(["completions", shell]).ok();
        assert!(COMMANDS.iter().all(|c| script.contains(c)), "{shell}");
    }
}

#[test]
fn the_manual_comes_as_a_page_as_markdown_and_as_a_folder() {
    assert!(words("man").ok().contains(".TH akunu 1"));
    let markdown = words("man --markdown").ok();
    assert!(COMMANDS.iter().all(|c| markdown.contains(&format!("\n## akunu {c}\n"))));
    let folder = TempDir::new();
    run(["man", "--output", &folder.path().to_string_lossy()]).ok();
    assert!(folder.join("akunu-run.1").exists());
}
