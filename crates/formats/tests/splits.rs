//! Models split over GGUF files: opened by their first part, and checked against what the parts say of themselves.

mod support;

use std::path::PathBuf;

use akunu_dtype::DType;
use akunu_formats::gguf::Writer;
use akunu_testkit::TempDir;
use support::{message, open, read_everything};

/// Writes part `no` (from 0) of `count` with one tensor `t{tensor}` of four values.
fn part(dir: &TempDir, name: &str, no: u16, count: u16, tensor: u32, total: i32) -> PathBuf {
    let path = dir.join(name);
    let mut writer = Writer::create(&path, true).unwrap();
    writer.set("split.no", no).unwrap().set("split.count", count).unwrap().set("split.tensors.count", total).unwrap();
    writer.tensor(&format!("t{tensor}"), DType::F32, &[4]).unwrap();
    let mut data = writer.begin().unwrap();
    data.write_tensor(&[tensor as u8; 16]).unwrap();
    data.finish().unwrap();
    path
}

fn three() -> (TempDir, PathBuf) {
    let dir = TempDir::new();
    let first = part(&dir, "m-00001-of-00003.gguf", 0, 3, 0, 3);
    part(&dir, "m-00002-of-00003.gguf", 1, 3, 1, 3);
    part(&dir, "m-00003-of-00003.gguf", 2, 3, 2, 3);
    (dir, first)
}

#[test]
fn the_first_part_opens_all() {
    let (_dir, first) = three();
    let file = open(&first).unwrap();
    assert_eq!((file.files(), file.tensors().len()), (3, 3));
    for i in 0..3u8 {
        assert_eq!(file.planes(file.tensor(&format!("t{i}")).unwrap()).data, [i; 16]);
    }
    read_everything(&file);
}

#[test]
fn one_part_of_one_is_a_whole_file() {
    let dir = TempDir::new();
    let path = part(&dir, "any.gguf", 0, 1, 0, 1);
    assert_eq!(open(&path).unwrap().tensors().len(), 1);
}

#[test]
fn parts_that_do_not_fit_together() {
    let (dir, first) = three();
    assert!(
        message(&dir.join("m-00002-of-00003.gguf"))
            .contains("is part 2 of 3: open the first part, \"m-00001-of-00003.gguf\"")
    );

    std::fs::remove_file(dir.join("m-00003-of-00003.gguf")).unwrap();
    let error = open(&first).unwrap_err().to_string();
    assert!(error.contains("m-00003-of-00003.gguf: cannot be opened"), "{error}");

    for (no, count, expected) in [(1, 3, "part 2 of 3, but part 3 of 3"), (2, 4, "part 3 of 4, but part 3 of 3")] {
        part(&dir, "m-00003-of-00003.gguf", no, count, 2, 3);
        let error = open(&first).unwrap_err().to_string();
        assert!(error.contains("m-00003-of-00003.gguf: says it is ") && error.contains(expected), "{error}");
    }

    part(&dir, "m-00003-of-00003.gguf", 2, 3, 1, 3);
    assert!(message(&first).contains("tensor \"t1\" appears twice"));

    dir.write("m-00003-of-00003.gguf", b"hello, this is text");
    assert!(open(&first).unwrap_err().to_string().contains("m-00003-of-00003.gguf: is neither"));

    let (dir, _) = three();
    let first = part(&dir, "m-00001-of-00003.gguf", 0, 3, 0, 4);
    assert!(message(&first).contains("declares 4 tensors over all parts, but they have 3"));
    let renamed = part(&dir, "renamed.gguf", 0, 3, 0, 3);
    assert!(message(&renamed).contains("the name of the first part must be NAME-00001-of-000NN.gguf"));
    let wrong_count = part(&dir, "m-00001-of-00002.gguf", 0, 3, 0, 3);
    assert!(message(&wrong_count).contains("the name of the first part must be"));
}

#[test]
fn counts_beyond_reason() {
    let dir = TempDir::new();
    let path = dir.join("m.gguf");
    for no in [0, 1, u64::MAX] {
        let mut writer = Writer::create(&path, true).unwrap();
        writer.set("split.count", u64::MAX).unwrap().set("split.no", no).unwrap();
        writer.begin().unwrap().finish().unwrap();
        message(&path);
    }
}
