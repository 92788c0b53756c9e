//! Sources of shaders, made whole: what they include, and a line for every instantiation. Also compiled into the emulator's build
//! script, so that both compilers get the same.

/// The line before instantiations for formats; they end with the next `#line`.
pub const OF_FORMATS: &str = "// of every format";

/// Reads a source by its path below `shaders`.
pub type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A source with all that it includes, each once, and `INSTANTIATE_FORMATS` lines written out for these formats.
pub fn whole(path: &str, formats: &[(&str, &str)], read: Read<'_>) -> Result<String, String> {
    let mut seen = Vec::new();
    let mut out = String::new();
    add(path, formats, read, &mut seen, &mut out)?;
    Ok(out)
}

fn add(
    path: &str,
    formats: &[(&str, &str)],
    read: Read<'_>,
    seen: &mut Vec<String>,
    out: &mut String,
) -> Result<(), String> {
    if seen.iter().any(|s| s == path) {
        return Ok(());
    }
    seen.push(path.to_owned());
    let text = read(path).ok_or_else(|| format!("{path}: there is no such shader"))?;
    *out += &format!("#line 1 \"{path}\"\n");
    for (number, line) in text.lines().enumerate() {
        let words = line.trim();
        if words == "#pragma once" {
            out.push('\n');
        } else if let Some(included) = words.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            add(included, formats, read, seen, out)?;
            *out += &format!("#line {} \"{path}\"\n", number + 2);
        } else if let Some(list) = words.strip_prefix("INSTANTIATE_FORMATS(") {
            let list = list.trim_end_matches(';').trim_end_matches(')');
            instantiate(list, formats, out).ok_or_else(|| format!("{path}:{}: {words}", number + 1))?;
            *out += &format!("#line {} \"{path}\"\n", number + 2);
        } else {
            *out += line;
            out.push('\n');
        }
    }
    Ok(())
}

/// `gemv, gemv_body, 4`: a kernel `gemv_FORMAT` of `gemv_body<Format, 4>` for every format. A `*` in the name is where the format
/// goes instead of its end.
fn instantiate(list: &str, formats: &[(&str, &str)], out: &mut String) -> Option<()> {
    let mut parts = list.splitn(3, ',').map(str::trim);
    let (name, function, more) = (parts.next()?, parts.next()?, parts.next());
    *out += OF_FORMATS;
    out.push('\n');
    for (suffix, format) in formats {
        let name = if name.contains('*') { name.replace('*', suffix) } else { format!("{name}_{suffix}") };
        let more = more.map_or(String::new(), |more| format!(", {more}"));
        *out += &format!("INSTANTIATE({name}, {function}, {format}{more})\n");
    }
    Some(())
}
