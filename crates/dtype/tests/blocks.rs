//! Every ggml format against blocks and values from the gguf package.

mod fixture;

use akunu_dtype::{DType, FORMATS, Planes, PlanesMut};
use fixture::{Fixture, each, same_bits};

const FIXTURE: &str = "quant_blocks.safetensors";

#[test]
fn blocks_decode_to_the_reference_values_bit_for_bit() {
    let fixture = Fixture::open(FIXTURE);
    each(fixture.stems(".raw"), |name| {
        let format = DType::from_name(name).ok_or(format!("{name}: no such format"))?.format();
        let want = fixture.floats(&format!("{name}.f32"));
        let mut got = vec![f32::NAN; want.len()];
        (format.decode)(Planes { data: fixture.bytes(&format!("{name}.raw")), ..Planes::default() }, &mut got);
        same_bits(name, &got, &want)
    });
}

#[test]
fn every_quantized_gguf_format_has_blocks_to_test() {
    let fixture = Fixture::open(FIXTURE);
    each(FORMATS.iter().filter(|f| f.gguf_id.is_some() && f.unpack.is_some()), |f| {
        fixture.get(&format!("{}.raw", f.name)).map(|_| ()).ok_or(format!("{} is untested", f.name))
    });
}

#[test]
fn simple_formats_encode_to_the_reference_bytes() {
    let fixture = Fixture::open(FIXTURE);
    each(fixture.stems(".source"), |name| {
        let format = DType::from_name(name).ok_or(format!("{name}: no such format"))?.format();
        let encode = format.encode.ok_or(format!("{name}: cannot be written"))?;
        let want = fixture.bytes(&format!("{name}.raw"));
        let mut got = vec![0xaa; want.len()];
        encode(&fixture.floats(&format!("{name}.source")), PlanesMut { data: &mut got, ..PlanesMut::default() });
        match got.iter().zip(want).position(|(g, w)| g != w) {
            Some(i) => Err(format!("{name}: byte {i} is {:#x}, not {:#x}", got[i], want[i])),
            None => Ok(()),
        }
    });
}
