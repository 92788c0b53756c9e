//! A recording as a stream of 16 kHz mono samples: decoded, mixed and resampled packet by packet.

use crate::{Error, Fault, Resampler, SAMPLE_RATE, mp4};
use akunu_limits::{Limits, over};
use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::sync::Once;
use std::{io, panic};
use symphonia::core::audio::SampleBuffer;
use symphonia::core::codecs::{CODEC_TYPE_MP3, CODEC_TYPE_NULL, CodecParameters, Decoder, DecoderOptions};
use symphonia::core::errors::Error as Decode;
use symphonia::core::formats::{FormatOptions, FormatReader};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::probe::{Hint, Probe};
use symphonia_metadata::id3v2::Id3v2Reader;

/// Sample rates there are filters for.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;

/// Seconds that must be missing: a packet, or the edges that an encoder adds, are nothing.
const CUT_OFF: f64 = 0.25;
/// Bytes of samples from which a wav file's length is not meant: it was written to a pipe.
const ENDLESS: u64 = 0xf000_0000;

/// An open recording.
pub struct Source {
    name: String,
    format: Box<dyn FormatReader>,
    decoder: Box<dyn Decoder>,
    track: u32,
    rate: Option<u32>,
    resampler: Resampler,
    buffer: Option<SampleBuffer<f32>>,
    mono: Vec<f32>,
    /// Input samples so far, of one channel.
    taken: u64,
    damaged: usize,
    seconds: Option<f64>,
    limits: Limits,
    ended: bool,
}

impl Source {
    /// Opens a recording; its content decides its format, not its name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_within(path, Limits::default())
    }

    /// As [`Self::open`], within other limits.
    pub fn open_within(path: &Path, limits: Limits) -> Result<Self, Error> {
        let name = path.display().to_string();
        let fail = |fault| Error { name: name.clone(), fault };
        // Asked first: opening a FIFO would block.
        let metadata = std::fs::metadata(path).map_err(|e| fail(Fault::Open(e)))?;
        match metadata.file_type() {
            t if t.is_dir() => return Err(fail(Fault::NotAFile("a directory"))),
            t if !t.is_file() => return Err(fail(Fault::NotAFile("a device or a pipe"))),
            _ if metadata.len() == 0 => return Err(fail(Fault::Empty)),
            _ => {}
        }
        let file = File::open(path).map_err(|e| fail(Fault::Open(e)))?;
        Self::new_within(&name, Box::new(file), limits)
    }

    /// A recording from anything that can be read and, best, sought in.
    pub fn new(name: &str, media: Box<dyn MediaSource>) -> Result<Self, Error> {
        Self::new_within(name, media, Limits::default())
    }

    /// As [`Self::new`], within other limits.
    pub fn new_within(name: &str, mut media: Box<dyn MediaSource>, limits: Limits) -> Result<Self, Error> {
        let fail = |fault| Error { name: name.to_string(), fault };
        let is_mp4 = media.is_seekable() && mp4::begins(&mut media).map_err(|e| fail(Fault::Read(e)))?;
        if is_mp4 {
            mp4::check(&mut media).map_err(fail)?;
        }
        let stream = MediaSourceStream::new(media, Default::default());
        let options = FormatOptions { enable_gapless: true, ..FormatOptions::default() };
        let formats = formats(is_mp4);
        let probe = || formats.format(&Hint::new(), stream, &options, &MetadataOptions::default());
        let probed = guarded(probe).map_err(|e| {
            fail(match e {
                Decode::IoError(e) if e.kind() != io::ErrorKind::UnexpectedEof => Fault::Read(e),
                Decode::Unsupported(what) if !what.contains("no suitable") => Fault::NotSupported(what.into()),
                Decode::DecodeError(what) if what.contains("channel count") => {
                    Fault::NotSupported("this number of channels (1 to 26 are)".into())
                }
                Decode::DecodeError(what) => Fault::Malformed(what.into()),
                _ => Fault::UnknownFormat,
            })
        })?;
        let format = probed.format;
        let track = format.tracks().iter().find(|t| t.codec_params.codec != CODEC_TYPE_NULL);
        let track = track.ok_or_else(|| fail(Fault::NoAudio))?;
        let parameters = &track.codec_params;
        if parameters.channels.is_some_and(|c| c.count() == 0) {
            return Err(fail(Fault::NoAudio));
        }
        let make = || symphonia::default::get_codecs().make(parameters, &DecoderOptions::default());
        let decoder = guarded(make).map_err(|e| {
            fail(match e {
                Decode::Unsupported(what) => Fault::NotSupported(format!("this kind of audio ({what})")),
                _ => Fault::NoAudio,
            })
        })?;
        let rate = parameters.sample_rate;
        if let Some(rate) = rate.filter(|r| !RATES.contains(r)) {
            return Err(fail(rate_not_supported(rate)));
        }
        let seconds = match (said_frames(parameters), rate) {
            (Some(frames), Some(rate)) => Some(frames as f64 / f64::from(rate)),
            _ => None,
        };
        if seconds.is_some_and(|seconds| seconds > limits.audio_seconds as f64) {
            return Err(fail(Fault::TooLong { over: over!(limits, audio_seconds) }));
        }
        let (track, resampler) = (track.id, Resampler::new(rate.unwrap_or(SAMPLE_RATE as u32)));
        Ok(Self {
            name: name.to_string(),
            format,
            decoder,
            track,
            rate,
            resampler,
            buffer: None,
            mono: Vec::new(),
            taken: 0,
            damaged: 0,
            seconds,
            limits,
            ended: false,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long a recording is that has ended, and how long it says it is, where it was cut off.
    pub fn cut_off(&self) -> Option<(f64, f64)> {
        let has = self.taken as f64 / f64::from(self.rate.unwrap_or(SAMPLE_RATE as u32));
        self.seconds.filter(|said| self.ended && has + CUT_OFF < *said).map(|said| (has, said))
    }

    /// Packets that could not be decoded so far.
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    /// Appends the next samples; `false` once the recording has ended.
    pub fn read(&mut self, out: &mut Vec<f32>) -> Result<bool, Error> {
        if self.ended {
            return Ok(false);
        }
        let packet = loop {
            match guarded(|| self.format.next_packet()) {
                Ok(packet) if packet.track_id() == self.track => break packet,
                Ok(_) => {}
                Err(Decode::IoError(e)) if e.kind() != io::ErrorKind::UnexpectedEof => {
                    return Err(self.fail(Fault::Read(e)));
                }
                // A file that was cut off ends like a whole one, with what it has.
                Err(_) => return self.end(out),
            }
        };
        let decoder = &mut self.decoder;
        match guarded(move || decoder.decode(&packet)) {
            Ok(decoded) => {
                let (spec, capacity) = (*decoded.spec(), decoded.capacity());
                let fits = |b: &SampleBuffer<f32>| b.capacity() >= decoded.frames() * spec.channels.count();
                let buffer = match self.buffer.take().filter(fits) {
                    Some(buffer) => self.buffer.insert(buffer),
                    None => self.buffer.insert(SampleBuffer::new(capacity as u64, spec)),
                };
                buffer.copy_interleaved_ref(decoded);
                self.take(spec.rate, spec.channels.count(), out)?;
            }
            Err(Decode::IoError(e)) if e.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(self.fail(Fault::Read(e)));
            }
            Err(_) => self.damaged += 1,
        }
        Ok(true)
    }

    /// Mixes the packet in `buffer` to one channel and resamples it.
    fn take(&mut self, rate: u32, channels: usize, out: &mut Vec<f32>) -> Result<(), Error> {
        let Some(buffer) = self.buffer.as_ref().filter(|_| channels > 0) else { return Ok(()) };
        match self.rate {
            Some(from) if from != rate && self.taken > 0 => {
                return Err(self.fail(Fault::RateChanged { from, to: rate }));
            }
            Some(from) if from == rate => {}
            // Some containers leave the rate to the packets, or have it wrong.
            _ if RATES.contains(&rate) => {
                self.rate = Some(rate);
                self.resampler = Resampler::new(rate);
            }
            _ => return Err(self.fail(rate_not_supported(rate))),
        }
        self.mono.clear();
        self.mono.extend(buffer.samples().chunks_exact(channels).map(|c| c.iter().sum::<f32>() / channels as f32));
        if let Some(at) = self.mono.iter().position(|v| !v.is_finite()) {
            let seconds = (self.taken + at as u64) as f64 / f64::from(rate);
            return Err(self.fail(Fault::NotFinite { seconds }));
        }
        self.taken += self.mono.len() as u64;
        if self.taken > self.limits.audio_seconds.saturating_mul(rate.into()) {
            return Err(self.fail(Fault::TooLong { over: over!(self.limits, audio_seconds) }));
        }
        self.resampler.push(&self.mono, out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<f32>) -> Result<bool, Error> {
        self.ended = true;
        if self.taken == 0 {
            return Err(self.fail(Fault::NoAudio));
        }
        self.resampler.finish(out);
        Ok(false)
    }

    fn fail(&self, fault: Fault) -> Error {
        Error { name: self.name.clone(), fault }
    }
}

thread_local! {
    /// Whether a decoder runs whose panics are results.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// A decoder that panics over its input is a decoder that failed, and nobody else's business.
fn guarded<T>(decode: impl FnOnce() -> Result<T, Decode>) -> Result<T, Decode> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                others(info);
            }
        }));
    });
    GUARDED.set(true);
    let result = panic::catch_unwind(panic::AssertUnwindSafe(decode));
    GUARDED.set(false);
    result.unwrap_or(Err(Decode::DecodeError("its decoder could not make sense of it")))
}

/// The formats that a recording may have. Only what was checked is read as mp4, wherever in it the demuxer would find one.
fn formats(is_mp4: bool) -> Probe {
    use symphonia::default::formats::{AdtsReader, FlacReader, IsoMp4Reader, MpaReader, OggReader, WavReader};
    let mut probe = Probe::default();
    if is_mp4 {
        probe.register_all::<IsoMp4Reader>();
        return probe;
    }
    probe.register_all::<AdtsReader>();
    probe.register_all::<FlacReader>();
    probe.register_all::<MpaReader>();
    probe.register_all::<WavReader>();
    probe.register_all::<OggReader>();
    probe.register_all::<Id3v2Reader>();
    probe
}

/// Samples of a channel that a recording says it has, where it knows.
fn said_frames(parameters: &CodecParameters) -> Option<u64> {
    let frames = parameters.n_frames?;
    let bits = u64::from(parameters.bits_per_sample.unwrap_or(0));
    let channels = parameters.channels.map_or(0, |c| c.count() as u64);
    // Of an mp3 file without an encoder's tag it is a guess.
    let guessed = parameters.codec == CODEC_TYPE_MP3 && parameters.delay.is_none();
    let endless = frames.saturating_mul(bits * channels / 8) >= ENDLESS;
    (!guessed && !endless).then_some(frames)
}

fn rate_not_supported(rate: u32) -> Fault {
    Fault::NotSupported(format!("a sample rate of {rate} Hz ({} to {} Hz are)", RATES.start(), RATES.end()))
}
