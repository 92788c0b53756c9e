//! `chat`, at a terminal and through pipes.

use akunu_testkit::TempDir;
use serde_json::Value;

use crate::support::piped;
use crate::terminal::Terminal;

/// The embedded model knows no conversations: messages are told one after the other.
const TEMPLATE: &[u8] = b"{% for m in messages %}{{ m.content }}{% endfor %}";

/// A folder with a template, and the flags every test uses.
fn setup(more: &str) -> (TempDir, String) {
    let folder = TempDir::new();
    let template = folder.write("t.jinja", TEMPLATE);
    let (template, history) = (template.display(), folder.join("history"));
    let flags = format!("chat --template {template} --history {} {more}", history.display());
    (folder, flags)
}

#[test]
fn piped_messages_are_answered_on_standard_output_alone() {
    let (_folder, flags) = setup("--temperature 0 -n 12");
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    let ran = piped(&flags, b"Once upon a time\n/stats\n");
    assert_eq!(ran.stdout, ", there was a little girl named Lily. She loved to\n");
    assert!(ran.stderr.contains("2 messages"), "{}", ran.stderr);
    assert_eq!(ran.status, 0);
}

#[test]
fn only_new_tokens_are_prefilled() {
    let (_folder, flags) = setup("--temperature 0 -n 20");
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    let ran = piped(&flags, b"Once upon a time\n She said\n/stats\n");
    // 4 tokens of the first message and 19 of its answer are cached; the last was never fed.
    assert!(ran.stderr.contains("last answer: 23 tokens reused, prefill 3 tokens"), "{}", ran.stderr);
}

#[test]
fn what_is_reused_does_not_change_the_answer() {
    // In f32 what was generated and what is read again round alike.
    let (folder, flags) = setup("--temperature 0 -n 20 --activations f32");
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    let save = format!("/save {}\n", folder.join("c.json").display());
    let talked = piped(&flags, format!("Once upon a time\n{save} She said\n").as_bytes()).ok();
    let load = format!("/load {}\n She said\n", folder.join("c.json").display());
    let loaded = piped(&flags, load.as_bytes()).ok();
    assert_eq!(talked.lines().last(), loaded.lines().last());
}

#[test]
fn mistakes_in_commands_do_not_end_the_conversation() {
    let (_folder, flags) = setup("--temperature 0 -n 4");
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    let script = b"/nope\n/save\n/load /no/such/file\n/params temperature=hot\n/params what=1\n/params x\nTom\n";
    let ran = piped(&flags, script);
    assert_eq!(ran.stderr.lines().filter(|l| l.starts_with("error: ")).count(), 6, "{}", ran.stderr);
    assert_eq!((ran.status, ran.stdout.lines().count()), (0, 1), "{}", ran.stdout);
}

#[test]
fn at_a_terminal_it_answers_resets_saves_loads_and_leaves() {
    let (folder, flags) = setup("--temperature 0 -n 12");
    let Some(terminal) = Terminal::start(&flags) else { return };
    let saved = folder.join("saved.json");
    terminal.wait_prompt_after("/help lists commands");
    terminal.line("Once upon a time");
    terminal.wait_prompt_after("there was a little girl named Lily");
    terminal.line(&format!("/save {}", saved.display()));
    terminal.wait_prompt_after("saved 2 messages");
    terminal.line("/reset");
    terminal.wait_prompt_after("forgotten");
    terminal.line("/stats");
    terminal.wait_prompt_after("0 messages");
    terminal.line(&format!("/load {}", saved.display()));
    terminal.wait_prompt_after("loaded 2 messages");
    terminal.line("/system Be kind.");
    terminal.wait_prompt_after("system message is set");
    terminal.line("/params temperature=0.5");
    terminal.wait_prompt_after("temperature=0.5");
    terminal.line("/help");
    terminal.wait_prompt_after("/params [NAME=VALUE");
    terminal.key("C-d");
    terminal.wait(|s| s.contains("left with 0"));
    let json: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    assert_eq!(json["messages"][0]["content"], "Once upon a time");
    assert_eq!(json["messages"][1]["role"], "assistant");
}

#[test]
fn at_a_terminal_ctrl_c_stops_the_answer_and_not_the_program() {
    // Very free choices over a long context: an answer of thousands of tokens.
    let (_folder, flags) = setup(
        "--temperature 50 --top-k 0 --top-p 1 --min-p 0 --seed 3 --ignore-eos -n 30000 --context 32000 --threads 1",
    );
    let Some(terminal) = Terminal::start(&flags) else { return };
    terminal.wait_prompt_after("/help lists commands");
    terminal.line("Tom");
    terminal.wait(|s| s.split("> Tom").nth(1).is_some_and(|answer| answer.trim().len() > 80));
    terminal.key("C-c");
    terminal.wait_prompt_after("stopped");
    // At the prompt it says how to leave.
    terminal.key("C-c");
    terminal.wait_prompt_after("Ctrl-D or /exit leaves");
    terminal.line("/params temperature=0 max-tokens=8");
    terminal.wait_prompt_after("max-tokens=8");
    terminal.line("/reset");
    terminal.wait_prompt_after("forgotten");
    terminal.line("Once upon a time");
    terminal.wait_prompt_after("there was a little girl");
    terminal.line("/exit");
    terminal.wait(|s| s.contains("left with 0"));
}

#[test]
fn at_a_terminal_lines_are_remembered_and_messages_have_several() {
    let (folder, flags) = setup("--temperature 0 -n 4");
    let Some(terminal) = Terminal::start(&flags) else { return };
    let saved = folder.join("saved.json");
    terminal.wait_prompt_after("/help lists commands");
    terminal.line("Once upon\\");
    terminal.line(" a time");
    terminal.wait_prompt_after("stopped at max-tokens");
    terminal.line("\"\"\"two");
    terminal.line("lines\"\"\"");
    terminal.wait(|s| s.matches("stopped at max-tokens").count() == 2);
    terminal.line(&format!("/save {}", saved.display()));
    terminal.wait_prompt_after("saved 4 messages");
    terminal.key("C-d");
    terminal.wait(|s| s.contains("left with 0"));
    let json: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    assert_eq!(json["messages"][0]["content"], "Once upon\n a time");
    assert_eq!(json["messages"][2]["content"], "two\nlines");

    let Some(terminal) = Terminal::start(&flags) else { return };
    terminal.wait_prompt_after("/help lists commands");
    terminal.key("Up");
    terminal.wait(|s| s.contains("> /save"));
    assert!(terminal.coloured_screen().contains("\u{1b}["), "notes are dimmed at a terminal");
}

#[test]
fn at_a_terminal_without_colours_there_are_none() {
    let (_folder, flags) = setup("--temperature 0 -n 4");
    let Some(terminal) = Terminal::start_with("NO_COLOR=1", &flags) else { return };
    terminal.wait_prompt_after("/help lists commands");
    terminal.line("/nope");
    terminal.wait_prompt_after("error: there is no command");
    let screen = terminal.coloured_screen();
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
fn a_conversation_that_outgrows_the_context_says_what_to_do() {
    let (_folder, flags) = setup("--temperature 0 -n 4 --context 8");
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    let ran = piped(&flags, b"Once upon a time there was a little dog and a cat\nTom\n");
    assert!(ran.stderr.contains("/reset"), "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1, "the next message is answered: {}", ran.stdout);
}

#[test]
fn a_saved_conversation_that_is_none_is_refused() {
    let (folder, flags) = setup("");
    let bad = folder.write("bad.json", b"{\"messages\": 3}");
    let flags = format!("{flags} --load {}", bad.display());
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    assert!(piped(&flags, b"").refused(1).contains("messages"));
}

#[test]
fn after_a_restart_with_its_session_a_chat_computes_only_what_is_new() {
    let (folder, flags) = setup("--temperature 0 -n 20");
    let session = folder.join("talk.session").display().to_string();
    let flags: Vec<&str> = flags.split(' ').chain(["--session", &session]).filter(|f| !f.is_empty()).collect();
    let talked = piped(&flags, b"Once upon a time\n She said\n").ok();
    std::fs::remove_file(&session).unwrap();
    let first = piped(&flags, b"Once upon a time\n").ok();
    let second = piped(&flags, b" She said\n/stats\n");
    assert!(second.stderr.contains("last answer: 23 tokens reused, prefill 3 tokens"), "{}", second.stderr);
    assert_eq!(first + &second.ok(), talked);
}

#[test]
fn where_the_context_may_shift_the_oldest_turns_go() {
    let (_folder, flags) = setup("--temperature 0 -n 30 --context 96 --context-shift");
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    let message = b"Once upon a time there was a cat.\n".repeat(6);
    let ran = piped(&flags, &message);
    assert_eq!((ran.status, ran.stdout.lines().count()), (0, 6), "{}{}", ran.stdout, ran.stderr);
    let (_folder, flags) = setup("--temperature 0 -n 30 --context 96");
    let flags: Vec<&str> = flags.split(' ').filter(|f| !f.is_empty()).collect();
    assert!(piped(&flags, &message).stderr.contains("--context-shift"));
}
