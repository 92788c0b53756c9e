//! What is said in a recording, and when: `transcribe MODEL RECORDING`.

use akunu::LoadOptions;
use akunu::speech::{Event, Features, TranscribeOptions, Transcriber};
use std::ops::ControlFlow;

fn main() -> Result<(), akunu::Error> {
    let mut arguments = std::env::args().skip(1);
    let (model, recording) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let mut transcriber = Transcriber::load(model.as_ref(), LoadOptions::default())?;
    let mut features = Features::open(recording.as_ref(), transcriber.bands(), |_progress| {})?;
    transcriber.transcribe(&mut features, &TranscribeOptions::default(), |event| {
        if let Event::Segment(segment) = event {
            println!("{:7.2}-{:.2}{}", segment.start, segment.end, segment.text);
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}
