//! Speech to text.

use crate::call::{Failure, Outcome, call, callback, lock};
use crate::memory::{self, Items, Out, Room, Text};
use crate::types::*;
use crate::{convert, handle, model};
use akunu::speech::{Event, Features, SAMPLE_RATE, Segment, Source, Transcriber, Transcript, srt, vtt};
use std::ffi::{CString, c_char, c_void};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

/// A model of speech, and what it wrote down last.
pub(crate) struct SpeechModel(Mutex<State>);

struct State {
    transcriber: Transcriber,
    transcript: Transcript,
    words: bool,
}

/// What the two ways to transcribe have in common.
struct Run {
    options: akunu_transcribe_options,
    callback: akunu_segment_callback,
    user_data: *mut c_void,
}

impl Run {
    fn see(&self, segment: &Segment) -> ControlFlow<()> {
        let Some(show) = self.callback else { return ControlFlow::Continue(()) };
        // A NUL inside would end the text for those who look for one.
        let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let words: Vec<CString> = segment.words.iter().map(|word| text(&word.text)).collect();
        let word = |(word, text): (&akunu::speech::Word, &CString)| akunu_word {
            start: word.start,
            end: word.end,
            text: text.as_ptr(),
            probability: word.probability.into(),
        };
        let words: Vec<akunu_word> = segment.words.iter().zip(&words).map(word).collect();
        let text = text(&segment.text);
        let shown = akunu_segment {
            size: size_of::<akunu_segment>() as u32,
            no_speech: segment.no_speech,
            start: segment.start,
            end: segment.end,
            text: text.as_ptr(),
            length: text.as_bytes().len(),
            words: words.as_ptr(),
            word_count: words.len(),
        };
        // SAFETY: the caller's function with the caller's data; what it is shown lives until it returns.
        match callback(|| unsafe { show(&raw const shown, self.user_data) }) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    fn run(&self, transcriber: akunu_transcriber, open: impl FnOnce(usize) -> Result<Features, Failure>) -> Outcome {
        let options = convert::transcribe(&self.options)?;
        let model = handle::get(transcriber)?;
        let mut state = lock("transcriber", &model.0)?;
        let State { transcriber, transcript, words } = &mut *state;
        let mut features = open(transcriber.bands())?;
        let mut stopped = false;
        *transcript = transcriber.transcribe(&mut features, &options, |event| match event {
            Event::Segment(segment) => {
                let flow = self.see(segment);
                stopped = flow.is_break();
                flow
            }
            _ => ControlFlow::Continue(()),
        })?;
        *words = options.words;
        Ok(if stopped { AKUNU_STOPPED } else { AKUNU_OK })
    }
}

/// A recording of 32-bit floats, so that samples take the way that files take.
fn wav(samples: &[f32]) -> Result<Vec<u8>, Failure> {
    let bytes = u32::try_from(size_of_val(samples)).ok().filter(|bytes| *bytes < u32::MAX - 64);
    let bytes = bytes.ok_or_else(|| Failure::argument("there are more samples than 4 GB: give them in parts"))?;
    let (rate, second) = (SAMPLE_RATE as u32, (SAMPLE_RATE * size_of::<f32>()) as u32);
    let mut out = Vec::with_capacity(bytes as usize + 44);
    let mut words = |words: &[u32]| out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    // The header of one channel of floats: kind 3, 4 bytes and 32 bits a sample.
    words(&[u32::from_le_bytes(*b"RIFF"), 36 + bytes, u32::from_le_bytes(*b"WAVE"), u32::from_le_bytes(*b"fmt "), 16]);
    words(&[1 << 16 | 3, rate, second, 32 << 16 | 4, u32::from_le_bytes(*b"data"), bytes]);
    out.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    Ok(out)
}

/// Fills options with the defaults; `size` is that of the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_transcribe_options_default(
    options: *mut akunu_transcribe_options,
    size: usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    call(|| unsafe { memory::write_defaults(options, size) })
}

/// Loads a whisper.cpp file, a GGUF or safetensors file, or an HF directory. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_transcriber_load(
    path: *const c_char,
    options: *const akunu_load_options,
    transcriber: *mut akunu_transcriber,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, out) =
            unsafe { (memory::read("the load options", options)?, Out::new("the transcriber", transcriber)) };
        out.check()?;
        let transcriber = Transcriber::from_file(model::open(path)?, convert::load(&options)?)?;
        let state = State { transcriber, transcript: Transcript::default(), words: false };
        out.put(handle::insert(SpeechModel(Mutex::new(state)))?)
    })
}

/// Frees a model of speech.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_transcriber_free(transcriber: akunu_transcriber) -> akunu_status {
    call(|| handle::free(transcriber))
}

/// Transcribes a recording: wav, mp3, flac, ogg or m4a. `options` and `on_segment` may be NULL; `akunu_transcript` has the text
/// afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_transcribe(
    transcriber: akunu_transcriber,
    path: *const c_char,
    options: *const akunu_transcribe_options,
    on_segment: akunu_segment_callback,
    user_data: *mut c_void,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, path) = unsafe {
            let options = memory::read("the transcribe options", options)?;
            (options, Text::new("the path", path, AKUNU_NUL_TERMINATED))
        };
        let path = Path::new(path.str()?);
        Run { options, callback: on_segment, user_data }
            .run(transcriber, |bands| Ok(Features::open(path, bands, |_| {}).map_err(akunu::Error::from)?))
    })
}

/// The same of samples: 16,000 a second, one channel, from -1 to 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_transcribe_samples(
    transcriber: akunu_transcriber,
    samples: *const f32,
    count: usize,
    options: *const akunu_transcribe_options,
    on_segment: akunu_segment_callback,
    user_data: *mut c_void,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, samples) =
            unsafe { (memory::read("the transcribe options", options)?, Items::new("the samples", samples, count)) };
        let recording = wav(samples.slice()?)?;
        Run { options, callback: on_segment, user_data }.run(transcriber, |bands| {
            let open = || Source::new("the samples", Box::new(Cursor::new(recording.clone())));
            Ok(Features::read(open, bands, |_| {}).map_err(akunu::Error::from)?)
        })
    })
}

/// What was transcribed last, as `AKUNU_TRANSCRIPT_*`, with a NUL after it that its length does not count. With no capacity it only
/// counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_transcript(
    transcriber: akunu_transcriber,
    format: u32,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let text = unsafe { Room::new("the text", text, capacity, length) };
    call(|| {
        let model = handle::get(transcriber)?;
        let state = lock("transcriber", &model.0)?;
        let cues = || state.transcript.cues(state.words);
        match format {
            AKUNU_TRANSCRIPT_TEXT => text.put_text(&state.transcript.text()),
            AKUNU_TRANSCRIPT_SRT => text.put_text(&srt(&cues())),
            AKUNU_TRANSCRIPT_VTT => text.put_text(&vtt(&cues())),
            other => Err(Failure::argument(format_args!("{other} is no format of transcripts"))),
        }
    })
}

/// The code of the language that was transcribed last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_transcript_language(
    transcriber: akunu_transcriber,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let text = unsafe { Room::new("the text", text, capacity, length) };
    call(|| text.put_text(&lock("transcriber", &handle::get(transcriber)?.0)?.transcript.language))
}
