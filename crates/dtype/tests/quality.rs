//! How much the searching encoders lose, against ggml's reference quantizers.

mod fixture;

use akunu_dtype::{DType, Planes, PlanesMut};
use fixture::{Fixture, each};

#[test]
fn encoders_lose_no_more_than_the_reference() {
    let fixture = Fixture::open("encode_errors.safetensors");
    let types = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "NVFP4"];
    let rows = types.iter().flat_map(|t| fixture.stems(".source").into_iter().map(move |kind| (*t, kind)));
    each(rows, |(name, kind)| {
        let f = DType::from_name(name).unwrap().format();
        let stored = fixture.bytes(&format!("{kind}.source"));
        let mut source = vec![0.0; stored.len() / 2];
        (DType::F16.format().decode)(Planes { data: stored, ..Planes::default() }, &mut source);
        let mut raw = vec![0; source.len() / f.block * f.bytes];
        f.encode.unwrap()(&source, PlanesMut { data: &mut raw, ..PlanesMut::default() });
        let mut got = vec![0.0; source.len()];
        (f.decode)(Planes { data: &raw, ..Planes::default() }, &mut got);
        let ours: f64 = got.iter().zip(&source).map(|(g, s)| f64::from(g - s).powi(2)).sum();
        // Stored as f32: an encoder that does the same has the same error, rounded.
        let (ours, reference) = (ours as f32, fixture.floats(&format!("{kind}.{name}"))[0]);
        let ratio = ours / reference;
        if ratio > 1.0 { Err(format!("{name} of {kind}: {ratio:.4} times the reference's error")) } else { Ok(()) }
    });
}
