//! The rows of the families: what holds of each, and what sets them apart.

use akunu_arch::descriptor::WindowPattern;
use akunu_arch::weights::{Name, StackedRows};
use akunu_arch::{ArchDescriptor, FAMILIES, Norm, Role};
use std::collections::HashSet;

/// Every stack: the families, and the encoders some look at.
fn stacks() -> impl Iterator<Item = &'static ArchDescriptor> {
    FAMILIES.iter().copied().chain(FAMILIES.iter().filter_map(|d| d.encoder))
}

fn names(groups: &'static [&'static [Name]]) -> impl Iterator<Item = &'static Name> {
    groups.iter().copied().flatten()
}

#[test]
fn a_file_names_at_most_one_family() {
    let (mut gguf, mut hf) = (HashSet::new(), HashSet::new());
    for family in FAMILIES {
        assert!(gguf.insert(family.name), "{} twice", family.name);
        assert!(
            family.gguf_as.is_none_or(|other| other.gguf_as.is_none()),
            "{}: as what another passes as",
            family.name
        );
        assert!(!family.hf.is_empty(), "{} has no name in config.json", family.name);
        for name in family.hf {
            // A name may say nothing of what a row sees; then the configuration does.
            assert!(hf.insert((name, family.causal)), "{name} twice");
        }
    }
}

#[test]
fn a_role_has_one_name_and_a_name_one_role_or_stacked_ones() {
    for stack in stacks() {
        for groups in [stack.gguf_names, stack.hf_names] {
            let (mut roles, mut patterns) = (HashSet::new(), HashSet::new());
            for name in names(groups) {
                assert!(roles.insert(name.role), "{}: {:?} twice", stack.name, name.role);
                assert!(patterns.insert((name.pattern, name.rows as u8)), "{}: {} twice", stack.name, name.pattern);
            }
            for name in names(groups).filter(|n| n.rows == StackedRows::Whole) {
                let stacked = names(groups).any(|n| n.pattern == name.pattern && n.rows != StackedRows::Whole);
                assert!(!stacked, "{}: {} is stacked and whole", stack.name, name.pattern);
            }
        }
    }
}

#[test]
fn every_stack_has_what_no_transformer_does_without() {
    const ALWAYS: &[Role] = &[Role::Q, Role::K, Role::V, Role::AttnOut, Role::Up, Role::Down];
    for stack in stacks() {
        for groups in [stack.gguf_names, stack.hf_names] {
            let required: HashSet<Role> = names(groups).filter(|n| n.required).map(|n| n.role).collect();
            for role in ALWAYS {
                assert!(required.contains(role), "{} may lack {role:?}", stack.name);
            }
            // What it reads: tokens, or frames.
            assert!(required.contains(&Role::TokenEmbedding) != required.contains(&Role::Conv1), "{}", stack.name);
        }
    }
}

#[test]
fn both_kinds_of_file_have_the_same_layers() {
    let mut wrong = Vec::new();
    for stack in stacks() {
        let of = |groups| -> HashSet<Role> {
            names(groups).filter(|n| n.required && n.pattern.contains("{}")).map(|n| n.role).collect()
        };
        let (gguf, hf) = (of(stack.gguf_names), of(stack.hf_names));
        wrong.extend(gguf.symmetric_difference(&hf).map(|role| format!("{}: {role:?}", stack.name)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn biases_of_norms_are_those_of_layer_norms() {
    for stack in stacks() {
        let has_bias = |role| names(stack.hf_names).any(|n| n.role == role && n.required);
        let biased = [Role::AttnNormBias, Role::AttnSumNormBias].into_iter().any(has_bias);
        assert!(!biased || stack.norm == Norm::Layer, "{}: an RMS norm with a bias", stack.name);
    }
}

#[test]
fn window_patterns_say_which_layers_slide() {
    let slides = |pattern: WindowPattern| (0..7).map(|l| pattern.slides(l)).collect::<Vec<_>>();
    assert_eq!(slides(WindowPattern::All), [true; 7]);
    assert_eq!(slides(WindowPattern::ButEvery(3)), [true, true, false, true, true, false, true]);
    assert_eq!(slides(WindowPattern::ButFirstOf(3)), [false, true, true, false, true, true, false]);
}

#[test]
fn heads_that_time_words_are_heads_of_their_model() {
    for family in FAMILIES {
        for timing in family.timing {
            // Whisper's heads are 64 wide.
            let heads = timing.dim / 64;
            assert!(!timing.heads.is_empty());
            for (layer, head) in timing.heads {
                assert!(*layer < timing.layers && *head < heads, "{} {timing:?}", family.name);
            }
        }
    }
}
