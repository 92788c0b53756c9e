//! `akunu transcribe`: recordings to text, subtitles or tables; or what comes through a pipe, as it comes.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use akunu::speech::{Decoding, Event, Live, Silence, Task, TranscribeOptions, Transcriber, Transcript, VoiceModel};
use akunu_audio::{Features, Pcm};
use anyhow::Result;
use clap::ArgMatches;

use crate::failure::{NextStep, failure};
use crate::interrupt::{self, Interrupt};
use crate::source::Source;
use crate::{loading, terminal, transcripts};

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let began = Instant::now();
    let file = Source::of(matches)?.open(loading::limits(matches))?;
    let mut transcriber = Transcriber::from_file(file, loading::load_options(matches))
        .next_step("give a Whisper model, such as a ggml-*.bin file")?;
    let loaded = began.elapsed();
    let options = options(matches)?;
    let format = matches.get_one::<String>("format").map_or("txt", String::as_str);
    let interrupt = Interrupt::once()?;
    if matches.get_flag("live") {
        return live(&mut transcriber, &options, format, &interrupt);
    }
    let recordings: Vec<&PathBuf> = matches.get_many::<PathBuf>("audio").into_iter().flatten().collect();
    let folder = matches.get_one::<PathBuf>("output");
    let mut failed = 0;
    for recording in &recordings {
        let result = one(&mut transcriber, &options, recording, format, folder.map(PathBuf::as_path), &interrupt);
        match result {
            Err(error) if recordings.len() > 1 && !crate::failure::is_broken_pipe(&error) => {
                writeln!(terminal::err(), "error: {}", crate::failure::sentence(&error))?;
                failed += 1;
            }
            result => result?,
        }
        if interrupt.is_set() {
            return Ok(ExitCode::from(interrupt::EXIT_STATUS));
        }
    }
    if matches.get_flag("timings") {
        let times = transcriber.times();
        let [load, encoder, decoder] = [loaded, times.encoder, times.decoder].map(|d| d.as_secs_f64() * 1e3);
        writeln!(
            terminal::err(),
            "load {load:.1} ms, encoder {encoder:.1} ms for {} windows, decoder {decoder:.1} ms",
            times.windows
        )?;
    }
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        n => Err(failure(format!("{n} of {} recordings failed", recordings.len()), "see the errors above")),
    }
}

fn options(matches: &ArgMatches) -> Result<TranscribeOptions> {
    let number = |name| usize::from(matches.get_one::<u8>(name).copied().unwrap_or(5));
    let first = matches.get_one::<f32>("temperature").copied().unwrap_or(0.0);
    let temperatures = match matches.get_flag("no-fallback") {
        true => vec![first],
        false => (0..6).map(|i| first + 0.2 * i as f32).take_while(|t| *t < 1.0 + 1e-6 || *t == first).collect(),
    };
    let silence = match matches.get_one::<OsString>("vad-model") {
        Some(name) => Silence::ByVoice(
            VoiceModel::from_file(&Source::named(name)?.open(loading::limits(matches))?)
                .next_step("give silero_vad_16k.safetensors")?,
        ),
        None if matches.get_flag("keep-silence") => Silence::Keep,
        None => Silence::ByEnergy,
    };
    Ok(TranscribeOptions {
        language: matches.get_one::<String>("language").filter(|l| *l != "auto").cloned(),
        task: if matches.get_flag("translate") { Task::Translate } else { Task::Transcribe },
        decoding: Decoding {
            beams: number("beams"),
            best_of: number("best-of"),
            temperatures,
            seed: matches.get_one::<u64>("seed").copied().unwrap_or(0),
            ..Decoding::default()
        },
        prompt: matches.get_one::<String>("prompt").cloned(),
        condition: !matches.get_flag("no-context"),
        timestamps: !matches.get_flag("no-timestamps"),
        words: matches.get_flag("words"),
        silence,
    })
}

/// One recording: to a file in `folder`, or to standard output.
fn one(
    transcriber: &mut Transcriber,
    options: &TranscribeOptions,
    recording: &Path,
    format: &str,
    folder: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<()> {
    let limits = transcriber.engine().file().limits();
    let mut features = Features::open_within(recording, transcriber.bands(), limits, |_| {})?;
    if features.damaged() > 0 {
        writeln!(terminal::err(), "{}: {} packets are damaged and left out", recording.display(), features.damaged())?;
    }
    if let Some((has, said)) = features.cut_off() {
        writeln!(terminal::err(), "{}: is cut off after {has:.1} s of {said:.1} s", recording.display())?;
    }
    let bar = terminal::step_progress(features.seconds() as u64, "s");
    let clean = terminal::Sanitizer::for_stdout();
    // Text is worth seeing at once; the other formats are written whole.
    let streams = format == "txt" && folder.is_none();
    let mut written = Ok(());
    let transcript = transcriber.transcribe(&mut features, options, |event| {
        match event {
            Event::Segment(segment) if streams => bar.suspend(|| {
                let mut out = terminal::out();
                let line = clean.clean(segment.text.trim());
                written = writeln!(out, "{line}").and_then(|()| out.flush());
            }),
            Event::Segment(_) => {}
            Event::Language(code) => bar.set_message(code.to_string()),
            Event::Progress(frames) => bar.set_position(frames as u64 / 100),
        }
        if interrupt.is_set() || written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    bar.finish_and_clear();
    written?;
    if let Some(folder) = folder {
        let name = recording.file_stem().unwrap_or_default();
        let path = folder.join(name).with_extension(format);
        let text = transcripts::write(&transcript, format, options.words);
        std::fs::write(&path, text)
            .or_fail(|e| format!("{}: cannot be written: {e}", path.display()), "check the folder of --output")?;
    } else if !streams {
        let mut out = terminal::out();
        write!(out, "{}", clean.clean(&transcripts::write(&transcript, format, options.words)))?;
        out.flush()?;
    }
    Ok(())
}

/// What comes through standard input; text appears as it becomes final, the other formats at the end.
fn live(
    transcriber: &mut Transcriber,
    options: &TranscribeOptions,
    format: &str,
    interrupt: &Interrupt,
) -> Result<ExitCode> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(failure(
            "standard input is a terminal, not a pipe of samples",
            "pipe them in, such as with `arecord -f S16_LE -r 16000 -c 1 -t raw | akunu transcribe MODEL --live`",
        ));
    }
    let (mut pcm, mut samples) = (Pcm::new(stdin.lock()), Vec::new());
    let mut live = Live::new(transcriber, options)?;
    let mut transcript = Transcript::default();
    let clean = terminal::Sanitizer::for_stdout();
    let partial = io::stderr().is_terminal();
    let mut more = true;
    while more && !interrupt.is_set() {
        more = pcm.read(&mut samples)?;
        let mut written = Ok(());
        let mut each = |event: Event<'_>| {
            match event {
                Event::Segment(segment) => {
                    transcript.segments.push(segment.clone());
                    if format == "txt" {
                        let mut out = terminal::out();
                        let line = clean.clean(segment.text.trim());
                        written = writeln!(out, "{line}").and_then(|()| out.flush());
                    }
                }
                Event::Language(code) => transcript.language = code.to_string(),
                Event::Progress(_) => {}
            }
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let so_far = match more {
            true => live.push(transcriber, &samples, &mut each)?,
            false => live.finish(transcriber, &mut each).map(|()| Some(String::new()))?,
        };
        written?;
        samples.clear();
        if let Some(text) = so_far.filter(|_| partial) {
            // Back to the line's start, the text, and nothing after it.
            write!(terminal::err(), "\r{}\x1b[K", terminal::printable(text.trim()))?;
        }
    }
    if format != "txt" {
        let mut out = terminal::out();
        write!(out, "{}", transcripts::write(&transcript, format, options.words))?;
        out.flush()?;
    }
    Ok(if interrupt.is_set() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}
