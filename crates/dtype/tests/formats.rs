//! What holds for every format: the table's invariants, and behaviour on any input.

mod fixture;

use akunu_dtype::{DType, FORMATS, Format, GROUP, MAX_BLOCK, Planes, PlanesMut, Unpacked};
use fixture::{Fixture, each};
use std::collections::HashSet;

/// A small generator (xorshift), so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn rows_keep_the_invariants_of_the_table() {
    let mut names = HashSet::new();
    let mut ids = HashSet::new();
    let mut spellings = HashSet::new();
    for (i, f) in FORMATS.iter().enumerate() {
        let name = f.name;
        assert_eq!(usize::from(f.dtype.index()), i, "{name}: row and dtype");
        assert_eq!(DType::from_index(i as u8), Some(f.dtype), "{name}");
        assert_eq!(DType::from_name(&name.to_lowercase()), Some(f.dtype), "{name}: lower case");
        assert!(names.insert(name), "{name}: named twice");
        assert!(f.gguf_id.is_none_or(|id| ids.insert(id)), "{name}: id taken");
        assert!(f.safetensors.is_none_or(|s| spellings.insert(s)), "{name}: spelling taken");
        assert!(f.block > 0 && MAX_BLOCK.is_multiple_of(f.block), "{name}: block of {}", f.block);
        assert!(f.unpack.is_none() || f.block.is_multiple_of(GROUP), "{name}: groups");
        assert_eq!(f.side.is_some(), f.side_bytes > 0, "{name}: side planes");
        assert_eq!(f.dtype.row_bytes(2 * f.block), Some(2 * f.bytes), "{name}");
        assert_eq!(f.dtype.row_bytes(2 * f.block + 1), (f.block == 1).then_some(3 * f.bytes), "{name}");
        assert_eq!(f.dtype.row_side_bytes(2 * f.block), 2 * f.side_bytes, "{name}");
    }
}

#[test]
fn unpacked_integers_give_the_decoded_values() {
    let fixture = Fixture::open("quant_blocks.safetensors");
    let mlx = Fixture::open("mlx_blocks.safetensors");
    each(FORMATS, |f| {
        let Some(unpack) = f.unpack else { return Ok(()) };
        let planes = if f.side.is_some() {
            let [data, scales, biases] = ["data", "scales", "biases"].map(|p| mlx.bytes(&format!("{}.{p}", f.name)));
            Planes { data, scales, biases }
        } else {
            Planes { data: fixture.bytes(&format!("{}.raw", f.name)), ..Planes::default() }
        };
        let blocks = planes.data.len() / f.bytes;
        let mut values = vec![0.0; blocks * f.block];
        (f.decode)(planes, &mut values);
        let mut out = Unpacked::default();
        for (b, want) in values.chunks_exact(f.block).enumerate() {
            unpack(block(f, planes, b), &mut out);
            for (i, &want) in want.iter().enumerate() {
                let (scale, offset) = (out.scale[i / GROUP], out.offset[i / GROUP]);
                let got = scale * f32::from(out.q[i]) + offset;
                // Exact, but for MLX's eight bits: moved down by 128, product and offset round at
                // sizes of their own, at most 128 and 255 scales.
                let size = offset.abs() + 256.0 * scale.abs();
                let slack = if f.name.starts_with("MLX8") { size * f32::EPSILON } else { 0.0 };
                if (got - want).abs() > slack {
                    return Err(format!("{}: block {b}, value {i} is {got}, not {want}", f.name));
                }
            }
        }
        Ok(())
    });
}

/// The planes of block `b` alone.
fn block<'a>(f: &Format, p: Planes<'a>, b: usize) -> Planes<'a> {
    let side = |plane: &'a [u8]| &plane[b * f.side_bytes..][..f.side_bytes];
    Planes { data: &p.data[b * f.bytes..][..f.bytes], scales: side(p.scales), biases: side(p.biases) }
}

#[test]
fn any_bytes_decode_and_unpack_without_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut out = Unpacked::default();
    for f in FORMATS {
        for _ in 0..200 {
            let [data, scales, biases] = [f.bytes, f.side_bytes, f.side_bytes].map(|n| random.bytes(3 * n));
            // Short planes leave the rest of the output alone.
            for cut in [0, 1, f.bytes] {
                let planes = Planes { data: &data[cut..], scales: &scales, biases: &biases };
                (f.decode)(planes, &mut vec![0.0; 3 * f.block]);
                if let Some(unpack) = f.unpack {
                    unpack(planes, &mut out);
                }
            }
        }
        if let Some(unpack) = f.unpack {
            unpack(Planes::default(), &mut out);
        }
    }
}

#[test]
fn any_values_encode_to_finite_ones() {
    // NaN and infinities where every block has some, the extremes of f32, zeros, one value alone.
    let cycle = |values: &'static [f32]| (0..MAX_BLOCK).map(|i| values[i % values.len()]).collect::<Vec<_>>();
    let mut rows = vec![
        ("nan", vec![f32::NAN; MAX_BLOCK]),
        ("mixed", cycle(&[0.5, f32::NAN, -0.25, f32::INFINITY, f32::NEG_INFINITY])),
        ("huge", cycle(&[f32::MAX, -1.0, f32::MIN])),
        ("large", cycle(&[6e4, -65504.0, 1.0, 3e4])),
        ("tiny", cycle(&[f32::MIN_POSITIVE, 1e-45, -1e-20])),
        ("small", cycle(&[1e-7, -2e-7, 3e-9])),
        ("zero", vec![0.0; MAX_BLOCK]),
        ("minus zero", vec![-0.0; MAX_BLOCK]),
        ("positive", vec![0.75; MAX_BLOCK]),
        ("negative", vec![-0.75; MAX_BLOCK]),
        ("one", vec![0.0; MAX_BLOCK]),
    ];
    rows[10].1[100] = -3.0;
    let mut random = Random(42);
    rows.push(("bits", (0..MAX_BLOCK).map(|_| f32::from_bits(random.next() as u32)).collect()));
    let quantized = FORMATS.iter().filter(|f| f.unpack.is_some());
    each(quantized.flat_map(|f| rows.iter().map(move |row| (f, row))), |(f, (name, values))| {
        let Some(encode) = f.encode else { return Ok(()) };
        let blocks = MAX_BLOCK / f.block;
        let [mut data, mut scales, mut biases] = [f.bytes, f.side_bytes, f.side_bytes].map(|n| vec![0xff; n * blocks]);
        encode(values, PlanesMut { data: &mut data, scales: &mut scales, biases: &mut biases });
        let mut out = vec![f32::NAN; MAX_BLOCK];
        (f.decode)(Planes { data: &data, scales: &scales, biases: &biases }, &mut out);
        let most = values.iter().filter(|v| v.is_finite()).fold(0.0, |m: f32, v| m.max(v.abs()));
        let most = if values.iter().any(|v| v.is_infinite()) { f32::MAX } else { most * 1.5 + 1e-6 };
        match out.iter().position(|v| !v.is_finite() || v.abs() > most) {
            Some(i) => Err(format!("{} of {name}: value {i} is {}", f.name, out[i])),
            None => Ok(()),
        }
    });
}
