//! GPT-2's mapping between the 256 bytes and printable characters, in which byte-level vocabularies are written.

/// The character that stands for `byte`.
pub(crate) const fn char_of(byte: u8) -> char {
    match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => byte as char,
        // The 68 other bytes take the characters from U+0100 on, in order of the byte.
        0..=0x20 => match char::from_u32(0x100 + byte as u32) {
            Some(c) => c,
            None => ' ',
        },
        0x7f..=0xa0 => match char::from_u32(0x100 + 33 + (byte as u32 - 0x7f)) {
            Some(c) => c,
            None => ' ',
        },
        0xad => '\u{143}',
    }
}

/// The byte that `c` stands for.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The bytes that `text` stands for, where every character of it stands for one.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character_and_comes_back() {
        for byte in 0..=255u8 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(char_of(b'\n'), 'Ċ');
        assert_eq!(byte_of('▁'), None);
    }
}
