//! The MLX affine formats against planes and values from MLX.

mod fixture;

use akunu_dtype::{DType, FORMATS, Format, Planes, PlanesMut};
use fixture::{Fixture, each, same_bits};

const FIXTURE: &str = "mlx_blocks.safetensors";

/// Data, scales and biases.
type Owned = [Vec<u8>; 3];

fn formats() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|f| f.side.is_some())
}

fn golden(fixture: &Fixture, f: &Format) -> Owned {
    ["data", "scales", "biases"].map(|plane| fixture.bytes(&format!("{}.{plane}", f.name)).to_vec())
}

fn decode(f: &Format, [data, scales, biases]: &Owned, count: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; count];
    (f.decode)(Planes { data, scales, biases }, &mut out);
    out
}

fn encode(f: &Format, values: &[f32]) -> Owned {
    let blocks = values.len() / f.block;
    let [mut data, mut scales, mut biases] = [f.bytes, f.side_bytes, f.side_bytes].map(|n| vec![0xaa; n * blocks]);
    f.encode.unwrap()(values, PlanesMut { data: &mut data, scales: &mut scales, biases: &mut biases });
    [data, scales, biases]
}

fn error(got: &[f32], want: &[f32]) -> f64 {
    got.iter().zip(want).map(|(g, w)| f64::from(g - w).powi(2)).sum()
}

#[test]
fn planes_decode_to_mlx_values_bit_for_bit() {
    let fixture = Fixture::open(FIXTURE);
    each(formats(), |f| {
        let want = fixture.floats(&format!("{}.f32", f.name));
        same_bits(f.name, &decode(f, &golden(&fixture, f), want.len()), &want)
    });
}

#[test]
fn encoding_chooses_the_scales_and_biases_of_mlx_and_is_no_worse() {
    let fixture = Fixture::open(FIXTURE);
    each(formats(), |f| {
        let source = fixture.floats(&format!("{}.source", f.side.unwrap()));
        let (got, want) = (encode(f, &source), golden(&fixture, f));
        for (plane, (got, want)) in ["data", "scales", "biases"].iter().zip(got.iter().zip(&want)) {
            // Narrow scales leave MLX's integers behind; f32 scales do not.
            if (*plane != "data" || f.side == Some(DType::F32)) && got != want {
                return Err(format!("{}: {plane} differ", f.name));
            }
        }
        let ours = error(&decode(f, &got, source.len()), &source);
        let theirs = error(&decode(f, &want, source.len()), &source);
        if ours > theirs { Err(format!("{}: error {ours}, MLX's is {theirs}", f.name)) } else { Ok(()) }
    });
}

#[test]
fn every_width_group_and_float_type_is_found() {
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            for side in [DType::F16, DType::BF16, DType::F32] {
                let name = format!("MLX{bits}_G{group}_{side}");
                assert_eq!(DType::mlx(bits, group, side).map(|d| d.format().name), Some(name.as_str()));
            }
        }
    }
    assert_eq!(DType::mlx(7, 64, DType::F16), None);
    assert_eq!(DType::mlx(4, 16, DType::F16), None);
    assert_eq!(DType::mlx(4, 64, DType::Q8_0), None);
}
