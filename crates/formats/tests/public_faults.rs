//! Faults that were found in other engines and published: files that made them write or read outside their memory.
//!
//! | fault | what happened there | what we say |
//! |---|---|---|
//! | CVE-2025-53630, llama.cpp | sizes of tensors were added without a check: the sum wrapped, the buffer was small | `tensor "a" needs … bytes at offset …, but the file ends after …` |
//! | CVE-2026-27940, llama.cpp | the check for that left room: the tensors' headers were added to the sum, which wrapped again | the same; for counts, `the list of … tensors needs …` |
//! | CVE-2026-7482, Ollama | a tensor's offset and shape were believed: quantizing it read what lay behind the file, keys and conversations | the same |
//! | llama.cpp 24759 | rounding a size just below 2^64 up to the alignment gave 0 | the same |
//! | llama.cpp 18674 | a dimension of 2^42 + 1: the product with a row's bytes wrapped | `tensor "t" is too large to address`, or as above |
//! | llama.cpp 24888, sparkinfer 5 | arrays were read as the type that was expected, not as the one that was declared; an unknown type counted 0 bytes | an array gives no values of another type; `key "k" has type id …` |
//! | CVE-2024-37032, Ollama, and CVE-2026-7020 | names inside untrusted files became paths (path traversal) | `a shard in weight_map must be a plain file name` |

mod support;

use akunu_formats::gguf::Value;
use akunu_formats::{Metadata, ModelFile};
use akunu_testkit::TempDir;
use support::*;

const F32_TENSOR: u32 = 0;
const I8_TENSOR: u32 = 24;

/// The message of a GGUF file without keys that has these tensors and 64 bytes of data.
fn refused(infos: Vec<Vec<u8>>, tensor_count: Option<u64>) -> String {
    let dir = TempDir::new();
    let file = Gguf { keys: Vec::new(), infos, tensor_count, data: 64, ..Gguf::default() };
    message(&dir.write("model.gguf", &file.bytes()))
}

#[test]
fn cve_2025_53630_sizes_of_tensors_whose_sum_wraps() {
    // Each fits into 64 bits, and both together are 2^64 + 64, or 2^64.
    for (first, second) in [(1 << 63, (1 << 63) + 64), (u64::MAX - 63, 64)] {
        let message = refused(vec![info("a", &[first], I8_TENSOR, 0), info("b", &[second], I8_TENSOR, first)], None);
        assert!(message.contains("tensor \"a\" needs") && message.contains("but the file ends after"), "{message}");
    }
}

#[test]
fn cve_2026_27940_a_sum_that_wraps_with_the_tensors_headers() {
    // Any header of up to 512 bytes for a tensor makes the sum wrap.
    for size in [u64::MAX - 31, u64::MAX - 367, u64::MAX - 511] {
        let message = refused(vec![info("a", &[size], I8_TENSOR, 0)], None);
        assert!(message.contains(&format!("tensor \"a\" needs {size} bytes at offset")), "{message}");
    }
    // Counts whose product with a header's size wraps, and whose list would take more than there is memory.
    for count in [u64::MAX / 368 + 2, (1 << 63) / 184, u64::MAX, 1 << 40] {
        let message = refused(vec![info("a", &[4], F32_TENSOR, 0)], Some(count));
        assert!(message.contains(&format!("the list of {count} tensors needs")), "{message}");
    }
}

#[test]
fn cve_2026_7482_a_tensor_offset_past_the_end() {
    for (elements, offset) in [(1, 64), (16, 32), (17, 0), (4, 1 << 40), (1 << 40, 0), (16, u64::MAX - 31)] {
        let message = refused(vec![info("t", &[elements], F32_TENSOR, offset)], None);
        let expected = format!("tensor \"t\" needs {} bytes at offset", 4 * elements);
        assert!(message.contains(&expected), "{elements} at {offset}: {message}");
    }
}

#[test]
fn llama_cpp_24759_a_size_that_rounding_up_makes_nothing() {
    let message = refused(vec![info("a", &[(1 << 62) - 1], F32_TENSOR, 0), info("b", &[8], F32_TENSOR, 0)], None);
    assert!(message.contains("tensor \"a\" needs 18446744073709551612 bytes"), "{message}");
}

#[test]
fn llama_cpp_18674_dimensions_whose_product_wraps() {
    for dims in [&[1 << 22, (1 << 42) + 1][..], &[1 << 32, 1 << 32], &[1 << 16; 4], &[4, u64::MAX / 4 + 2]] {
        let message = refused(vec![info("t", dims, F32_TENSOR, 0)], None);
        assert!(message.contains("tensor \"t\" is too large to address"), "{dims:?}: {message}");
    }
}

#[test]
fn llama_cpp_24888_array_type_confusion() {
    let arrays = [
        ("u8", array(0, 4, [1, 2, 3, 4])),
        ("i32", array(5, 1, 7i32.to_le_bytes())),
        ("f32", array(F32, 1, 1f32.to_le_bytes())),
        ("bool", array(BOOL, 4, [0, 1, 1, 0])),
        ("string", array(STRING, 1, string("text"))),
        ("u64", array(U64, 1, u64::MAX.to_le_bytes())),
    ];
    let keys = arrays.iter().map(|(name, value)| key(name, ARRAY, value)).collect();
    let dir = TempDir::new();
    let path = dir.write("model.gguf", &Gguf { keys, ..Gguf::default() }.bytes());
    let file = open(&path).unwrap();
    let Metadata::Gguf(metadata) = file.metadata() else { panic!("{:?}", file.metadata()) };
    for (name, _) in arrays {
        let Some(Value::Array(array)) = metadata.get(name) else { panic!("{name}") };
        let read = (
            array.i64s().map(|values| values.len()),
            array.f32s().map(|values| values.len()),
            array.bools().map(|values| values.len()),
            array.strings().map(|values| values.len()),
        );
        let expected = match name {
            "u8" => (Some(4), None, None, None),
            "i32" => (Some(1), None, None, None),
            "f32" => (None, Some(1), None, None),
            "bool" => (None, None, Some(4), None),
            "string" => (None, None, None, Some(1)),
            // 2^64 - 1 is no number that is asked for.
            _ => (None, None, None, None),
        };
        assert_eq!(read, expected, "{name}");
        assert_eq!(array.string(0).is_some(), name == "string", "{name}");
        assert!(metadata.str(name).is_err() && metadata.u64(name).is_err(), "{name}");
    }
}

#[test]
fn sparkinfer_5_an_array_of_an_unknown_type() {
    for kind in [13, 9, 255, u32::MAX] {
        let keys = vec![key("k", ARRAY, array(kind, 1, [0; 64]))];
        let dir = TempDir::new();
        let message = message(&dir.write("model.gguf", &Gguf { keys, ..Gguf::default() }.bytes()));
        let expected = if kind == ARRAY { "an array of arrays in key \"k\"" } else { "key \"k\" has type id" };
        assert!(message.contains(expected), "{message}");
    }
    // A count whose product with 8 bytes wraps to what is there.
    let keys = vec![key("k", ARRAY, array(U64, (1 << 61) + 1, 7u64.to_le_bytes()))];
    let dir = TempDir::new();
    let message = message(&dir.write("model.gguf", &Gguf { keys, ..Gguf::default() }.bytes()));
    assert!(message.contains("the array of 2305843009213693953 u64 in key \"k\" needs"), "{message}");
}

#[test]
fn cve_2024_37032_path_traversal_in_an_index() {
    // What the names lead to is there, and sound: nothing but the check keeps it from being read.
    let dir = TempDir::new();
    let weights = safetensors(SAFETENSORS, SAFETENSORS_DATA);
    let outside = dir.write("outside.safetensors", &weights);
    let absolute = outside.to_string_lossy().into_owned();
    let model = dir.join("model");
    std::fs::create_dir_all(model.join("inside")).unwrap();
    std::fs::write(model.join("config.json"), "{}").unwrap();
    std::fs::write(model.join("inside/a.safetensors"), &weights).unwrap();
    for name in ["../outside.safetensors", &absolute, "inside/../../outside.safetensors", "inside/a.safetensors", ".."]
    {
        let map: Vec<String> = ["a.weight", "b", "ids"].map(|t| format!("{t:?}:{name:?}")).into();
        let index = format!("{{\"weight_map\":{{{}}}}}", map.join(","));
        std::fs::write(model.join("model.safetensors.index.json"), index).unwrap();
        let message = message(&model);
        assert!(message.contains("a shard in weight_map must be a plain file name"), "{name}: {message}");
    }
    // Nor do the names of files that are looked for beside the weights.
    std::fs::write(model.join("model.safetensors"), &weights).unwrap();
    let file = ModelFile::open(&model).unwrap();
    assert!(file.side_file("config.json").unwrap().is_ok());
    for name in ["../outside.safetensors", &absolute, "inside/../../outside.safetensors", "..", "inside/.."] {
        assert!(file.side_file(name).is_some_and(|found| found.is_err()), "{name}");
    }
}
