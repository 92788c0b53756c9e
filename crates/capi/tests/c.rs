//! The C library as programs in C and C++ have it: installed, compiled against, linked, run, and misused.

#![cfg(unix)]

#[path = "../../../xtask/src/c_library.rs"]
mod c_library;

use akunu_dtype::DType;
use akunu_testkit::fixtures::{self, Source, needed};
use akunu_testkit::{TempDir, tones};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The library under a prefix, and a folder for programs.
static KIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    let built = std::env::current_exe().unwrap();
    c_library::install(&root(), built.parent().unwrap(), &dir.join("prefix")).unwrap();
    dir
});

fn lib() -> PathBuf {
    KIT.join("prefix/lib")
}

/// A tool that not every machine has.
fn tool(name: &str) -> Option<()> {
    let found = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    needed(found.then_some(()), Source::Fetched, name)
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command that must succeed prints.
fn stdout(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        text(&output.stderr) + &text(&output.stdout)
    );
    text(&output.stdout)
}

const WARNINGS: [&str; 5] = ["-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Compiles a source file into a program; `None` where there is no compiler.
fn compile(source: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let cpp = source.extension() == Some(OsStr::new("cpp"));
    let (compiler, standard) = if cpp { ("c++", "-std=c++17") } else { ("cc", "-std=c99") };
    tool(compiler)?;
    let program = KIT.join(name);
    stdout(
        Command::new(compiler)
            .arg(standard)
            .args(WARNINGS)
            .arg("-I")
            .arg(KIT.join("prefix/include"))
            .arg(source)
            .arg("-o")
            .arg(&program)
            .args(["-pthread", "-lm"])
            .arg("-L")
            .arg(lib())
            .args(flags),
    );
    Some(program)
}

fn example(name: &str) -> Option<PathBuf> {
    let path = root().join("examples").join(name);
    compile(&path, path.file_stem()?.to_str()?, &["-lakunu"])
}

/// A program with the shared library's folder where the system looks.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", lib()).env("DYLD_LIBRARY_PATH", lib());
    command
}

fn stories() -> PathBuf {
    fixtures::path("gguf/stories-llama-Q4_0.gguf")
}

#[test]
fn chat_writes_as_it_comes() {
    let Some(chat) = example("c/chat.c") else { return };
    let story = stdout(program(&chat).arg(stories()));
    assert!(story.contains("tokens after 4") && story.len() > 60, "{story}");
    assert_eq!(stdout(&mut program(&chat)), story, "the same model is inside the library");
    let output = run(program(&chat).arg("no such file"));
    assert!(!output.status.success() && text(&output.stderr).contains("no such file"), "{output:?}");
}

#[test]
fn embed_finds_a_sentence_nearest_to_itself() {
    let Some(embed) = example("c/embed.c") else { return };
    let lines = stdout(program(&embed).arg(stories()).args(["A cat sat.", "The dog ran away.", "A cat sat."]));
    let cosines: Vec<f32> = lines.lines().map(|l| l.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert!(cosines.len() == 3 && cosines[0] == 1.0 && cosines[2] == 1.0 && cosines[1] < 0.99, "{lines}");
}

#[test]
fn transcribe_writes_down_what_the_reference_does() {
    let Some(transcribe) = example("c/transcribe.c") else { return };
    let dir = TempDir::new();
    let expected = tones::expected();
    let recording = &expected["recordings"]["short"];
    let sound = dir.write("tones.wav", &tones::wav(&tones::play(recording)));
    let lines = stdout(program(&transcribe).arg(tones::model(&dir, DType::F32)).arg(sound));
    // The first transcript is of this recording, with the options that are ours too.
    for segment in expected["transcripts"][0]["segments"].as_array().unwrap() {
        let text = segment["text"].as_str().unwrap();
        assert!(lines.lines().any(|line| line.ends_with(text)), "{text} in {lines}");
    }
    assert!(lines.ends_with("language: en\n"), "{lines}");
}

#[test]
fn batch_answers_everybody() {
    let Some(batch) = example("c/batch.c") else { return };
    let lines = stdout(&mut program(&batch));
    for prompt in ["Once upon a time", "The dog", "Tom and Lily went", "In the garden"] {
        assert!(lines.lines().any(|l| l.starts_with(prompt) && l.len() > prompt.len() + 20), "{lines}");
    }
}

#[test]
fn tokens_are_chosen_step_by_step() {
    let Some(tokens) = example("c/tokens.c") else { return };
    let lines = stdout(&mut program(&tokens));
    assert!(lines.starts_with("Once upon a time") && lines.contains("the likeliest token after"), "{lines}");
}

#[test]
fn a_story_in_cpp() {
    let Some(story) = example("cpp/story.cpp") else { return };
    let lines = stdout(&mut program(&story));
    assert!(lines.contains("The cat was happy.") || lines.contains("The cat was sad."), "{lines}");
    assert!(lines.lines().any(|l| l.starts_with("The dog") && l.len() > 20), "{lines}");
    let output = run(program(&story).arg("no such file"));
    assert!(text(&output.stderr).starts_with("AKUNU_ERROR_FILE: no such file"), "{output:?}");
}

#[test]
fn swift_reads_the_module_map() {
    if tool("swiftc").is_none() {
        return;
    }
    let map = format!("-fmodule-map-file={}", KIT.join("prefix/include/akunu/module.modulemap").display());
    let story = KIT.join("story-swift");
    let source = root().join("examples/swift/story.swift");
    stdout(Command::new("swiftc").arg(source).arg("-o").arg(&story).args(["-Xcc", &map]).arg("-L").arg(lib()));
    assert!(stdout(&mut program(&story)).len() > 20);
}

fn misuse(name: &str, flags: &[&str]) -> Option<PathBuf> {
    compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/misuse.c"), name, flags)
}

#[test]
fn misuse_is_an_error_and_never_a_crash() {
    let Some(misuse) = misuse("misuse", &["-lakunu"]) else { return };
    assert_eq!(stdout(&mut program(&misuse)), "all as documented\n");
}

/// The library's own code is not instrumented; its uses of the caller's memory by `memcpy` and its leaks are seen.
#[test]
fn the_address_sanitizer_finds_nothing() {
    if tool("cc").is_none() {
        return;
    }
    let sanitizers = "-fsanitize=address,undefined";
    let empty = KIT.join("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let there = run(Command::new("cc").arg(sanitizers).arg(empty).arg("-o").arg(KIT.join("empty")));
    if needed(there.status.success().then_some(()), Source::Fetched, "address sanitizer").is_none() {
        return;
    }
    let Some(misuse) = misuse("misuse-asan", &["-lakunu", sanitizers, "-fno-sanitize=alignment"]) else { return };
    assert_eq!(stdout(&mut program(&misuse)), "all as documented\n");
}

/// What is instrumented here is all of it.
#[test]
fn valgrind_finds_nothing() {
    if tool("valgrind").is_none() {
        return;
    }
    let Some(misuse) = misuse("misuse-valgrind", &["-lakunu"]) else { return };
    let mut valgrind = program(Path::new("valgrind"));
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    assert_eq!(
        stdout(valgrind.args(["--show-leak-kinds=definite", "--trace-children=yes"]).arg(misuse)),
        "all as documented\n"
    );
}

/// The static library, as pkg-config says that it is linked.
#[test]
fn the_static_library_needs_no_other() {
    if tool("pkg-config").is_none() {
        return;
    }
    let mut asked = Command::new("pkg-config");
    asked.env("PKG_CONFIG_PATH", lib().join("pkgconfig")).args(["--cflags", "--libs", "--static", "akunu"]);
    let flags = stdout(&mut asked);
    let archive = lib().join("libakunu.a").display().to_string();
    let flags: Vec<&str> = flags.split_whitespace().map(|f| if f == "-lakunu" { &archive } else { f }).collect();
    let Some(tokens) = compile(&root().join("examples/c/tokens.c"), "tokens-static", &flags) else { return };
    assert!(stdout(&mut Command::new(tokens)).starts_with("Once upon a time"));
}

#[test]
fn cmake_finds_the_library() {
    if tool("cmake").is_none() {
        return;
    }
    let dir = TempDir::new();
    dir.write(
        "CMakeLists.txt",
        format!(
            "cmake_minimum_required(VERSION 3.16)\nproject(tokens C)\nfind_package(akunu 0.1 REQUIRED)\n\
             add_executable(tokens {})\ntarget_link_libraries(tokens akunu::akunu)\n",
            root().join("examples/c/tokens.c").display()
        )
        .as_bytes(),
    );
    let build = dir.join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", KIT.join("prefix").display());
    stdout(Command::new("cmake").arg("-S").arg(dir.path()).arg("-B").arg(&build).arg(prefix));
    stdout(Command::new("cmake").arg("--build").arg(&build));
    assert!(stdout(&mut Command::new(build.join("tokens"))).starts_with("Once upon a time"));
}

/// Programs find the library under the name that it says it has.
#[test]
fn the_shared_library_has_its_soname() {
    if !cfg!(target_os = "linux") || tool("readelf").is_none() {
        return;
    }
    let dynamic = stdout(Command::new("readelf").arg("-d").arg(lib().join("libakunu.so")));
    assert!(dynamic.contains("Library soname: [libakunu.so.0]"), "{dynamic}");
    let symbols = stdout(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(lib().join("libakunu.so")));
    let exported = symbols.lines().filter(|l| l.contains(" GLOBAL ") && !l.contains(" UND "));
    let foreign: Vec<&str> = exported.filter(|l| !l.contains(" akunu_")).collect();
    assert!(foreign.is_empty(), "{foreign:#?}");
}

/// The manual's programs are whole, and work when pasted.
#[test]
fn the_manual_works() {
    let manual = std::fs::read_to_string(root().join("docs/c-api.md")).unwrap();
    let mut programs = 0;
    for (language, extension) in [("c", "c"), ("cpp", "cpp")] {
        let open = format!("```{language}\n");
        for block in manual.split(open.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()) {
            programs += 1;
            let source = KIT.join(format!("manual{programs}.{extension}"));
            std::fs::write(&source, block).unwrap();
            let Some(program_path) = compile(&source, &format!("manual{programs}"), &["-lakunu"]) else { return };
            assert!(!stdout(&mut program(&program_path)).is_empty(), "{block}");
        }
    }
    assert!(programs >= 3, "{programs} programs in docs/c-api.md");
}
