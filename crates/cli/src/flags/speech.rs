//! The flags of `akunu transcribe`.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint, value_parser};

use super::shared::{self, flag, model, option};
use super::values;

pub fn transcribe() -> Command {
    Command::new("transcribe")
        .about("Write down what is said in recordings")
        .long_about(
            "Write down what is said in recordings, with a Whisper model: whisper.cpp's ggml file, a GGUF file or a \
             directory with safetensors. Recordings are wav, mp3, flac, ogg/vorbis or m4a/aac, of any rate and length; what is not \
             16 kHz mono is mixed and resampled. Text appears as it is understood.\n\n\
             With --live the recording is what comes through standard input: raw signed 16-bit little-endian samples, \
             mono, 16 kHz. What was said so far stands on standard error until it is final.",
        )
        .arg(model().required(true))
        .arg(
            Arg::new("audio")
                .value_name("AUDIO")
                .num_args(1..)
                .action(ArgAction::Append)
                .required_unless_present("live")
                .value_parser(value_parser!(std::path::PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("The recordings"),
        )
        .arg(
            option("language", "LANG", "What is spoken, as a code (en) or name; `auto` finds out")
                .short('l')
                .default_value("auto"),
        )
        .arg(flag("translate", "Write it down in English, whatever is spoken"))
        .arg(
            option("format", "FORMAT", "What to write")
                .short('f')
                .value_parser(PossibleValuesParser::new(["txt", "srt", "vtt", "json", "csv"]))
                .default_value("txt"),
        )
        .arg(flag("words", "When each word was said: one cue a word in srt, vtt and csv, a list in json").short('w'))
        .arg(
            option("output", "DIR", "Write one file for each recording there, instead of to standard output")
                .short('o')
                .value_parser(value_parser!(std::path::PathBuf))
                .value_hint(ValueHint::DirPath)
                .conflicts_with("live"),
        )
        .arg(option("prompt", "TEXT", "What was said before, or names to expect"))
        .arg(
            option("beams", "N", "Beams of the search; 1 takes the likeliest token each time")
                .value_parser(value_parser!(u8).range(1..=8))
                .default_value("5"),
        )
        .arg(
            option("best-of", "N", "Samples to choose from where the search has to be repeated")
                .value_parser(value_parser!(u8).range(1..=8))
                .default_value("5"),
        )
        .arg(
            option("temperature", "T", "Begin at this temperature; each repetition adds 0.2")
                .value_parser(values::not_negative)
                .default_value("0"),
        )
        .arg(flag("no-fallback", "Keep the first result, however unlikely or repetitive it is"))
        .arg(flag("no-context", "Do not tell a window what was said in those before it, back to the last long silence"))
        .arg(
            flag("no-timestamps", "Do not ask the model for times; windows are 30 seconds each")
                .conflicts_with("words"),
        )
        .arg(flag("keep-silence", "Transcribe silence too, in which the model may make something up"))
        .arg(
            option("vad-model", "FILE", "Leave out what has no voice in it, by Silero's weights: a file, or `silero-vad`")
                .value_parser(value_parser!(std::ffi::OsString))
                .value_hint(ValueHint::FilePath)
                .conflicts_with("keep-silence"),
        )
        .arg(flag("live", "Transcribe raw samples from standard input as they come").conflicts_with("audio"))
        .arg(
            option("seed", "N", "Where the search is repeated, sample otherwise")
                .value_parser(value_parser!(u64))
                .default_value("0"),
        )
        .arg(flag("timings", "Write to standard error how long loading, the encoder and the decoder took"))
        .args(shared::device_flags())
        .arg(shared::kv())
        .arg(shared::activations())
}
