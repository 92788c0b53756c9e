//! Parsers of flags' values: every one of the command line's gets the text.

use akunu::Device;

use crate::is_a_sentence;

/// The command line is a program, which no other crate can call.
#[path = "../../crates/cli/src/flags/values.rs"]
mod values;

/// What somebody wrote after a flag.
pub fn flags(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let refusals = [
        values::count(text).err(),
        values::threads(text).err(),
        values::chunk(text).err(),
        values::bytes(text).err(),
        values::limit(text).err(),
        values::streams(text).err(),
        values::not_negative(text).err(),
        values::positive(text).err(),
        values::finite(text).err(),
        values::share(text).err(),
        values::bias(text).err(),
        values::stages(text).err(),
        values::ids(text).err(),
        text.parse::<Device>().err().map(|error| error.to_string()),
    ];
    refusals.iter().flatten().for_each(|refusal| is_a_sentence(refusal));
}
