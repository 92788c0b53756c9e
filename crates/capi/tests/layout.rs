//! Structs lie in memory as C has them, without padding, and their first versions stay.

use akunu_c::*;
use akunu_testkit::TempDir;
use akunu_testkit::fixtures::{Source, needed};
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// `sizeof` and `offsetof` of a struct as C says them, from Rust; that there are no more fields the compiler checks.
macro_rules! layout {
    ($lines:ident, $($name:ident { $($field:ident),+ })+) => {
        $({
            let mut fields = 0;
            $(
                let of = |thing: &$name| size_of_val(&thing.$field);
                // SAFETY: zero is a value of numbers, pointers and arrays of them, and nothing looks at it.
                fields += of(&unsafe { std::mem::zeroed::<$name>() });
                $lines.push((format!("offsetof({}, {})", stringify!($name), stringify!($field)), offset_of!($name, $field)));
            )+
            assert_eq!(fields, size_of::<$name>(), "{} has padding", stringify!($name));
            $lines.push((format!("sizeof({})", stringify!($name)), size_of::<$name>()));
            #[allow(dead_code)]
            fn all_fields($name { $($field: _),+ }: $name) {}
        })+
    };
}

fn lines() -> Vec<(String, usize)> {
    let mut lines = Vec::new();
    layout! { lines,
        akunu_load_options { size, threads, context, sequences, extra_positions, chunk, kv_type, flags, memory, device, level, progress, user_data }
    }
    layout! { lines,
        akunu_generate_options {
            size, flags, seed, max_tokens, keep, temperature, top_k, top_p, min_p, typical_p, top_n_sigma, xtc_probability,
            xtc_threshold, dynamic_temperature, dynamic_exponent, mirostat_tau, mirostat_eta, repeat_penalty, frequency_penalty,
            presence_penalty, repeat_last, dry_multiplier, dry_base, dry_allowed_length, dry_last, logprobs, reserved, stop,
            stop_count, stop_tokens, stop_token_count, logit_bias, logit_bias_count, grammar, draft
        }
    }
    layout! { lines, akunu_service_options { size, sequences, cache, max_gap_ms } }
    layout! { lines, akunu_transcribe_options { size, flags, language, prompt, beams, reserved } }
    layout! { lines,
        akunu_model_info {
            size, purpose, parameters, bytes, context, trained_context, width, layers, vocab, bos_token, eos_token,
            has_chat_template, architecture, format
        }
    }
    layout! { lines, akunu_memory { size, context, longest_context, fits, weights, kv, scratch, available } }
    layout! { lines, akunu_device_info { size, available, threads, reserved, free_memory, name, description, level } }
    layout! { lines,
        akunu_result {
            size, finish, stop_index, prompt_tokens, reused_tokens, generated_tokens, first_token_seconds, seconds
        }
    }
    layout! { lines,
        akunu_service_info {
            size, running, waiting, reserved, submitted, finished, cancelled, failed, steps, generated_tokens
        }
    }
    layout! { lines, akunu_embedder_info { size, width, context, pooling } }
    layout! { lines, akunu_piece { size, token, text, length, top, top_count, logprob, reserved } }
    layout! { lines, akunu_segment { size, no_speech, start, end, text, length, words, word_count } }
    layout! { lines, akunu_word { start, end, text, probability } }
    layout! { lines, akunu_message { role, content } }
    layout! { lines, akunu_logprob { token, logprob } }
    layout! { lines, akunu_logit_bias { token, bias } }
    layout! { lines, akunu_model { id } }
    lines
}

#[test]
fn c_and_rust_have_the_same_structs() {
    let lines = lines();
    let there = Command::new("cc").arg("--version").output().is_ok();
    if needed(there.then_some(()), Source::Fetched, "cc").is_none() {
        return;
    }
    let dir = TempDir::new();
    let check = |(what, value): &(String, usize)| {
        let id = what.replace(['(', ')', ',', ' '], "_");
        format!("typedef char same_{id}[{what} == {value} ? 1 : -1];\n")
    };
    let checks: String = lines.iter().map(check).collect();
    let source = dir.write("layout.c", format!("#include <akunu/akunu.h>\n{checks}").as_bytes());
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let compiled =
        Command::new("cc").args(["-std=c99", "-fsyntax-only", "-I"]).arg(include).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
