//! What the host does beside encoding: which chip it is, where kernels are, what is kept between runs, what errors say.

use akunu_metal::chip::{CHIPS, Chip, UNKNOWN};
use akunu_metal::entry::{self, Entry, Kind};
use akunu_metal::formats::FORMATS;
use akunu_metal::{GpuError, archive, kernels, shaders};
use std::path::Path;
use std::{fs, io};

#[test]
fn a_chip_is_known_by_its_devices_name_and_cores() {
    let pro = Chip::of("Apple M4 Pro", Some(16), Some(9));
    assert_eq!((pro.name, pro.cores, pro.bandwidth, pro.matrices), ("M4 Pro", 16, 273.0, true));
    // Fewer cores of one name have less bandwidth.
    for (cores, bandwidth) in [(Some(40), 546.0), (Some(32), 410.0), (Some(0), 546.0), (None, 546.0), (Some(99), 546.0)]
    {
        assert_eq!(Chip::of("Apple M4 Max", cores, None).bandwidth, bandwidth, "{cores:?}");
    }
    assert_eq!(Chip::of("Apple M4 Max", None, None).cores, 40);
    // The system knows better than our table.
    let later = Chip::of("Apple M9 Max", Some(64), Some(12));
    assert_eq!((later.name, later.cores, later.family, later.bandwidth), (UNKNOWN.name, 64, 12, UNKNOWN.bandwidth));
    assert!(later.norm_threads > UNKNOWN.norm_threads, "choices follow the cores that there are");
    assert!(!Chip::of("Apple A13 GPU", None, Some(6)).matrices, "below the seventh family there are no matrices");
}

#[test]
fn every_chip_is_found_again_by_its_row() {
    for row in CHIPS {
        let found = Chip::of(&format!("Apple {}", row.name), Some(row.cores), Some(row.family));
        assert_eq!(&found, row);
        assert!((7..=10).contains(&row.family) && row.cores >= 8 && row.bandwidth >= 68.0, "{row:?}");
        // A threadgroup has whole SIMD groups, and no more threads than there can be.
        assert!(row.norm_threads.is_multiple_of(32) && row.norm_threads <= 1024, "{row:?}");
        let named = Chip::named(row.name).unwrap();
        assert!(named.cores >= row.cores, "the first row of a name is the one with the most cores");
    }
    assert_eq!(Chip::named("m4 pro").unwrap().name, "M4 Pro");
    assert!(Chip::named("M4 Extreme").is_none());
}

#[test]
fn every_kernel_is_found_in_its_source_with_its_format_alone() {
    for kernel in akunu_metal_emulator::kernels() {
        // The emulator has kernels of its own tests too.
        let Some(entry) = entry::find(kernel) else {
            assert!(!kernels::table().iter().any(|row| row.name == kernel), "{kernel} is nowhere");
            continue;
        };
        let text = entry.text().unwrap();
        assert!(text.contains(&format!("({kernel},")) || text.contains(&format!("void {kernel}(")), "{kernel}");
        entry::constants(&text).unwrap_or_else(|why| panic!("{kernel}: {why}"));
    }
    for row in kernels::table() {
        let entry = entry::find(&row.name).unwrap();
        assert_eq!(entry.source, row.source, "{}", row.name);
        // Those of KV formats are compiled together: they are few.
        let format = entry.format.map(|(suffix, _)| suffix);
        assert!(format.is_none() || format == row.format, "{}: {format:?}", row.name);
    }
    assert_eq!(entry::find("no_such_kernel"), None);
}

#[test]
fn what_is_not_wanted_is_not_compiled() {
    let sources = shaders::all().filter(|(_, text)| text.contains("INSTANTIATE_FORMATS("));
    for (source, _) in sources {
        let text = Entry { source, format: FORMATS.first().copied() }.text().unwrap();
        for (_, format) in &FORMATS[1..] {
            let names = |line: &str| line.split([',', ')']).any(|word| word.trim() == *format);
            let instantiated = text.lines().any(|line| line.starts_with("INSTANTIATE(") && names(line));
            assert!(!instantiated, "{source} for one format has {format} too");
        }
    }
}

#[test]
fn a_source_gives_a_function_constants_number_once() {
    for (source, _) in shaders::all().filter(|(path, _)| path.ends_with(".metal")) {
        let text = Entry { source, format: FORMATS.last().copied() }.text().unwrap();
        let mut numbers: Vec<u32> = entry::constants(&text).unwrap().into_iter().map(|(number, _)| number).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "{source}");
    }
}

#[test]
fn function_constants_are_known_by_number_and_kind() {
    let text =
        "constant uint head_dim [[function_constant(0)]];\n    constant bool masked [[function_constant(12)]];\nint x;";
    assert_eq!(entry::constants(text).unwrap(), [(0, Kind::Uint), (12, Kind::Bool)]);
    assert!(entry::constants("constant half wide [[function_constant(0)]];").is_err());
}

#[test]
fn pipelines_are_kept_by_what_they_were_made_from() {
    let folder = Path::new("cache");
    let path = archive::path(folder, "Apple M4 Pro", "Version 15.1 (Build 24B83)");
    assert_eq!(path, archive::path(folder, "Apple M4 Pro", "Version 15.1 (Build 24B83)"));
    assert_ne!(path, archive::path(folder, "Apple M4 Pro", "Version 15.2 (Build 24C101)"));
    assert_ne!(path, archive::path(folder, "Apple M4", "Version 15.1 (Build 24B83)"));
    // Device and system are two texts.
    assert_ne!(archive::path(folder, "a", "bc"), archive::path(folder, "ab", "c"));
    assert!(path.starts_with(folder) && path.components().count() == 2, "{}", path.display());
}

#[test]
fn what_is_kept_is_replaced_as_a_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("akunu-metal-archive-{}", std::process::id()));
    let path = folder.join("M1.pipelines");
    archive::replace(&path, |part| fs::write(part, "one")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    let failed = archive::replace(&path, |part| {
        fs::write(part, "half")?;
        Err(io::Error::other("no room"))
    });
    assert!(failed.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_error_of_the_device_is_one_sentence() {
    for code in 0..16 {
        let error = GpuError::of_command(code, "first line\nsecond line").to_string();
        assert!(!error.contains('\n') && !error.is_empty(), "{error}");
        assert!(!GpuError::of_command(code, "").to_string().is_empty());
    }
    assert!(GpuError::of_command(8, "").to_string().contains("memory"));
    let told = "program_source:3:1: warning: unused\nprogram_source:7:2: error: use of undeclared identifier 'x'\n  x;";
    assert_eq!(GpuError::one_line(told), "program_source:7:2: error: use of undeclared identifier 'x'");
    assert_eq!(GpuError::one_line("\n  what \nmore"), "what");
}

#[test]
#[cfg(not(target_vendor = "apple"))]
fn elsewhere_there_is_one_sentence_instead_of_a_gpu() {
    assert_eq!(akunu_metal::open().err().unwrap().to_string(), "Metal is there on Apple's systems only");
}
