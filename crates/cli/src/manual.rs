//! `docs/cli.md` from the flag table.

use std::fmt::Write;

use clap::{Arg, Command};

/// The whole manual as Markdown.
pub fn markdown(tree: Command) -> String {
    let mut tree = tree;
    tree.build();
    let mut text = String::from(
        "<!-- Generated from the flag table; after changing that: AKUNU_BLESS=1 cargo test -p akunu-cli manual -->\n\n\
         # akunu\n\n",
    );
    let shared = Shared::of(&tree);
    section(&mut text, &tree, None, &shared);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n| command | |\n|---|---|");
    for command in visible(&tree) {
        let (name, about) = (command.get_name(), about(command));
        let _ = writeln!(text, "| [`akunu {name}`](#akunu-{name}) | {about} |");
    }
    for command in visible(&tree) {
        chapter(&mut text, command, "akunu", 2, &shared);
    }
    shared.write(&mut text);
    if let Some(after) = tree.get_after_long_help() {
        let _ = writeln!(text, "\n## Limits, environment and exit status\n\n```text\n{after}\n```");
    }
    text
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set())
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn chapter(text: &mut String, command: &Command, parent: &str, level: usize, shared: &Shared) {
    let name = format!("{parent} {}", command.get_name());
    let _ = writeln!(text, "\n{} {name}\n", "#".repeat(level));
    section(text, command, Some(&name), shared);
    for command in visible(command) {
        chapter(text, command, &name, level + 1, shared);
    }
}

/// Arguments that have a heading, in the order in which commands show them: name and row, as the first command has it.
struct Shared(Vec<(String, Vec<(String, String)>)>);

impl Shared {
    fn of(tree: &Command) -> Self {
        let mut headings: Vec<(String, Vec<(String, String)>)> = Vec::new();
        for argument in visible(tree).flat_map(Command::get_arguments) {
            let Some(heading) = argument.get_help_heading() else { continue };
            let at = headings.iter().position(|(known, _)| known == heading).unwrap_or_else(|| {
                headings.push((heading.to_owned(), Vec::new()));
                headings.len() - 1
            });
            let (rows, name) = (&mut headings[at].1, argument.get_id().as_str());
            if rows.iter().all(|(known, _)| known != name) {
                rows.push((name.to_owned(), row(argument)));
            }
        }
        Self(headings)
    }

    fn has(&self, row: &str) -> bool {
        self.0.iter().flat_map(|(_, rows)| rows).any(|(_, known)| known == row)
    }

    /// Which of them are among `rows`: a line for each heading.
    fn named(&self, rows: &[String]) -> String {
        let mut text = String::new();
        for (heading, all) in &self.0 {
            let (here, gone): (Vec<_>, Vec<_>) = all.iter().partition(|(_, row)| rows.contains(row));
            let list = |some: Vec<&(String, String)>| {
                some.iter().map(|(name, _)| format!("`--{name}`")).collect::<Vec<_>>().join(", ")
            };
            let which = match (here.len(), gone.len()) {
                (0, _) => continue,
                (_, 0) => "all".to_owned(),
                (more, less) if more > less => format!("all but {}", list(gone)),
                _ => list(here),
            };
            let _ = writeln!(text, "- [{heading}](#{}): {which}", heading.to_lowercase().replace(' ', "-"));
        }
        text
    }

    fn write(&self, text: &mut String) {
        let _ =
            writeln!(text, "\n## Shared arguments\n\nWhere a command has a row of its own for one, that row counts.");
        for (heading, rows) in &self.0 {
            let rows: Vec<&str> = rows.iter().map(|(_, row)| row.as_str()).collect();
            let _ = writeln!(text, "\n### {heading}\n\n| argument | |\n|---|---|\n{}", rows.join("\n"));
        }
    }
}

/// What the command does, its usage and its arguments.
fn section(text: &mut String, command: &Command, name: Option<&str>, shared: &Shared) {
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_else(|| format!("{}.", about(command)));
    let _ = writeln!(text, "{}", long.trim_end());
    if let Some(name) = name {
        let usage = command.clone().bin_name(name).render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = writeln!(text, "\n```text\n{usage}\n```");
    }
    let rows: Vec<String> = command
        .get_arguments()
        // Global flags and help are said once, for the whole program.
        .filter(|a| !a.is_hide_set() && (name.is_none() || !a.is_global_set() && a.get_id() != "help"))
        .map(row)
        .collect();
    let own: Vec<&str> = rows.iter().map(String::as_str).filter(|row| !shared.has(row)).collect();
    if !own.is_empty() {
        let _ = writeln!(text, "\n| argument | |\n|---|---|\n{}", own.join("\n"));
    }
    let named = shared.named(&rows);
    if !named.is_empty() {
        let _ = write!(text, "\n[Shared arguments](#shared-arguments):\n\n{named}");
    }
}

/// A row of a table.
fn row(argument: &Arg) -> String {
    format!("| {} | {} |", spelling(argument), meaning(argument))
}

/// `-n, --max-tokens N`
fn spelling(argument: &Arg) -> String {
    let value = argument.get_value_names().and_then(|n| n.first()).map(|n| n.to_string());
    let value = value.filter(|_| argument.get_action().takes_values());
    let short = argument.get_short().map(|s| format!("-{s}"));
    let long = argument.get_long().map(|l| format!("--{l}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    match (names.is_empty(), value) {
        (true, value) => format!("`{}`", value.unwrap_or_default().replace('|', "\\|")),
        (false, None) => format!("`{}`", names.join("`, `")),
        (false, Some(value)) => format!("`{} {value}`", names.join("`, `")),
    }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default().replace('|', "\\|").replace('\n', " ");
    let choices: Vec<String> = argument.get_possible_values().iter().map(|v| format!("`{}`", v.get_name())).collect();
    if !choices.is_empty() && argument.get_action().takes_values() {
        let _ = write!(text, " ({})", choices.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        let _ = write!(text, " [default: {}]", defaults.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_share_is_said_once_and_what_differs_where_it_does() {
        let text = markdown(crate::flags::tree());
        for said_once in ["| `--top-k N` |", "| `--draft MODEL` |", "| `--json-schema SCHEMA` |", "| `--mmap` |"] {
            assert_eq!(text.matches(said_once).count(), 1, "{said_once}");
        }
        let chat = text.split("\n## ").find(|section| section.starts_with("akunu chat")).unwrap();
        assert!(
            chat.contains("- [Sampling](#sampling): all but `--temperature`") && chat.contains("[default: 0.7]"),
            "{chat}"
        );
    }

    /// The file is kept in step; set AKUNU_BLESS=1 to write it anew.
    #[test]
    fn the_manual_in_the_repository_is_in_step_with_the_flag_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
        let text = markdown(crate::flags::tree());
        if std::env::var_os("AKUNU_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "docs/cli.md is not in step: AKUNU_BLESS=1 cargo test -p akunu-cli manual");
    }
}
