//! Kernels as Apple's compiler has compiled them: LLVM bitcode in a Metal library, made into objects for this machine. LLVM's own
//! tools read it; what it calls of Metal's (`air.…`) is in `cpp/air.cpp`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// What the wrappers need.
pub const HEADER: &str = "#include <metal_stdlib>\n\
    typedef unsigned Three __attribute__((vector_size(16)));\n\
    static Three three(emulator::Size s) { return Three{s.x, s.y, s.z, 0}; }\n";

/// Reads the bitcode of a library's function.
pub fn bitcode<'l>(library: &'l [u8], function: &str) -> Option<&'l [u8]> {
    let at = |offset: usize, bytes: usize| library.get(offset..offset.checked_add(bytes)?);
    let number = |offset: usize, bytes: usize| {
        at(offset, bytes)?
            .iter()
            .rev()
            .try_fold(0_usize, |all, byte| all.checked_mul(256)?.checked_add(usize::from(*byte)))
    };
    if at(0, 4)? != b"MTLB" {
        return None;
    }
    // After the header: where the list of functions is, and after two more sections the bitcode.
    let (list, all_bitcode) = (number(24, 8)?, number(72, 8)?);
    let mut entry = list + 4;
    for _ in 0..number(list, 4)? {
        let (mut tag, mut name, mut place, mut size) = (entry + 4, &b""[..], 0, 0);
        while at(tag, 4)? != b"ENDT" {
            let length = number(tag + 4, 2)?;
            match at(tag, 4)? {
                b"NAME" => name = at(tag + 6, length)?,
                // Third of three offsets, into three sections.
                b"OFFT" => place = number(tag + 22, 8)?,
                b"MDSZ" => size = number(tag + 6, length)?,
                _ => {}
            }
            tag += 6 + length;
        }
        if name.strip_suffix(b"\0") == Some(function.as_bytes()) {
            return at(all_bitcode + place, size);
        }
        entry += number(entry, 4)?;
    }
    None
}

/// An object of a library's function as the kernel `name`, and C++ that runs it with what the emulator has.
pub fn compile(bitcode: &[u8], function: &str, name: &str, folder: &Path) -> Result<String, String> {
    let path = |ending: &str| folder.join(format!("{name}.{ending}"));
    let write = |ending: &str, what: &[u8]| fs::write(path(ending), what).map_err(|why| format!("{name}: {why}"));
    write("bc", bitcode)?;
    tool("llvm-dis", &[path("bc").as_os_str(), "-o".as_ref(), path("read").as_os_str()])?;
    let read = fs::read_to_string(path("read")).map_err(|why| format!("{name}: {why}"))?;
    let wrapper =
        wrapper(&read, function, name).ok_or_else(|| format!("{function}: its metadata are not understood"))?;
    write("ll", plain(&read, name).as_bytes())?;
    let target = format!("-mtriple={}", env::var("TARGET").unwrap_or_default());
    let options = ["-O1", "-filetype=obj", "-relocation-model=pic", &target, "-o"].map(AsRef::as_ref);
    tool("llc", &[&options[..], &[path("o").as_os_str(), path("ll").as_os_str()]].concat())?;
    Ok(wrapper)
}

fn tool(name: &str, arguments: &[&std::ffi::OsStr]) -> Result<(), String> {
    let done = Command::new(name).args(arguments).output().map_err(|why| format!("{name}: {why}"))?;
    let said = || format!("{name}: {}", String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default());
    if done.status.success() { Ok(()) } else { Err(said()) }
}

/// What stands in a line after `before`, up to `after`.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// The module for any machine: function constants can be set, what sets up from them can be called, and matrices have their two
/// elements of each lane only.
fn plain(module: &str, name: &str) -> String {
    let mut out = String::new();
    for line in module.lines() {
        if line.starts_with("target ") || line.starts_with("@llvm.global_ctors") {
            continue;
        }
        match line.split_once(" = ") {
            Some((constant, rest)) if line.starts_with('@') && constant.contains(".MTL_FC_INIT_") => {
                let kind = between(rest, " constant ", " ").unwrap_or("i8");
                let _ = writeln!(out, "{constant} = external addrspace(2) global {kind}");
            }
            _ if line.contains(" section \"air.static_init\"") => {
                let _ = writeln!(out, "define void @{name}.setup() {{");
            }
            _ if line.starts_with("declare ") && line.contains(" @air.simdgroup_matrix_8x8_") => out += &matrix(line),
            _ => {
                out += line;
                out.push('\n');
            }
        }
    }
    let constants = |line: &&str| line.starts_with('@') && line.contains(".MTL_FC_INIT_");
    for constant in module.lines().filter(constants).filter_map(|line| between(line, "@", " = ")) {
        // Every kernel has its own.
        out = out.replace(&format!("@{constant}"), &format!("@{name}.{constant}"));
    }
    out + MATRICES
}

/// A function of matrices, which are vectors of 64 elements, by one of the emulator's that takes a lane's two.
fn matrix(declared: &str) -> String {
    let name = between(declared, "@", "(").unwrap_or_default();
    let two =
        |of: &str| format!("%{of}2 = shufflevector <64 x float> %{of}, <64 x float> undef, <2 x i32> <i32 0, i32 1>\n");
    let all = "i32 undef, ".repeat(61);
    let all =
        format!("%d = shufflevector <2 x float> %d2, <2 x float> undef, <64 x i32> <i32 0, i32 1, {all}i32 undef>\n");
    // The pointer's type, as this version of LLVM writes it.
    let arguments = declared.split_once(name).map_or("", |(_, rest)| rest.trim_start_matches('('));
    let pointer = arguments.split(", ").find(|part| part.contains("addrspace(1)")).unwrap_or_default();
    let pointer = pointer.split(" nocapture").next().unwrap_or_default();
    let place = format!(
        "%p = ptrtoint {pointer} %at to i64\n%x = extractelement <2 x i64> %origin, i32 0\n\
         %y = extractelement <2 x i64> %origin, i32 1\n%t = zext i1 %transposed to i32\n"
    );
    let given = "i64 %p, i64 %stride, i64 %x, i64 %y, i32 %t";
    let (result, arguments, body) = if name.contains("_multiply_accumulate") {
        let call = "%d2 = call <2 x float> @emulator_air_multiply(<2 x float> %a2, <2 x float> %b2, <2 x float> %c2)\n";
        let arguments = "<64 x float> %a, <64 x float> %b, <64 x float> %c".to_owned();
        ("<64 x float>", arguments, [&two("a"), &two("b"), &two("c"), call, &all, "ret <64 x float> %d\n"].concat())
    } else if name.contains("_init_filled") {
        let first = "%d1 = insertelement <2 x float> undef, float %x, i32 0\n".to_owned();
        let both = "%d2 = insertelement <2 x float> %d1, float %x, i32 1\n";
        ("<64 x float>", "float %x".to_owned(), first + both + &all + "ret <64 x float> %d\n")
    } else if name.contains("_load") {
        let call = format!("%d2 = call <2 x float> @emulator_air_load({given})\n");
        let arguments = format!("{pointer} %at, i64 %stride, <2 x i64> %origin, i1 %transposed");
        ("<64 x float>", arguments, place + &call + &all + "ret <64 x float> %d\n")
    } else {
        let call = format!("call void @emulator_air_store(<2 x float> %m2, {given})\n");
        let arguments = format!("<64 x float> %m, {pointer} %at, i64 %stride, <2 x i64> %origin, i1 %transposed");
        ("void", arguments, two("m") + &place + &call + "ret void\n")
    };
    format!("define internal {result} @{name}({arguments}) {{\n{body}}}\n")
}

/// The emulator's functions of matrices.
const MATRICES: &str = "declare <2 x float> @emulator_air_multiply(<2 x float>, <2 x float>, <2 x float>)\n\
    declare <2 x float> @emulator_air_load(i64, i64, i64, i64, i32)\n\
    declare void @emulator_air_store(<2 x float>, i64, i64, i64, i64, i32)\n";

/// C++ that calls the function as its metadata say.
fn wrapper(module: &str, function: &str, name: &str) -> Option<String> {
    let node = |number: &str| module.lines().find_map(|line| line.strip_prefix(&format!("!{number} = ")));
    let kernel = node(between(module, "!air.kernel = !{!", "}")?)?;
    let mut lists = kernel
        .split("!")
        .filter_map(|part| part.split([',', '}', ' ']).next())
        .filter(|part| part.parse::<u32>().is_ok());
    let arguments = node(lists.nth(1)?)?;
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for argument in arguments.trim_start_matches("!{!").trim_end_matches('}').split(", !") {
        let text = node(argument)?;
        let attribute = text.split("!\"air.").skip(1).find(|part| !part.starts_with("function_constant\""))?;
        let attribute = attribute.split('"').next()?;
        let kind = between(text, "!\"air.arg_type_name\", !\"", "\"")?;
        let (kind, value) = match (attribute, kind) {
            ("buffer", _) => {
                let number = between(text, "!\"air.location_index\", i32 ", ",")?;
                ("void *".to_owned(), format!("emulator::buffer({number})"))
            }
            (_, "uint" | "ushort") => (kind.to_owned(), format!("emulator_argument<{kind}>(emulator_{attribute}())")),
            (_, "uint3") => ("Three".to_owned(), format!("three(emulator_{attribute}())")),
            _ => return None,
        };
        types.push(kind);
        values.push(value);
    }
    let mut out = format!("extern \"C\" void air_{name}({}) __asm__(\"{function}\");\n", types.join(", "));
    let mut setup = String::new();
    for constant in module.lines().filter(|line| line.starts_with('@')).filter_map(|line| between(line, "@", " = ")) {
        let Some((_, number)) = constant.split_once(".MTL_FC_INIT_") else { continue };
        let (number, kind) = number.split_once('_')?;
        let kind = match kind {
            "b" => "bool",
            "i" => "int",
            _ => return None,
        };
        let _ = writeln!(out, "extern \"C\" {{ {kind} air_{name}_{number} __asm__(\"{name}.{constant}\") = 0; }}");
        let _ = write!(setup, "air_{name}_{number} = {kind}(emulator::value_of({number})); ");
    }
    if !setup.is_empty() {
        let _ = writeln!(out, "extern \"C\" void air_{name}_setup() __asm__(\"{name}.setup\");");
        let _ = write!(setup, "air_{name}_setup(); ");
    }
    let _ = writeln!(
        out,
        "EMULATOR_UNWATCHED static void run_{name}() {{ {setup}air_{name}({}); }}\n\
         static emulator::Register register_{name}(\"{name}\", run_{name});",
        values.join(", ")
    );
    Some(out)
}
