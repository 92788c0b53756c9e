//! HF and MLX directories that must not open: indexes, shards, configurations and quantized triples that are wrong.

mod support;

use akunu_testkit::TempDir;
use support::*;

const INDEX: &str = "model.safetensors.index.json";

/// A shard with one tensor of two bytes.
fn shard(tensor: &str) -> Vec<u8> {
    safetensors(format!(r#"{{"{tensor}":{{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}}}"#), 2)
}

fn sharded(index: &str) -> TempDir {
    let dir = TempDir::new();
    dir.write("config.json", b"{}");
    dir.write("s1.safetensors", &shard("a"));
    dir.write("s2.safetensors", &shard("b"));
    dir.write(INDEX, index.as_bytes());
    dir
}

#[test]
fn a_sound_index_opens_its_shards() {
    let dir =
        sharded(r#"{"metadata":{"total_size":4,"x":[1,{}]},"weight_map":{"b":"s2.safetensors","a":"s1.safetensors"}}"#);
    let file = open(dir.path()).unwrap();
    assert_eq!(file.files(), 2);
    assert_eq!(file.tensors().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    read_everything(&file);
}

#[test]
fn indexes() {
    let mut failures = Vec::new();
    for (map, expected) in [
        (r#"{"a":"../s1.safetensors"}"#, "a shard in weight_map must be a plain file name"),
        (r#"{"a":"/etc/passwd"}"#, "must be a plain file name, but is \"/etc/passwd\""),
        (r#"{"a":"./s1.safetensors"}"#, "must be a plain file name"),
        (r#"{"a":"sub/s1.safetensors"}"#, "must be a plain file name"),
        (r#"{"a":"s1.safetensors/"}"#, "must be a plain file name"),
        (r#"{"a":"..\\s1.safetensors"}"#, "must be a plain file name"),
        (r#"{"a":"c:s1.safetensors"}"#, "must be a plain file name"),
        (r#"{"a":".."}"#, "must be a plain file name"),
        (r#"{"a":"."}"#, "must be a plain file name"),
        (r#"{"a":""}"#, "must be a plain file name"),
        (r#"{"a":"s1\u0000"}"#, "must be a plain file name"),
        (r#"{"a":"s3.safetensors"}"#, "s3.safetensors: cannot be opened: No such file"),
        (r#"{"a":"config.json"}"#, "config.json: the header's length needs 8 bytes"),
        (r#"{"a":"s1.safetensors","b":"s1.safetensors"}"#, "tensor \"b\" is listed in \"s1.safetensors\", but is not"),
        (r#"{"a":"s1.safetensors","a":"s1.safetensors"}"#, "tensor \"a\" appears twice"),
        (r#"{"a":1}"#, "invalid type: integer"),
        (r#"{"a":null}"#, "invalid type: null"),
        (r#"[]"#, "weight_map"),
        (r#"{}"#, "weight_map is missing or empty"),
        (r#"{"a":"s1.safetensors""#, "EOF while parsing"),
    ] {
        let message = message(sharded(&format!(r#"{{"weight_map":{map}}}"#)).path());
        if !message.contains(expected) {
            failures.push(format!("expected {expected:?} in {message:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(message(sharded("{}").path()).contains("weight_map is missing or empty"));
    assert!(message(sharded("[").path()).contains("is not valid"));
    assert!(message(sharded("").path()).contains("is empty"));
}

#[test]
fn the_same_tensor_in_two_shards() {
    let dir = sharded(r#"{"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}}"#);
    let both = r#"{"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}"#;
    dir.write("s2.safetensors", &safetensors(both, 4));
    assert!(message(dir.path()).contains("s2.safetensors: tensor \"a\" appears twice"));
}

#[test]
fn configurations() {
    let deep = "[".repeat(1_000_000);
    let maps = format!("[{}0]", r#"{"":0},"#.repeat(500_000));
    let numbers = format!("[{}0]", "0,".repeat(1_000_000));
    let long = format!("\"{}\"", " ".repeat(5_000_000));
    for (config, expected) in [
        ("", "is not valid: EOF"),
        ("{", "is not valid: EOF"),
        ("{} {}", "is not valid: trailing characters"),
        ("{\"a\":\"\\ud800\"}", "is not valid"),
        (&deep, "the number of JSON values is 1000001, over the limit"),
        (&deep[..10_000], "recursion limit exceeded"),
        (&maps, "the number of JSON values is 1000002, over the limit"),
        (&numbers, "over the limit config-values of 60000"),
        (&long, "the file's length is 5000002, over the limit config-bytes of 4194304"),
    ] {
        let dir = TempDir::new();
        dir.write("model.safetensors", &safetensors(SAFETENSORS, SAFETENSORS_DATA));
        dir.write("config.json", config.as_bytes());
        let message = message(dir.path());
        assert!(
            message.contains("config.json: ") && message.contains(expected),
            "expected {expected:?} in {message:?}"
        );
    }
}

/// What may be wrong with a triple.
struct Triple {
    quantization: &'static str,
    words: (&'static str, &'static str),
    scales: Option<(&'static str, &'static str)>,
    biases: Option<(&'static str, &'static str)>,
}

impl Default for Triple {
    /// `[2, 64]` at 4 bits in groups of 32.
    fn default() -> Self {
        let side = Some(("F16", "[2,2]"));
        let quantization = r#"{"quantization":{"group_size":32,"bits":4}}"#;
        Self { quantization, words: ("U32", "[2,8]"), scales: side, biases: side }
    }
}

impl Triple {
    fn write(&self) -> TempDir {
        let (mut header, mut end) = (Vec::new(), 0);
        let parts = [("weight", Some(self.words)), ("scales", self.scales), ("biases", self.biases)];
        for (name, part) in parts {
            let Some((dtype, shape)) = part else { continue };
            let bytes = akunu_dtype::DType::from_safetensors(dtype).unwrap().format().bytes;
            let dims = shape.trim_matches(['[', ']']).split(',').map(|d| d.parse::<usize>().unwrap());
            let start = end;
            end += bytes * dims.product::<usize>();
            header
                .push(format!(r#""m.x.{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#));
        }
        let dir = TempDir::new();
        dir.write("config.json", self.quantization.as_bytes());
        dir.write("model.safetensors", &safetensors(format!("{{{}}}", header.join(",")), end));
        dir
    }
}

#[test]
fn sound_triples_open_as_one_tensor() {
    let side3 = Some(("BF16", "[3,2,2]"));
    for (triple, shape, name) in [
        (Triple::default(), &[2, 64][..], "MLX4_G32_F16"),
        (
            Triple { words: ("U32", "[3,2,8]"), scales: side3, biases: side3, ..Triple::default() },
            &[3, 2, 64],
            "MLX4_G32_BF16",
        ),
        (
            Triple {
                quantization: r#"{"quantization_config":{"group_size":64,"bits":2,"mode":"affine","m.x":{"group_size":32,"bits":4}}}"#,
                ..Triple::default()
            },
            &[2, 64],
            "MLX4_G32_F16",
        ),
        (
            Triple {
                quantization: r#"{"quantization":{"group_size":32,"bits":4,"m.x":true,"m.y":false}}"#,
                ..Triple::default()
            },
            &[2, 64],
            "MLX4_G32_F16",
        ),
    ] {
        let dir = triple.write();
        let file = open(dir.path()).unwrap();
        let [tensor] = file.tensors() else { panic!("{:?}", file.tensors()) };
        assert_eq!(
            (tensor.name.as_str(), &tensor.shape[..], tensor.dtype.to_string().as_str()),
            ("m.x.weight", shape, name)
        );
        read_everything(&file);
    }
}

#[test]
fn triples() {
    let base = Triple::default;
    let f16 = |shape| Some(("F16", shape));
    let rows = [
        (Triple { scales: None, biases: None, ..base() }, "tensor \"m.x.weight\" has packed words, but no scales"),
        (Triple { biases: None, ..base() }, "has packed words and scales, but no biases"),
        (Triple { biases: Some(("BF16", "[2,2]")), ..base() }, "has scales in F16, but biases in BF16"),
        (Triple { biases: f16("[2,4]"), ..base() }, "has scales of shape [2, 2], but biases of shape [2, 4]"),
        (
            Triple { scales: f16("[3,2]"), biases: f16("[3,2]"), ..base() },
            "words of shape [2, 8] and scales of shape [3, 2]",
        ),
        (Triple { scales: f16("[2,3]"), biases: f16("[2,3]"), ..base() }, "which do not make 4 bits in groups of 32"),
        (Triple { scales: f16("[2]"), biases: f16("[2]"), ..base() }, "which do not make"),
        (Triple { words: ("U32", "[8]"), scales: f16("[2]"), biases: f16("[2]"), ..base() }, "which do not make"),
        (Triple { scales: Some(("I32", "[2,2]")), biases: Some(("I32", "[2,2]")), ..base() }, "number format 4 bits"),
    ];
    for (triple, expected) in rows {
        let message = message(triple.write().path());
        assert!(message.contains(expected), "expected {expected:?} in {message:?}");
    }
}

#[test]
fn quantizations() {
    for (quantization, expected) in [
        ("{}", "config.json does not say how they are quantized"),
        ("null", "config.json does not say how they are quantized"),
        (r#"{"quantization":null}"#, "config.json does not say how"),
        (r#"{"quantization":{"group_size":32,"bits":4,"m.x":false}}"#, "config.json does not say how"),
        (r#"{"quantization":4}"#, "bits of \"quantization\" must be a positive integer, but is absent"),
        (r#"{"quantization":{"bits":4}}"#, "group_size of \"quantization\" must be a positive integer, but is absent"),
        (r#"{"quantization":{"group_size":-32,"bits":4}}"#, "must be a positive integer, but is -32"),
        (r#"{"quantization":{"group_size":32,"bits":4.5}}"#, "must be a positive integer, but is 4.5"),
        (r#"{"quantization":{"group_size":32,"bits":0}}"#, "must be a positive integer, but is 0"),
        (r#"{"quantization":{"group_size":32,"bits":7}}"#, "not supported: number format 7 bits in groups of 32"),
        (r#"{"quantization":{"group_size":4294967295,"bits":4294967295}}"#, "not supported: number format"),
        (r#"{"quantization":{"group_size":32,"bits":4,"mode":"mxfp4"}}"#, "not supported: quantization mode \"mxfp4\""),
        (r#"{"quantization":{"group_size":32,"bits":4,"mode":[]}}"#, "mode of \"quantization\" must be a string"),
        (r#"{"quantization":{"group_size":32,"bits":4,"m.x":{"bits":4}}}"#, "group_size of \"m.x\" must be"),
        (r#"{"quantization":{"group_size":32,"bits":4,"m.x":8}}"#, "bits of \"m.x\" must be"),
        (r#"{"quantization_config":{"quant_method":"gptq","bits":4}}"#, "not supported: quantization by \"gptq\""),
    ] {
        let message = message(Triple { quantization, ..Triple::default() }.write().path());
        assert!(message.contains(expected), "expected {expected:?} in {message:?}");
    }
}

/// The most tensors there may be, all sound but the last.
#[test]
fn a_fault_at_the_end_of_a_long_list_costs_little() {
    let dir = TempDir::new();
    dir.write("config.json", b"{}");
    let count = 1 << 17;
    let write = |count: usize| {
        let tensor = |i| format!(r#""t{i}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{}]}},"#, i + 1);
        let packed =
            format!(r#""x.weight":{{"dtype":"U32","shape":[1],"data_offsets":[{},{}]}}"#, count - 1, count + 3);
        let header: String = (0..count - 1).map(tensor).collect();
        dir.write("model.safetensors", &safetensors(format!("{{{header}{packed}}}"), count + 3));
    };
    write(count);
    assert!(message(dir.path()).contains("tensor \"x.weight\" has packed words"));
    write(count + 1);
    assert!(message(dir.path()).contains("the number of tensors is 131073, over the limit tensors of 131072"));
}
