//! Memory that several threads fill.

use akunu_cpu::pages::{CHUNK, LARGE, Pages};
use akunu_plan::LoadError;
use std::io;

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

#[test]
fn a_filled_block_has_every_byte_in_its_place() {
    for len in [0, 1, LARGE, 2 * CHUNK + 77] {
        let read = |at: usize, to: &mut [u8]| {
            to.iter_mut().enumerate().for_each(|(i, to)| *to = byte(at + i));
            Ok(())
        };
        let pages = Pages::filled("test", len, |at| at + CHUNK, read).expect("memory");
        assert_eq!(pages.bytes(), len);
        // SAFETY: the pages's bytes, which nobody else has.
        let got = unsafe { std::slice::from_raw_parts(pages.base(), pages.bytes()) };
        assert_eq!(got.iter().enumerate().find(|(i, b)| **b != byte(*i)), None);
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let short = |at: usize, _: &mut [u8]| if at == 0 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    let error = Pages::filled("test", CHUNK + 1, |at| at + CHUNK, short).err();
    assert!(matches!(error, Some(LoadError::Unreadable(_))), "{error:?}");
}
