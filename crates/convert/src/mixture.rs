//! Mixtures of number formats under the names people know: which tensors of a model get more bits than the rest.
//!
//! A mixture is a base format and rules; the first rule that applies to a tensor wins. They are llama.cpp's, so that
//! a file of a given name has the size and the quality people expect of it.

use akunu_arch::Role;
use akunu_arch::outline::OutTensor;
use akunu_dtype::DType;

/// A named mixture.
#[derive(Debug)]
pub struct Mixture {
    /// What people type.
    pub name: &'static str,
    /// `general.file_type`.
    pub file_type: u32,
    /// The format of matrices that no rule names.
    pub base: DType,
    rules: &'static [Rule],
}

/// The tensors a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The output weight, or the token embedding where that is the output weight too.
    Output,
    /// Values, alone or stacked under queries and keys.
    Value,
    AttentionOutput,
    Down,
}

/// The layers a rule is for.
#[derive(Clone, Copy, Debug)]
enum In {
    All,
    First(usize),
    /// The first n-th of the layers.
    FirstPart(usize),
    /// The first and the last eighth, and every third layer between: where errors cost most.
    Sensitive,
    /// All layers of models whose values serve at least this many query heads, and so are small.
    Shared(usize),
}

#[derive(Debug)]
struct Rule {
    of: Of,
    within: In,
    format: DType,
}

const fn rule(of: Of, within: In, format: DType) -> Rule {
    Rule { of, within, format }
}

const fn row(name: &'static str, file_type: u32, base: DType, rules: &'static [Rule]) -> Mixture {
    Mixture { name, file_type, base, rules }
}

const OUTPUT: Rule = rule(Of::Output, In::All, DType::Q6_K);

/// Every mixture, from most bits to least.
pub static MIXTURES: &[Mixture] = &[
    row("f32", 0, DType::F32, &[]),
    row("f16", 1, DType::F16, &[]),
    row("bf16", 32, DType::BF16, &[]),
    row("q8_0", 7, DType::Q8_0, &[]),
    row("q6_k", 18, DType::Q6_K, &[]),
    row(
        "q5_k_m",
        17,
        DType::Q5_K,
        &[OUTPUT, rule(Of::Value, In::Sensitive, DType::Q6_K), rule(Of::Down, In::Sensitive, DType::Q6_K)],
    ),
    row("q5_k_s", 16, DType::Q5_K, &[OUTPUT]),
    row("q5_1", 9, DType::Q5_1, &[OUTPUT]),
    row("q5_0", 8, DType::Q5_0, &[OUTPUT]),
    row(
        "q4_k_m",
        15,
        DType::Q4_K,
        &[OUTPUT, rule(Of::Value, In::Sensitive, DType::Q6_K), rule(Of::Down, In::Sensitive, DType::Q6_K)],
    ),
    row(
        "q4_k_s",
        14,
        DType::Q4_K,
        &[OUTPUT, rule(Of::Value, In::First(4), DType::Q5_K), rule(Of::Down, In::FirstPart(8), DType::Q5_K)],
    ),
    row("q4_1", 3, DType::Q4_1, &[OUTPUT]),
    row("q4_0", 2, DType::Q4_0, &[OUTPUT]),
    row(
        "iq4_nl",
        25,
        DType::IQ4_NL,
        &[OUTPUT, rule(Of::Value, In::Shared(4), DType::Q5_K), rule(Of::Down, In::FirstPart(8), DType::Q5_K)],
    ),
    row(
        "iq4_xs",
        30,
        DType::IQ4_XS,
        &[OUTPUT, rule(Of::Value, In::Shared(4), DType::Q5_K), rule(Of::Down, In::FirstPart(8), DType::Q5_K)],
    ),
    row(
        "q3_k_l",
        13,
        DType::Q3_K,
        &[
            OUTPUT,
            rule(Of::Value, In::All, DType::Q5_K),
            rule(Of::Down, In::All, DType::Q5_K),
            rule(Of::AttentionOutput, In::All, DType::Q5_K),
        ],
    ),
    row(
        "q3_k_m",
        12,
        DType::Q3_K,
        &[
            OUTPUT,
            rule(Of::Value, In::First(2), DType::Q5_K),
            rule(Of::Value, In::All, DType::Q4_K),
            rule(Of::Down, In::FirstPart(16), DType::Q5_K),
            rule(Of::Down, In::All, DType::Q4_K),
            rule(Of::AttentionOutput, In::All, DType::Q4_K),
        ],
    ),
    row("q3_k_s", 11, DType::Q3_K, &[OUTPUT]),
    row(
        "q2_k",
        10,
        DType::Q2_K,
        &[
            OUTPUT,
            rule(Of::Value, In::Shared(4), DType::Q4_K),
            rule(Of::Value, In::All, DType::Q3_K),
            rule(Of::Down, In::All, DType::Q3_K),
            rule(Of::AttentionOutput, In::All, DType::Q3_K),
        ],
    ),
];

/// What a format becomes where a row is not a whole number of its blocks.
static NARROWER: &[(DType, DType)] = &[
    (DType::Q2_K, DType::Q4_0),
    (DType::Q3_K, DType::Q4_0),
    (DType::Q4_K, DType::Q5_0),
    (DType::Q5_K, DType::Q5_1),
    (DType::Q6_K, DType::Q8_0),
    (DType::IQ4_XS, DType::IQ4_NL),
];

/// What a mixture needs to know of a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelFacts {
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    /// There is no output weight.
    pub tied: bool,
}

impl Mixture {
    pub fn find(name: &str) -> Option<&'static Mixture> {
        MIXTURES.iter().find(|m| m.name.eq_ignore_ascii_case(name))
    }

    /// The names of all mixtures, for messages.
    pub fn names() -> String {
        MIXTURES.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
    }

    /// The format of one tensor. Vectors stay exact, and so do tables of positions: they are few and everything depends
    /// on them.
    pub fn format(&self, tensor: &OutTensor, model: ModelFacts) -> DType {
        let exact = !tensor.is_matrix() || tensor.has(Role::Positions);
        let Some(&cols) = tensor.shape.last().filter(|_| !exact) else { return DType::F32 };
        let rule = self.rules.iter().find(|r| r.of.is(tensor, model) && r.within.holds(tensor.layer, model));
        fitting(rule.map_or(self.base, |r| r.format), cols)
    }
}

impl Of {
    fn is(self, tensor: &OutTensor, model: ModelFacts) -> bool {
        match self {
            Of::Output => tensor.has(Role::Output) || model.tied && tensor.has(Role::TokenEmbedding),
            Of::Value => tensor.has(Role::V),
            Of::AttentionOutput => tensor.has(Role::AttnOut),
            Of::Down => tensor.has(Role::Down),
        }
    }
}

impl In {
    fn holds(self, layer: Option<usize>, model: ModelFacts) -> bool {
        let (l, count) = (layer.unwrap_or(0), model.layers);
        match self {
            In::All => true,
            In::First(n) => l < n,
            In::FirstPart(n) => l < count / n,
            In::Sensitive => l < count / 8 || l >= 7 * count / 8 || (l - count / 8) % 3 == 2,
            In::Shared(n) => model.heads / model.kv_heads.max(1) >= n,
        }
    }
}

/// `format`, or the nearest that has whole blocks in rows of `cols` values.
fn fitting(format: DType, cols: usize) -> DType {
    let fits = |f: &DType| cols.is_multiple_of(f.format().block);
    let narrower = || NARROWER.iter().find(|(wide, _)| *wide == format).map(|row| row.1);
    Some(format).filter(fits).or_else(|| narrower().filter(fits)).unwrap_or(DType::F16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(role: Role, layer: Option<usize>, shape: &[usize]) -> OutTensor {
        OutTensor { name: String::new(), layer, parts: vec![(role, shape[0])], shape: shape.to_vec(), values: None }
    }

    const MODEL: ModelFacts = ModelFacts { layers: 16, heads: 8, kv_heads: 4, tied: true };

    #[test]
    fn tensors_get_the_formats_their_mixture_names() {
        #[rustfmt::skip]
        let rows = [
            ("q4_0", Role::Q, 0, 256, DType::Q4_0),
            ("q4_0", Role::TokenEmbedding, 0, 256, DType::Q6_K),
            ("q8_0", Role::TokenEmbedding, 0, 256, DType::Q8_0),
            ("q4_k_m", Role::V, 0, 256, DType::Q6_K),
            ("q4_k_m", Role::V, 2, 256, DType::Q4_K),
            ("q4_k_m", Role::V, 4, 256, DType::Q6_K),
            ("q4_k_m", Role::Down, 15, 256, DType::Q6_K),
            ("q4_k_m", Role::Gate, 0, 256, DType::Q4_K),
            ("q3_k_m", Role::V, 1, 256, DType::Q5_K),
            ("q3_k_m", Role::V, 2, 256, DType::Q4_K),
            ("q3_k_m", Role::Down, 0, 256, DType::Q5_K),
            ("q2_k", Role::V, 0, 256, DType::Q3_K),
            ("q4_k_m", Role::Gate, 0, 96, DType::Q5_0),
            ("q4_0", Role::TokenEmbedding, 0, 96, DType::Q8_0),
            ("q4_0", Role::Q, 0, 40, DType::F16),
            ("f16", Role::Q, 0, 40, DType::F16),
        ];
        for (name, role, layer, cols, expected) in rows {
            let mixture = Mixture::find(name).unwrap();
            let found = mixture.format(&tensor(role, Some(layer), &[8, cols]), MODEL);
            assert_eq!(found, expected, "{name} {role:?} of layer {layer}, {cols} wide");
        }
    }

    #[test]
    fn untied_embeddings_are_plain_and_vectors_exact() {
        let mixture = Mixture::find("q4_K_M").unwrap();
        let untied = ModelFacts { tied: false, ..MODEL };
        assert_eq!(mixture.format(&tensor(Role::TokenEmbedding, None, &[8, 256]), untied), DType::Q4_K);
        assert_eq!(mixture.format(&tensor(Role::Output, None, &[8, 256]), untied), DType::Q6_K);
        assert_eq!(mixture.format(&tensor(Role::AttnNorm, Some(0), &[256]), untied), DType::F32);
    }

    #[test]
    fn every_format_of_every_mixture_can_be_written() {
        for mixture in MIXTURES {
            for format in mixture.rules.iter().map(|r| r.format).chain([mixture.base]) {
                assert!(format.format().encode.is_some(), "{}: {format}", mixture.name);
            }
        }
    }
}
