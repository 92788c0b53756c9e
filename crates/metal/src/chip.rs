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

/// What has no row.
pub const UNKNOWN: Chip = Chip {
    name: "Apple GPU",
    family: 7,
    cores: 8,
    bandwidth: 68.0,
    dispatch_us: 3.0,
    matrices: true,
    wide_rows: 32_768,
    large_k: 4_096,
    chain_chunk: 16,
    prefill_chunk: 512,
    norm_threads: 256,
};

const fn chip(name: &'static str, family: u32, cores: u32, bandwidth: f64) -> Chip {
    let large = cores >= 30;
    Chip {
        name,
        family,
        cores,
        bandwidth,
        dispatch_us: if family >= 9 { 2.0 } else { 3.0 },
        matrices: true,
        wide_rows: 32_768,
        // More cores need more SIMD groups to be busy.
        large_k: if large { 2_048 } else { 4_096 },
        chain_chunk: if large { 32 } else { 16 },
        prefill_chunk: if large { 1_024 } else { 512 },
        norm_threads: if large { 512 } else { 256 },
    }
}

/// Cores and bandwidth are the largest that are sold under the name.
#[rustfmt::skip]
pub static CHIPS: &[Chip] = &[
    chip("M1", 7, 8, 68.0), chip("M1 Pro", 7, 16, 200.0), chip("M1 Max", 7, 32, 400.0), chip("M1 Ultra", 7, 64, 800.0),
    chip("M2", 8, 10, 100.0), chip("M2 Pro", 8, 19, 200.0), chip("M2 Max", 8, 38, 400.0), chip("M2 Ultra", 8, 76, 800.0),
    chip("M3", 9, 10, 100.0), chip("M3 Pro", 9, 18, 150.0), chip("M3 Max", 9, 40, 400.0), chip("M3 Ultra", 9, 80, 819.0),
    chip("M4", 9, 10, 120.0), chip("M4 Pro", 9, 20, 273.0), chip("M4 Max", 9, 40, 546.0),
    chip("M5", 10, 10, 153.0),
];

impl Chip {
    /// By the device's name, with the cores and the family that the system says, where it does.
    pub fn of(device: &str, cores: Option<u32>, family: Option<u32>) -> Chip {
        let name = device.strip_prefix("Apple ").unwrap_or(device);
        let known = CHIPS.iter().find(|chip| chip.name == name).unwrap_or(&UNKNOWN);
        let cores = cores.filter(|cores| *cores > 0).unwrap_or(known.cores);
        let family = family.unwrap_or(known.family);
        // Below the seventh family there are no matrices of SIMD groups.
        Chip { cores, family, matrices: family >= 7, ..known.clone() }
    }
}
