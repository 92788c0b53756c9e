//! Every row of the dot-product table that this machine can run, against an f64 definition, against
//! the portable kernel to the bit, and against itself in other tile shapes to the bit.

use akunu_dtype::{DType, FORMATS, Planes, PlanesMut, Unpacked, q8};
use akunu_gemm::gemm::Gemm;
use akunu_gemm::packed::{Fields, ROWS};
use akunu_gemm::table::{Act, GemmRow, KERNELS, find};
use akunu_simd::level::Level;
use std::cell::{Cell, OnceCell};

/// Error allowed relative to the sum of the magnitudes of all terms. The integer part is exact; what
/// remains is f32 rounding along chains of some hundred steps.
const TOLERANCE: f64 = 1e-5;

/// Rows, columns, and length: in blocks of 256 values, and in units of smaller blocks.
const SHAPES: &[(usize, usize, [usize; 2])] = &[
    (1, 1, [1, 1]),
    (1, 37, [3, 19]),
    (2, 4, [2, 8]),
    (3, 5, [1, 5]),
    (4, 16, [5, 23]),
    (5, 9, [3, 18]),
    (7, 33, [2, 9]),
    (16, 17, [1, 2]),
    (70, 9, [5, 21]),
    (131, 20, [2, 3]),
    (6, 34, [4, 68]),
    (9, 150, [3, 37]),
];

/// More of them where there is a kernel for packed weights: columns that can be packed.
const PACKED_SHAPES: &[(usize, usize, [usize; 2])] = &[
    (1, 48, [3, 19]),
    (2, 32, [1, 6]),
    (3, 16, [2, 7]),
    (4, 80, [1, 18]),
    (11, 48, [3, 21]),
    (70, 16, [1, 3]),
    (16, 32, [2, 5]),
    (41, 48, [1, 19]),
    (16, 64, [1, 8]),
    (32, 48, [3, 18]),
    // Places far apart, and more or longer rows than packed kernels take in one walk.
    (1, 304, [2, 9]),
    (70, 16, [17, 130]),
    (17, 16, [66, 520]),
    // Sixteen rows or some more, in pieces of four, six and eight blocks.
    (16, 32, [3, 4]),
    (16, 16, [2, 10]),
    (19, 48, [1, 6]),
    (31, 32, [3, 18]),
    (16, 48, [5, 28]),
];

#[test]
fn every_kernel_agrees_with_the_definition() {
    each_row(|row, _, problem| {
        let got = problem.run(row, 0..problem.rows, 0..problem.cols)?;
        for (i, (got, &(want, magnitude))) in got.iter().zip(problem.expected()).enumerate() {
            let near = (f64::from(*got) - want).abs() <= TOLERANCE * magnitude + 1e-30;
            if !near {
                let (m, n) = (i / problem.cols, i % problem.cols);
                return Err(format!("row {m}, column {n}: {got} instead of {want} (terms {magnitude})"));
            }
        }
        Ok(())
    });
}

#[test]
fn a_product_does_not_depend_on_the_rest_of_its_tile() {
    each_row(|row, _, problem| {
        let whole = problem.run(row, 0..problem.rows, 0..problem.cols)?;
        let splits = [(1, 1), (1, problem.cols), (2, 3), (3, 8), (4, 16), (6, 5)];
        for (rows, cols) in splits {
            for m in (0..problem.rows).step_by(rows * 3) {
                let cols = if row.packed { cols.next_multiple_of(ROWS) } else { cols };
                for n in (0..problem.cols).step_by(cols) {
                    let (m_end, n_end) = ((m + rows).min(problem.rows), (n + cols).min(problem.cols));
                    let part = problem.run(row, m..m_end, n..n_end)?;
                    for (i, got) in part.iter().enumerate() {
                        let (m, n) = (m + i / (n_end - n), n + i % (n_end - n));
                        let want = whole[m * problem.cols + n];
                        if got.to_bits() != want.to_bits() {
                            return Err(format!("tiles of {rows}×{cols}: row {m}, column {n}: {got:e}, not {want:e}"));
                        }
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn kernels_of_every_level_give_the_same_bits() {
    let compared = Cell::new(0);
    each_row(|row, dtype, problem| {
        // With f32 activations only kernels with fused multiply-adds agree.
        let fused = if cfg!(target_arch = "aarch64") { Level::Neon } else { Level::Avx2 };
        let lowest = if row.act == Act::Q8 { Level::Generic } else { fused };
        let Some(base) = find(dtype, row.act, lowest).filter(|base| base.level == lowest && row.level >= lowest) else {
            return Ok(());
        };
        // A kernel for every format chains half blocks; find() never prefers it to the format's own.
        if row.dtype.is_none() && base.dtype.is_some() && row.act == Act::Q8 {
            return Ok(());
        }
        compared.set(compared.get() + usize::from(base.level != row.level));
        let got = problem.run(row, 0..problem.rows, 0..problem.cols)?;
        let want = problem.run(base, 0..problem.rows, 0..problem.cols)?;
        match got.iter().zip(&want).position(|(got, want)| got.to_bits() != want.to_bits()) {
            Some(i) => Err(format!("{} instead of {} of {} at {i}", got[i], want[i], base.name)),
            None => Ok(()),
        }
    });
    assert!(compared.get() > 0 || Level::detect() == Level::Generic, "no two levels were compared");
}

#[test]
fn packed_kernels_are_for_formats_that_can_be_packed() {
    for row in KERNELS.iter().filter(|row| row.packed) {
        assert!(row.dtype.is_none_or(|dtype| Fields::of(dtype).is_some()), "{}", row.name);
    }
}

#[test]
fn find_prefers_the_level_and_then_the_format() {
    for &level in Level::ALL {
        for f in FORMATS {
            let row = find(f.dtype, Act::F32, level).unwrap();
            assert!(level.has(row.level) && row.dtype.is_none_or(|d| d == f.dtype), "{}", f.name);
            assert_eq!(find(f.dtype, Act::Q8, level).is_some(), f.dtype.is_quantized(), "{}", f.name);
        }
    }
    // Not every machine with AVX-512 has AVX-VNNI.
    for row in KERNELS.iter().filter(|row| row.level == Level::AvxVnni) {
        let instead =
            |r: &GemmRow| r.level == Level::Avx512 && (r.dtype, r.act, r.packed) == (row.dtype, row.act, row.packed);
        assert!(KERNELS.iter().any(instead), "{}", row.name);
    }
    let row = find(DType::Q4_0, Act::Q8, Level::Generic).unwrap();
    assert_eq!((row.dtype, row.level), (Some(DType::Q4_0), Level::Generic));
    let row = find(DType::TQ1_0, Act::Q8, Level::Generic).unwrap();
    assert_eq!((row.dtype, row.level), (None, Level::Generic));
}

/// What weights and activations are made of.
#[derive(Clone, Copy, PartialEq)]
enum Fill {
    /// Encoded random numbers.
    Random,
    /// Encoded numbers that make nearly all integers the furthest from zero.
    Extreme,
    /// Random bytes, where one plane has everything.
    Bytes,
}

/// By shape, in turn.
const FILLS: [Fill; 6] = [Fill::Random, Fill::Random, Fill::Extreme, Fill::Bytes, Fill::Bytes, Fill::Extreme];

/// Runs `check` on every row, format and shape, and reports all that fail.
fn each_row(check: impl Fn(&GemmRow, DType, &Problem) -> Result<(), String>) {
    let mut failures = Vec::new();
    let mut checked = std::collections::HashSet::new();
    for (f, act) in FORMATS.iter().flat_map(|f| [(f, Act::F32), (f, Act::Q8)]) {
        let rows = || KERNELS.iter().filter(|r| r.level.checked().is_ok() && r.act == act && serves(r, f.dtype));
        if rows().next().is_none() {
            continue;
        }
        let packed_shapes = if rows().any(|row| row.packed) { PACKED_SHAPES } else { &[] };
        for (i, &(m, n, [large, small])) in SHAPES.iter().chain(packed_shapes).enumerate() {
            // Odd lengths where the block allows.
            let k = match f.block {
                256 => 256 * large,
                1 => 21 * small,
                block => block * small,
            };
            // Some encoders search for long; random bytes are found faster and go further.
            let fill = FILLS[i % FILLS.len()];
            let problem = Problem::new(f.dtype, act, m, n, k, fill);
            for row in rows().filter(|row| !row.packed || problem.packed.is_some()) {
                checked.insert(row.name);
                if let Err(fault) = check(row, f.dtype, &problem) {
                    failures.push(format!("{} {} {m}×{n}×{k}: {fault}", row.name, f.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    let missed: Vec<_> = KERNELS.iter().filter(|r| r.level.checked().is_ok() && !checked.contains(r.name)).collect();
    assert!(missed.is_empty(), "{:?} have no problem", missed.iter().map(|row| row.name).collect::<Vec<_>>());
}

fn serves(row: &GemmRow, dtype: DType) -> bool {
    let fits = match row.act {
        Act::F32 => ![DType::F64, DType::I64, DType::I32, DType::U32].contains(&dtype),
        Act::Q8 => dtype.is_quantized(),
    };
    fits && row.dtype.is_none_or(|d| d == dtype) && (!row.packed || Fields::of(dtype).is_some())
}

/// Weights and activations.
struct Problem {
    dtype: DType,
    act: Act,
    rows: usize,
    cols: usize,
    k: usize,
    /// Weight planes, each ending where readable memory ends.
    w: [Guarded; 3],
    /// The first plane packed, where it can be.
    packed: Option<Guarded>,
    strides: [usize; 2],
    x: Guarded,
    x_stride: usize,
    expected: OnceCell<Vec<(f64, f64)>>,
}

impl Problem {
    fn new(dtype: DType, act: Act, rows: usize, cols: usize, k: usize, fill: Fill) -> Self {
        let mut random = Random(0x9e37_79b9 ^ (rows * 7919 + cols * 104_729 + k * 31) as u64);
        let f = dtype.format();
        let blocks = k / f.block;
        let strides = [blocks * f.bytes, blocks * f.side_bytes];
        let mut w = [strides[0], strides[1], strides[1]].map(|stride| Guarded::new(cols * stride));
        let [data, scales, biases] = &mut w;
        for n in 0..cols {
            let planes = PlanesMut {
                data: &mut data.bytes_mut()[n * strides[0]..][..strides[0]],
                scales: &mut scales.bytes_mut()[n * strides[1]..][..strides[1]],
                biases: &mut biases.bytes_mut()[n * strides[1]..][..strides[1]],
            };
            match f.encode {
                Some(encode) if fill != Fill::Bytes || f.side_bytes > 0 => {
                    let values: Vec<f32> = (0..k)
                        .map(|k| match fill {
                            Fill::Extreme => [1.0, -1.0][usize::from(k % 32 == 31)],
                            _ => random.value(),
                        })
                        .collect();
                    encode(&values, planes);
                }
                _ => random.fill(dtype, planes.data),
            }
        }
        let row_bytes = match act {
            Act::F32 => 4 * k,
            Act::Q8 => q8::row_bytes(k),
        };
        let x_stride = row_bytes.next_multiple_of(64);
        let mut x = Guarded::new(rows * x_stride);
        for m in 0..rows {
            let row = &mut x.bytes_mut()[m * x_stride..][..row_bytes];
            let values: Vec<f32> = (0..k).map(|_| if fill == Fill::Extreme { 1.0 } else { random.value() }).collect();
            match act {
                Act::F32 => put(row, &values),
                Act::Q8 => {
                    let (q, floats) = row.split_at_mut(k);
                    let (scales, sums) = floats.split_at_mut(k / q8::BLOCK * 4);
                    for (b, values) in values.as_chunks::<{ q8::BLOCK }>().0.iter().enumerate() {
                        let mut block = [0i8; q8::BLOCK];
                        let scale = q8::quantize_block(values, &mut block);
                        put(&mut scales[4 * b..], &[scale]);
                        for (g, group) in block.chunks(q8::GROUP).enumerate() {
                            let sum: i32 = group.iter().map(|&q| i32::from(q)).sum();
                            put(&mut sums[8 * b + 4 * g..], &[scale * sum as f32]);
                        }
                        for (to, q) in q[b * q8::BLOCK..].iter_mut().zip(block) {
                            *to = q as u8;
                        }
                    }
                }
            }
        }
        let packed = Fields::of(dtype).filter(|_| cols.is_multiple_of(ROWS)).map(|fields| {
            let mut packed = Guarded::new(cols * strides[0]);
            fields.pack(w[0].bytes(), strides[0], packed.bytes_mut());
            packed
        });
        Self { dtype, act, rows, cols, k, w, packed, strides, x, x_stride, expected: OnceCell::new() }
    }

    /// The products of some rows and columns; an error if the kernel wrote anything else.
    fn run(&self, row: &GemmRow, m: std::ops::Range<usize>, n: std::ops::Range<usize>) -> Result<Vec<f32>, String> {
        const POISON: u32 = 0x7fc0_dead;
        let (rows, cols) = (m.len(), n.len());
        let (out_stride, margin) = (cols + 3, 16);
        let mut out = vec![f32::from_bits(POISON); margin + rows * out_stride + margin];
        let [data, scales, biases] = &self.w;
        let data = self.packed.as_ref().filter(|_| row.packed).unwrap_or(data);
        let d = Gemm {
            w: data.bytes()[n.start * self.strides[0]..].as_ptr(),
            w_scales: scales.bytes()[n.start * self.strides[1]..].as_ptr(),
            w_biases: biases.bytes()[n.start * self.strides[1]..].as_ptr(),
            w_stride: self.strides[0],
            w_side_stride: self.strides[1],
            next: std::ptr::without_provenance(0x7777_7777_7777),
            x: self.x.bytes()[m.start * self.x_stride..].as_ptr(),
            x_stride: self.x_stride,
            rows,
            cols,
            k: self.k,
            out: out[margin..].as_mut_ptr(),
            out_stride,
            dtype: self.dtype.index(),
        };
        // SAFETY: the pointers are those of the problem, and the machine has the row's level.
        unsafe { (row.run)(&d) };
        let mut tile = Vec::new();
        for (i, v) in out.iter().enumerate() {
            let inside = i.checked_sub(margin).filter(|i| i / out_stride < rows && i % out_stride < cols);
            match inside {
                Some(_) => tile.push(*v),
                None if v.to_bits() != POISON => return Err(format!("wrote outside of its tile, at {i}")),
                None => {}
            }
        }
        Ok(tile)
    }

    /// The values of weight row `n`, and the magnitudes of what they are made of.
    fn weights(&self, n: usize) -> Vec<(f64, f64)> {
        let f = self.dtype.format();
        let row = |plane: usize, stride: usize| &self.w[plane].bytes()[n * stride..][..stride];
        let (data, scales, biases) = (row(0, self.strides[0]), row(1, self.strides[1]), row(2, self.strides[1]));
        let mut values = vec![0.0f32; self.k];
        (f.decode)(Planes { data, scales, biases }, &mut values);
        let mut out: Vec<_> = values.iter().map(|&w| (f64::from(w), f64::from(w.abs()))).collect();
        // An offset may cancel what the integers are worth: both count.
        if let Some(unpack) = f.unpack {
            let mut u = Unpacked::default();
            for (b, out) in out.chunks_mut(f.block).enumerate() {
                let part = |p, bytes| <[u8]>::get(p, b * bytes..(b + 1) * bytes).unwrap_or(&[]);
                let planes = Planes {
                    data: part(data, f.bytes),
                    scales: part(scales, f.side_bytes),
                    biases: part(biases, f.side_bytes),
                };
                unpack(planes, &mut u);
                for (i, out) in out.iter_mut().enumerate() {
                    let (scale, offset) = (f64::from(u.scale[i / 16]), f64::from(u.offset[i / 16]));
                    out.1 = (scale * f64::from(u.q[i])).abs() + offset.abs();
                }
            }
        }
        out
    }

    /// The products in f64, each with the sum of its terms' magnitudes.
    fn expected(&self) -> &[(f64, f64)] {
        self.expected.get_or_init(|| {
            let weights: Vec<_> = (0..self.cols).map(|n| self.weights(n)).collect();
            let product = |x: &[f64], weights: &[(f64, f64)]| {
                let terms = weights.iter().zip(x).map(|(w, x)| (w.0 * x, w.1 * x.abs()));
                terms.fold((0.0, 0.0), |(sum, sizes), (term, size)| (sum + term, sizes + size))
            };
            let rows = (0..self.rows).map(|m| self.activations(m));
            rows.flat_map(|x| weights.iter().map(move |w| product(&x, w))).collect()
        })
    }

    /// The values of activation row `m`.
    fn activations(&self, m: usize) -> Vec<f64> {
        let x = &self.x.bytes()[m * self.x_stride..];
        let value = |k: usize| match self.act {
            Act::F32 => f64::from(get(x, 4 * k)),
            Act::Q8 => f64::from(x[k] as i8) * f64::from(get(x, q8::scales_offset(self.k) + k / q8::BLOCK * 4)),
        };
        (0..self.k).map(value).collect()
    }
}

fn put(to: &mut [u8], values: &[f32]) {
    for (to, v) in to.chunks_exact_mut(4).zip(values) {
        to.copy_from_slice(&v.to_le_bytes());
    }
}

fn get(from: &[u8], at: usize) -> f32 {
    f32::from_le_bytes(from[at..at + 4].try_into().unwrap())
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// About -1 to 1, now and then larger.
    fn value(&mut self) -> f32 {
        let v = (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        if self.next().is_multiple_of(37) { 8.0 * v } else { v }
    }

    /// Random blocks whose values are finite and of a moderate size.
    fn fill(&mut self, dtype: DType, data: &mut [u8]) {
        let f = dtype.format();
        let mut values = vec![0.0; f.block];
        for block in data.chunks_exact_mut(f.bytes) {
            loop {
                block.iter_mut().for_each(|b| *b = self.next() as u8);
                (f.decode)(Planes { data: block, ..Planes::default() }, &mut values);
                if values.iter().all(|v| v.is_finite() && v.abs() < 1e4) {
                    break;
                }
            }
        }
    }
}

/// Bytes that end where a page begins that must not be read, and begin at a multiple of 64 if
/// their number is one.
struct Guarded {
    map: Map,
    len: usize,
}

impl Guarded {
    fn new(len: usize) -> Self {
        Self { map: Map::new(len.next_multiple_of(PAGE)), len }
    }

    fn bytes(&self) -> &[u8] {
        &self.map.bytes()[self.map.len - self.len..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.map.len - self.len;
        &mut self.map.bytes_mut()[start..]
    }
}

const PAGE: usize = 4096;

/// Zeroed pages, followed by one without access where the system is Linux.
struct Map {
    start: *mut u8,
    len: usize,
}

#[cfg(target_os = "linux")]
mod os {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        pub fn mmap(at: *mut c_void, len: usize, protection: c_int, flags: c_int, file: c_int, at: i64) -> *mut c_void;
        pub fn mprotect(at: *mut c_void, len: usize, protection: c_int) -> c_int;
        pub fn munmap(at: *mut c_void, len: usize) -> c_int;
    }
    pub const READ_WRITE: c_int = 3;
    pub const PRIVATE_ANONYMOUS: c_int = 0x22;
}

#[cfg(target_os = "linux")]
impl Map {
    fn new(len: usize) -> Self {
        // SAFETY: a new mapping, whose last page loses its access.
        unsafe {
            let start =
                os::mmap(std::ptr::null_mut(), len + PAGE, os::READ_WRITE, os::PRIVATE_ANONYMOUS, -1, 0).cast::<u8>();
            assert_ne!(start as isize, -1, "no memory");
            assert_eq!(os::mprotect(start.add(len).cast(), PAGE, 0), 0);
            Self { start, len }
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { os::munmap(self.start.cast(), self.len + PAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
impl Map {
    fn new(len: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(len.max(PAGE), PAGE).unwrap();
        // SAFETY: the size is not 0. The few pages of a test are not given back.
        Self { start: unsafe { std::alloc::alloc_zeroed(layout) }, len }
    }
}

impl Map {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` readable bytes that `self` owns.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` writable bytes that `self` owns.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
