//! How kernels declare their arguments: rules of Metal that neither the emulator nor clang knows.

use akunu_metal::shaders;

/// Positions and sizes in the grid: a kernel declares all of them as scalars, or all as vectors of one size.
const OF_THE_GRID: [&str; 9] = [
    "dispatch_threads_per_threadgroup",
    "grid_origin",
    "grid_size",
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
];

/// Numbers in a SIMD group or a threadgroup: always scalars.
const SCALARS: [&str; 7] = [
    "dispatch_simdgroups_per_threadgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "thread_execution_width",
    "thread_index_in_simdgroup",
    "thread_index_in_threadgroup",
    "threads_per_simdgroup",
];

/// A kernel's name and its parameters.
struct Kernel<'s> {
    name: &'s str,
    parameters: Vec<&'s str>,
}

impl Kernel<'_> {
    /// What is wrong with it.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut widths = Vec::new();
        let mut bound = Vec::new();
        for parameter in &self.parameters {
            let name = self.name;
            let attribute = parameter.split_once("[[").map_or("", |(_, rest)| rest.split("]]").next().unwrap_or(""));
            let attribute = attribute.trim();
            let kind = parameter.split_whitespace().find(|word| *word != "const").unwrap_or_default();
            let width = kind.strip_prefix("uint").or_else(|| kind.strip_prefix("ushort"));
            if OF_THE_GRID.contains(&attribute) {
                match width {
                    Some("" | "2" | "3") => widths.push(width),
                    _ => faults.push(format!("{name}: {attribute} is {kind}")),
                }
            } else if SCALARS.contains(&attribute) {
                if width != Some("") {
                    faults.push(format!("{name}: {attribute} is {kind}"));
                }
            } else if parameter.contains(['*', '&']) {
                if !["device ", "constant ", "threadgroup "].iter().any(|space| parameter.contains(space)) {
                    faults.push(format!("{name}: no address space of {parameter}"));
                }
                if bound.contains(&attribute) || !attribute.contains('(') {
                    faults.push(format!("{name}: the place of {parameter}"));
                }
                bound.push(attribute);
            } else {
                faults.push(format!("{name}: {parameter}"));
            }
        }
        if widths.windows(2).any(|pair| pair[0] != pair[1]) {
            faults.push(format!("{}: positions in the grid are scalars and vectors", self.name));
        }
        faults
    }
}

fn kernels(text: &str) -> Vec<Kernel<'_>> {
    let parameters = |declared: &str| -> Option<usize> {
        let mut depth = 0;
        declared.char_indices().find_map(|(at, c)| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            (depth < 0).then_some(at)
        })
    };
    let declared = text.split("kernel void ").skip(1);
    let kernel = |declared| {
        let (name, rest): (&str, &str) = str::split_once(declared, '(')?;
        // Commas inside of `<>` are of templates, which no parameter has.
        let list = &rest[..parameters(rest)?];
        Some(Kernel { name, parameters: list.split(',').map(str::trim).filter(|p| !p.is_empty()).collect() })
    };
    declared.filter_map(kernel).collect()
}

/// Threadgroup memory that is declared outside of kernels: only they may.
fn misplaced_memory(text: &str) -> Vec<&str> {
    let mut in_kernel = false;
    let mut misplaced = Vec::new();
    for line in text.lines() {
        if line.starts_with(char::is_alphabetic) && line.contains('(') && !line.starts_with("INSTANTIATE") {
            in_kernel = line.contains("kernel ");
        }
        let words = line.trim();
        if words.starts_with("threadgroup ") && words.ends_with("];") && !in_kernel {
            misplaced.push(words);
        }
    }
    misplaced
}

#[test]
fn kernels_are_declared_as_metal_wants_them() {
    let mut faults = Vec::new();
    for (path, text) in shaders::all() {
        faults.extend(kernels(text).iter().flat_map(Kernel::faults).map(|fault| format!("{path}: {fault}")));
        faults.extend(misplaced_memory(text).into_iter().map(|line| format!("{path}: not in a kernel: {line}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_metal_would_refuse_is_found() {
    let right = "kernel void a(device float *x [[buffer(0)]], constant P &p [[buffer(3)]],\n  uint3 at \
                 [[threadgroup_position_in_grid]], uint3 n [[threads_per_threadgroup]], uint lane \
                 [[thread_index_in_simdgroup]]) {";
    assert_eq!(kernels(right).iter().flat_map(Kernel::faults).count(), 0);
    for (from, to) in [
        ("uint3 n", "uint n"),
        ("uint lane", "uint3 lane"),
        ("device float", "float"),
        ("buffer(3)", "buffer(0)"),
        ("uint3 at", "int3 at"),
        (" [[buffer(3)]]", ""),
    ] {
        let wrong = right.replace(from, to);
        assert_eq!(kernels(&wrong).iter().flat_map(Kernel::faults).count(), 1, "{wrong}");
    }
    assert_eq!(misplaced_memory("kernel void a() {\n    threadgroup float s[3];\n}\n").len(), 0);
    assert_eq!(misplaced_memory("inline void a() {\n    threadgroup float s[3];\n}\n").len(), 1);
}
