//! The writers: what they write reads back the same, and what does not add up leaves no file.

mod support;

use akunu_dtype::DType;
use akunu_formats::gguf::{Array, Kind, Value, Writer};
use akunu_formats::{Fault, Metadata, ModelFile, safetensors};
use akunu_testkit::{TempDir, fixtures};
use support::read_everything;

fn metadata(file: &ModelFile) -> &akunu_formats::gguf::Metadata {
    let Metadata::Gguf(metadata) = file.metadata() else { panic!("not GGUF") };
    metadata
}

#[test]
fn every_kind_of_value_reads_back() {
    let dir = TempDir::new();
    let path = dir.join("a.gguf");
    let tokens: Vec<String> = (0..100).map(|i| "x".repeat(i)).collect();
    let mut w = Writer::create(&path, false).unwrap();
    w.set("u8", 255u8)
        .unwrap()
        .set("u16", u16::MAX)
        .unwrap()
        .set("u32", u32::MAX)
        .unwrap()
        .set("u64", u64::MAX)
        .unwrap();
    w.set("i8", -128i8)
        .unwrap()
        .set("i16", i16::MIN)
        .unwrap()
        .set("i32", i32::MIN)
        .unwrap()
        .set("i64", i64::MIN)
        .unwrap();
    w.set("f32", 1e-6f32)
        .unwrap()
        .set("f64", 1e-300f64)
        .unwrap()
        .set("bool", true)
        .unwrap()
        .set("string", "é\0\n")
        .unwrap();
    w.set("narrow", Value::U64(7))
        .unwrap()
        .set("wide", Value::U64(1 << 40))
        .unwrap()
        .set("eps", Value::F64(1e-5))
        .unwrap();
    w.set("tokens", Array::from_strings(&tokens)).unwrap().set("none", Array::from_strings::<&str>([])).unwrap();
    w.set("i32s", Array::from_i32s([-1, 2])).unwrap().set("u32s", Array::from_u32s([u32::MAX])).unwrap();
    w.set("f32s", Array::from_f32s([0.5, -1.0])).unwrap().set("bools", Array::from_bools([true, false])).unwrap();
    w.begin().unwrap().finish().unwrap();

    let file = ModelFile::open(&path).unwrap();
    let m = metadata(&file);
    for (key, kind, value) in [
        ("u8", Kind::U8, Value::U64(255)),
        ("u16", Kind::U16, Value::U64(65535)),
        ("u32", Kind::U32, Value::U64(u32::MAX.into())),
        ("u64", Kind::U64, Value::U64(u64::MAX)),
        ("i8", Kind::I8, Value::I64(-128)),
        ("i16", Kind::I16, Value::I64(i16::MIN.into())),
        ("i32", Kind::I32, Value::I64(i32::MIN.into())),
        ("i64", Kind::I64, Value::I64(i64::MIN)),
        ("f32", Kind::F32, Value::F64(1e-6f32.into())),
        ("f64", Kind::F64, Value::F64(1e-300)),
        ("bool", Kind::Bool, Value::Bool(true)),
        ("string", Kind::String, Value::String("é\0\n".into())),
        ("narrow", Kind::U32, Value::U64(7)),
        ("wide", Kind::U64, Value::U64(1 << 40)),
        ("eps", Kind::F32, Value::F64(1e-5f32.into())),
        ("tokens", Kind::Array, Value::Array(Array::from_strings(&tokens))),
    ] {
        let field = m.field(key).unwrap();
        assert_eq!((field.kind(), field.value()), (kind, &value), "{key}");
    }
    let tokens_read = m.array("tokens").unwrap().unwrap();
    assert!(tokens_read.strings().unwrap().eq(tokens.iter().map(String::as_str)));
    assert!((0..100).all(|i| tokens_read.string(i) == Some(tokens[i].as_str())) && tokens_read.string(100).is_none());
    assert_eq!(m.array("none").unwrap().unwrap().strings().unwrap().len(), 0);
    assert!(m.array("i32s").unwrap().unwrap().i64s().unwrap().eq([-1, 2]));
    assert!(m.array("u32s").unwrap().unwrap().i64s().unwrap().eq([i64::from(u32::MAX)]));
    assert!(m.array("f32s").unwrap().unwrap().f32s().unwrap().eq([0.5, -1.0]));
    assert!(m.array("bools").unwrap().unwrap().bools().unwrap().eq([true, false]));
    assert!(m.array("bools").unwrap().unwrap().strings().is_none());
    assert!(m.iter().map(|(key, _)| key).eq(m.fields().map(|(key, _)| key)));
    read_everything(&file);
}

#[test]
fn getters_name_key_and_types() {
    let dir = TempDir::new();
    let path = dir.join("a.gguf");
    let mut w = Writer::create(&path, false).unwrap();
    w.set("n", -3i32).unwrap().set("s", "text").unwrap().set("f", 0.5f64).unwrap().set("u", 4u8).unwrap();
    w.set("a", Array::from_i32s([1, 2])).unwrap();
    w.begin().unwrap().finish().unwrap();
    let file = ModelFile::open(&path).unwrap();
    let m = metadata(&file);
    assert_eq!((m.u64("u").unwrap(), m.f32("f").unwrap(), m.str("s").unwrap()), (Some(4), Some(0.5), Some("text")));
    assert_eq!((m.u64("x").unwrap(), m.bool("x").unwrap()), (None, None));
    let ends = |error: akunu_formats::Error, end: &str| {
        assert!(error.to_string().ends_with(&format!("a.gguf: key {end}")), "{error}")
    };
    ends(m.u64("n").unwrap_err(), "\"n\" must be a non-negative integer, but is the integer -3");
    ends(m.u64("f").unwrap_err(), "\"f\" must be a non-negative integer, but is the number 0.5");
    ends(m.f32("u").unwrap_err(), "\"u\" must be a floating-point number, but is the integer 4");
    ends(m.bool("u").unwrap_err(), "\"u\" must be a bool, but is the integer 4");
    ends(m.str("a").unwrap_err(), "\"a\" must be a string, but is an array of 2 i32");
    ends(m.array("s").unwrap_err(), "\"s\" must be an array, but is the string \"text\"");
}

/// The strongest round trip there is: a file of llama.cpp's, read and written again, is the same file.
#[test]
fn a_copy_of_a_foreign_file_is_byte_for_byte_the_same() {
    let original = fixtures::path("gguf/llama-256-Q2_K.gguf");
    let file = ModelFile::open(&original).unwrap();
    let dir = TempDir::new();
    let path = dir.join("copy.gguf");
    let mut w = Writer::create(&path, false).unwrap();
    for (key, field) in metadata(&file).fields() {
        w.set(key, field.clone()).unwrap();
    }
    for t in file.tensors() {
        w.tensor(&t.name, t.dtype, &t.shape).unwrap();
    }
    let mut data = w.begin().unwrap();
    for (i, t) in file.tensors().iter().enumerate() {
        let bytes = file.planes(t).data;
        // Whole and in pieces.
        match i % 2 {
            0 => data.write_tensor(bytes).unwrap(),
            _ => bytes.chunks(1000).for_each(|piece| data.write(piece).unwrap()),
        }
    }
    data.finish().unwrap();
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&original).unwrap());
}

#[test]
fn alignment_is_kept() {
    let dir = TempDir::new();
    let path = dir.join("a.gguf");
    let mut w = Writer::create(&path, false).unwrap();
    w.set("general.alignment", 4096u32).unwrap();
    w.tensor("a", DType::F32, &[3]).unwrap().tensor("b", DType::Q8_0, &[2, 32]).unwrap();
    let mut data = w.begin().unwrap();
    data.write_tensor(&[1; 12]).unwrap();
    data.write_tensor(&[2; 68]).unwrap();
    data.finish().unwrap();
    let file = ModelFile::open(&path).unwrap();
    assert_eq!(file.tensors().iter().map(|t| t.data.offset).collect::<Vec<_>>(), [4096, 8192]);
    assert_eq!(file.planes(&file.tensors()[1]).data, [2; 68]);
}

#[test]
fn what_does_not_add_up_leaves_no_file() {
    let dir = TempDir::new();
    let path = dir.join("a.gguf");
    let begin = || {
        let mut w = Writer::create(&path, false).unwrap();
        w.tensor("a", DType::F32, &[2]).unwrap().tensor("b", DType::F32, &[1]).unwrap();
        w.begin().unwrap()
    };
    let text = |result: Result<(), akunu_formats::Error>| result.unwrap_err().to_string();
    assert!(text(begin().write_tensor(&[0; 7])).ends_with("a.gguf: tensor \"a\" was given 7 bytes, but declared 8"));
    assert!(text(begin().write(&[0; 9])).contains("tensor \"a\" was given 9 bytes"));
    assert!(text(begin().finish()).contains("has 2 tensors declared, but 0 were written"));
    let mut data = begin();
    data.write(&[0; 4]).unwrap();
    assert!(text(data.write_tensor(&[0; 8])).contains("tensor \"a\" was given 12 bytes"));
    assert!(text(data.finish()).contains("tensor \"a\" was given 4 bytes, but declared 8"));
    let mut data = begin();
    data.write_tensor(&[0; 8]).unwrap();
    data.write_tensor(&[0; 4]).unwrap();
    assert!(text(data.write_tensor(&[0; 4])).contains("has 2 tensors declared, but 3 were written"));
    drop(data);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn wrong_declarations() {
    let dir = TempDir::new();
    let mut w = Writer::create(&dir.join("a.gguf"), false).unwrap();
    w.set("k", 1u32).unwrap();
    let duplicate = w.set("k", 2u32).err().unwrap().fault;
    assert!(matches!(duplicate, Fault::Duplicate { what: "key", .. }));
    w.tensor("t", DType::F32, &[1]).unwrap();
    assert!(matches!(w.tensor("t", DType::F32, &[1]).err().unwrap().fault, Fault::Duplicate { what: "tensor", .. }));
    assert!(matches!(w.tensor("u", DType::Q4_0, &[33]).err().unwrap().fault, Fault::PartialBlock { .. }));
    assert!(matches!(w.tensor("u", DType::F32, &[]).err().unwrap().fault, Fault::Rank { .. }));
    assert!(matches!(w.tensor("u", DType::F32, &[0]).err().unwrap().fault, Fault::ZeroDimension { .. }));
    let mlx = DType::mlx(4, 64, DType::F16).unwrap();
    assert!(matches!(w.tensor("u", mlx, &[64]).err().unwrap().fault, Fault::UnknownFormat { .. }));
    w.set("general.alignment", 3u32).unwrap();
    assert!(matches!(w.begin().err().unwrap().fault, Fault::WrongType { .. }));
}

#[test]
fn existing_files_are_replaced_only_when_asked() {
    let dir = TempDir::new();
    let path = dir.write("a.gguf", b"precious");
    assert!(matches!(Writer::create(&path, false).err().unwrap().fault, Fault::Exists));
    Writer::create(&path, true).unwrap().begin().unwrap().finish().unwrap();
    assert_eq!(ModelFile::open(&path).unwrap().tensors().len(), 0);

    // Taken while we were writing.
    let path = dir.join("b.gguf");
    let data = Writer::create(&path, false).unwrap().begin().unwrap();
    dir.write("b.gguf", b"precious");
    assert!(matches!(data.finish().err().unwrap().fault, Fault::Exists));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert!(matches!(Writer::create(dir.path(), true).err().unwrap().fault, Fault::Write(_)));
    assert!(matches!(Writer::create(&dir.join("no/such/dir"), true).err().unwrap().fault, Fault::Write(_)));
}

#[test]
fn safetensors_read_back() {
    let dir = TempDir::new();
    let path = dir.join("out.safetensors");
    let logits: Vec<u8> = [1.5f32, -2.0, 0.25].iter().flat_map(|v| v.to_le_bytes()).collect();
    let ids = [7, 0, 0, 0];
    for _ in 0..2 {
        let tensors = [("logits", DType::F32, &[1, 3][..], &logits[..]), ("ids", DType::I32, &[], &ids)];
        safetensors::write(&path, &tensors).unwrap();
    }
    let file = safetensors::File::open(&path).unwrap();
    let entry = file.entry("logits").unwrap();
    assert_eq!((entry.dtype, &entry.shape[..], file.data(entry)), (DType::F32, &[1, 3][..], &logits[..]));
    assert_eq!(file.data(file.entry("ids").unwrap()), ids);
    assert_eq!(entry.offset % 8, 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

    let fault = |tensors: &[(&str, DType, &[usize], &[u8])]| {
        safetensors::write(&dir.join("bad.safetensors"), tensors).unwrap_err().fault
    };
    assert!(matches!(fault(&[("a", DType::F32, &[2], &ids)]), Fault::Size { .. }));
    assert!(matches!(fault(&[("a", DType::F32, &[1], &ids), ("a", DType::F32, &[1], &ids)]), Fault::Duplicate { .. }));
    assert!(matches!(fault(&[("a", DType::Q4_0, &[32], &[0; 18])]), Fault::UnknownFormat { .. }));
    assert!(!dir.join("bad.safetensors").exists());
}
