//! `cargo xtask clients`: the packages that people use, and llama.cpp's own tests, against the server over a socket.
//!
//! The tests are in `clients/`; packages and results are kept outside of the repository. `clients/not-applicable.json` says
//! which tests do not apply and why: such a test runs all the same, and its row says so when it passes after all.

pub(crate) mod install;
mod run;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use akunu_hub::{Hub, Sources};
use anyhow::Context;

use install::Tools;
use run::Results;

pub struct Options {
    pub akunu: Option<PathBuf>,
    /// Where packages are installed and reports written.
    pub dir: Option<PathBuf>,
    /// Suites by name; none: all, and the table is written into the documents.
    pub only: Vec<String>,
    /// A checkout of llama.cpp.
    pub llama_cpp: Option<PathBuf>,
}

/// What runs the tests of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Python,
    Node,
    LlamaCpp,
}

/// The tests of one client.
struct Suite {
    name: &'static str,
    runner: Runner,
    /// The package whose version the table shows; none for llama.cpp.
    package: &'static str,
    /// A file in the runner's folder.
    file: &'static str,
}

const fn suite(name: &'static str, runner: Runner, package: &'static str, file: &'static str) -> Suite {
    Suite { name, runner, package, file }
}

use Runner::{LlamaCpp, Node, Python};

static SUITES: &[Suite] = &[
    suite("python-openai", Python, "openai", "test_openai.py"),
    suite("python-openai-responses", Python, "openai", "test_openai_responses.py"),
    suite("python-openai-audio", Python, "openai", "test_openai_audio.py"),
    suite("python-anthropic", Python, "anthropic", "test_anthropic.py"),
    suite("python-ollama", Python, "ollama", "test_ollama.py"),
    suite("python-litellm", Python, "litellm", "test_litellm.py"),
    suite("openapi", Python, "schemathesis", "test_openapi.py"),
    suite("langchain-openai", Python, "langchain-openai", "test_langchain_openai.py"),
    suite("langchain-anthropic", Python, "langchain-anthropic", "test_langchain_anthropic.py"),
    suite("langchain-ollama", Python, "langchain-ollama", "test_langchain_ollama.py"),
    suite("node-openai", Node, "openai", "openai.test.mjs"),
    suite("node-ai", Node, "ai", "ai.test.mjs"),
    suite("node-anthropic", Node, "@anthropic-ai/sdk", "anthropic.test.mjs"),
    suite("node-ollama", Node, "ollama", "ollama.test.mjs"),
    suite("llama.cpp-chat-completion", LlamaCpp, "", "test_chat_completion.py"),
    suite("llama.cpp-completion", LlamaCpp, "", "test_completion.py"),
    suite("llama.cpp-embedding", LlamaCpp, "", "test_embedding.py"),
    suite("llama.cpp-rerank", LlamaCpp, "", "test_rerank.py"),
    suite("llama.cpp-tokenize", LlamaCpp, "", "test_tokenize.py"),
    suite("llama.cpp-template", LlamaCpp, "", "test_template.py"),
    suite("llama.cpp-security", LlamaCpp, "", "test_security.py"),
    suite("llama.cpp-tool-call", LlamaCpp, "", "test_tool_call.py"),
    suite("llama.cpp-compat-anthropic", LlamaCpp, "", "test_compat_anthropic.py"),
    suite("llama.cpp-compat-oai-responses", LlamaCpp, "", "test_compat_oai_responses.py"),
    suite("llama.cpp-stream", LlamaCpp, "", "test_stream.py"),
];

/// The models that the server has, and what the tests call them.
const MODELS: &[(&str, &str)] = &[("chat", "smollm2-135m"), ("embed", "minilm"), ("speech", "whisper-tiny")];
/// The model that `python/ranker.py` makes a cross-encoder of: no trained one is in the catalog.
const RANKED: &str = "embed";

pub fn run(options: &Options) -> anyhow::Result<bool> {
    let unknown = options.only.iter().find(|name| !SUITES.iter().any(|s| s.name.starts_with(name.as_str())));
    anyhow::ensure!(unknown.is_none(), "there is no suite {}", unknown.map_or("", String::as_str));
    let hub = Hub::from_environment()?;
    let dir = options.dir.clone().unwrap_or_else(|| hub.models().with_file_name("clients"));
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let place = Place {
        akunu: options.akunu.clone().map_or_else(crate::bench::build, Ok)?.canonicalize()?,
        models: models(&hub, &dir)?,
        sources: crate::root().join("clients"),
        dir: dir.canonicalize()?,
        llama_cpp: options.llama_cpp.as_ref().map(|path| path.canonicalize()).transpose()?,
    };
    let reasons = run::Reasons::read(&place.sources.join("not-applicable.json"))?;
    let mut tools = Tools::default();
    let mut all: Vec<(&Suite, Results)> = Vec::new();
    let wanted = |s: &&Suite| options.only.is_empty() || options.only.iter().any(|name| s.name.starts_with(name));
    for suite in SUITES.iter().filter(wanted) {
        let results = match tools.of(suite.runner, &place) {
            Ok(tool) => run::suite(suite, tool, &place, &reasons)?,
            Err(why) => Results::not_run(why.clone()),
        };
        println!("{}", table::line(suite.name, &results));
        all.push((suite, results));
    }
    let text = table::document(&all, &place.sources)?;
    fs::write(place.dir.join("clients.md"), &text)?;
    if options.only.is_empty() {
        fs::write(crate::root().join("docs/clients.md"), &text)?;
    } else {
        println!("\n{text}");
    }
    Ok(all.iter().all(|(_, results)| results.failed.is_empty() && results.broken.is_none()))
}

/// Where everything is.
struct Place {
    akunu: PathBuf,
    /// `NAME=PATH`, as the server takes them.
    models: Vec<String>,
    sources: PathBuf,
    dir: PathBuf,
    llama_cpp: Option<PathBuf>,
}

impl Place {
    /// The folder of a runner's tests.
    fn tests(&self, runner: Runner) -> PathBuf {
        self.sources.join(match runner {
            Python => "python",
            Node => "node",
            LlamaCpp => "llama_cpp",
        })
    }
}

/// The server's models, fetched where they are not here.
fn models(hub: &Hub, dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut models = Vec::new();
    for (name, model) in MODELS {
        let path = match hub.path(model) {
            Ok(path) => path,
            Err(_) => hub.fetch(model, Sources::All, &mut |_, _| {})?.path,
        };
        models.push(format!("{name}={}", utf8(&path)?));
        if *name == RANKED {
            let (script, out) = (crate::root().join("clients/python/ranker.py"), dir.join("ranker"));
            let made = Command::new("python3").arg(script).arg(&path).arg(&out).status();
            anyhow::ensure!(made.is_ok_and(|status| status.success()), "python3 cannot make the model that ranks");
            models.push(format!("rank={}", utf8(&out)?));
        }
    }
    // A second one that talks: the only one would answer whatever name is asked for.
    models.push("story=embedded".into());
    Ok(models)
}

fn utf8(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
