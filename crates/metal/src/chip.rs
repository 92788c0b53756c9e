//! What is known of a chip, as data: how many cores, how fast its memory is, and what kernels are chosen by.

/// A chip, and the choices that follow from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chip {
    /// As the device calls itself, without the vendor: `M4 Pro`.
    pub name: &'static str,
    /// Apple's number of the GPU's generation: 7 for M1, 8 for M2, 9 for M3 and M4, 10 for M5.
    pub family: u32,
    pub cores: u32,
    /// Memory bandwidth by its vendor, in GB/s.
    pub bandwidth: f64,
    /// Microseconds that a dispatch costs between two that wait for each other: a guess, for estimates.
    pub dispatch_us: f64,
    /// Whether it multiplies matrices of 8 by 8 in SIMD groups.
    pub matrices: bool,
    /// Rows of a weight from which on a product is the wide one.
    pub wide_rows: u32,
    /// Columns of a weight from which on several SIMD groups share a row.
    pub large_k: u32,
    /// Steps of a chain in one command buffer.
    pub chain_chunk: usize,
    /// Rows of a prefill step.
    pub prefill_chunk: usize,
    /// Threads that normalize a row.
    pub norm_threads: u32,
}

/// What follows from a number of cores: with more of them a kernel must be divided further for all to be busy.
struct Size {
    /// From so many cores on.
    cores: u32,
    large_k: u32,
    chain_chunk: usize,
    prefill_chunk: usize,
    norm_threads: u32,
}

/// Guesses, which nobody has measured, the largest first.
#[rustfmt::skip]
const SIZES: [Size; 2] = [
    Size { cores: 30, large_k: 2_048, chain_chunk: 32, prefill_chunk: 1_024, norm_threads: 512 },
    Size { cores: 0,  large_k: 4_096, chain_chunk: 16, prefill_chunk: 512,   norm_threads: 256 },
];

/// The part of the vendor's bandwidth that reading weights reaches: a guess, for estimates.
pub const REACHED: f64 = 0.8;

/// What [`Chip::step_seconds`] takes, in words.
pub const MODEL: &str = "bytes at 80 % of the vendor's bandwidth, and 2 to 3 µs for every dispatch that waits";

/// The first family whose SIMD groups multiply matrices.
const MATRICES: u32 = 7;

const fn chip(name: &'static str, family: u32, cores: u32, bandwidth: f64) -> Chip {
    let size = if cores >= SIZES[0].cores { &SIZES[0] } else { &SIZES[1] };
    Chip {
        name,
        family,
        cores,
        bandwidth,
        dispatch_us: if family >= 9 { 2.0 } else { 3.0 },
        matrices: family >= MATRICES,
        wide_rows: 32_768,
        large_k: size.large_k,
        chain_chunk: size.chain_chunk,
        prefill_chunk: size.prefill_chunk,
        norm_threads: size.norm_threads,
    }
}

/// What has no row: the least that runs our kernels.
pub const UNKNOWN: Chip = chip("Apple GPU", 7, 8, 68.0);

/// Cores and bandwidth as Apple gives them. Where fewer cores are sold under a name, with less bandwidth, there is a row for them
/// after the one with the most.
#[rustfmt::skip]
pub static CHIPS: &[Chip] = &[
    chip("M1", 7, 8, 68.0),
    chip("M1 Pro", 7, 16, 200.0),
    chip("M1 Max", 7, 32, 400.0),
    chip("M1 Ultra", 7, 64, 800.0),
    chip("M2", 8, 10, 100.0),
    chip("M2 Pro", 8, 19, 200.0),
    chip("M2 Max", 8, 38, 400.0),
    chip("M2 Ultra", 8, 76, 800.0),
    chip("M3", 9, 10, 100.0),
    chip("M3 Pro", 9, 18, 150.0),
    chip("M3 Max", 9, 40, 400.0), chip("M3 Max", 9, 30, 300.0),
    chip("M3 Ultra", 9, 80, 819.0),
    chip("M4", 9, 10, 120.0),
    chip("M4 Pro", 9, 20, 273.0),
    chip("M4 Max", 9, 40, 546.0), chip("M4 Max", 9, 32, 410.0),
    chip("M5", 10, 10, 153.0),
    chip("M5 Pro", 10, 20, 307.0),
    chip("M5 Max", 10, 40, 614.0), chip("M5 Max", 10, 32, 460.0),
];

impl Chip {
    /// The chip with the most cores of this name: `M4 Pro`.
    pub fn named(name: &str) -> Option<Chip> {
        CHIPS.iter().find(|chip| chip.name.eq_ignore_ascii_case(name)).cloned()
    }

    /// The names there are.
    pub fn names() -> Vec<&'static str> {
        let mut names: Vec<_> = CHIPS.iter().map(|chip| chip.name).collect();
        names.dedup();
        names
    }

    /// Its name, with its cores where there are others of that name.
    pub fn label(&self) -> String {
        match CHIPS.iter().filter(|chip| chip.name == self.name).count() {
            0 | 1 => self.name.to_owned(),
            _ => format!("{}, {} cores", self.name, self.cores),
        }
    }

    /// An estimate of a step that reads so many bytes, in which so many dispatches wait for those before them. Arithmetic is left
    /// out: a step with one row is bound by memory.
    pub fn step_seconds(&self, bytes: u64, waits: usize) -> f64 {
        bytes as f64 / (self.bandwidth * 1e9 * REACHED) + waits as f64 * self.dispatch_us * 1e-6
    }

    /// By the device's name, with the cores and the family that the system says, where it does.
    pub fn of(device: &str, cores: Option<u32>, family: Option<u32>) -> Chip {
        let name = device.strip_prefix("Apple ").unwrap_or(device);
        let cores = cores.filter(|cores| *cores > 0);
        let rows = || CHIPS.iter().filter(|chip| chip.name == name);
        // The row with the fewest cores that has these.
        let has = |chip: &&Chip| cores.is_some_and(|cores| chip.cores >= cores);
        let row = rows().take_while(has).last().or_else(|| rows().next()).unwrap_or(&UNKNOWN);
        chip(row.name, family.unwrap_or(row.family), cores.unwrap_or(row.cores), row.bandwidth)
    }
}
