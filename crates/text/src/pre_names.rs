//! The pre-tokenizers that GGUF's `tokenizer.ggml.pre` names: a row each, with the split patterns of the vocabulary it
//! was named after.

use crate::error::{Error, excerpt};
use crate::split::Step;

/// A named splitting rule and what goes with it.
pub(crate) struct PreTokenizer {
    pub steps: Vec<Step>,
    /// The whole word wins over the merges.
    pub ignore_merges: bool,
    /// Whether a text starts with BOS where the file does not say.
    pub add_bos: bool,
    /// Composed forms first, as the vocabulary's own library does.
    pub nfc: bool,
    /// Words are characters with `▁` for spaces, not bytes.
    pub characters: bool,
}

struct Row {
    names: &'static [&'static str],
    patterns: &'static [&'static str],
    flags: &'static [Flag],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    IgnoreMerges,
    AddBos,
    Nfc,
    Characters,
}
use Flag::{AddBos, Characters, IgnoreMerges, Nfc};

/// GPT-2's own pattern, which ByteLevel has built in.
pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const BLOOM: &str = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+";
/// Newlines apart from everything else: SentencePiece-like vocabularies have no other break.
const LINES: &str = r"[^\n]+|[\n]+";
/// Not a pattern: see [`Step::DigitGroups`].
const DIGITS_FROM_RIGHT: &str = "digits from the right";
const NUMBERS_FROM_RIGHT: &str = "numbers from the right";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { names: &["default"], patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"], flags: &[] },
    Row { names: &["gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "jais", "trillion",
                   "granite-docling", "exaone4", "jina-v1-en", "jina-v2-code", "roberta-bpe"], patterns: &[GPT2], flags: &[] },
    // The GPT-NeoX vocabulary and its heirs.
    Row { names: &["mpt", "olmo", "modern-bert"], patterns: &[GPT2], flags: &[Nfc] },
    Row { names: &["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
          patterns: &[LLAMA3], flags: &[IgnoreMerges, AddBos] },
    Row { names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], patterns: &[LLAMA3], flags: &[] },
    Row { names: &["minicpm5"], patterns: &[r"\p{N}{1,3}", QWEN2], flags: &[IgnoreMerges] },
    Row { names: &["jais-2"], patterns: &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"], flags: &[] },
    Row { names: &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
          patterns: &[QWEN2], flags: &[] },
    Row { names: &["laguna"], patterns: &[LINES, QWEN2], flags: &[] },
    Row { names: &["qwen35"], patterns: &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"], flags: &[Nfc] },
    Row { names: &["smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"], patterns: &[r"\p{N}", GPT2], flags: &[] },
    Row { names: &["command-r"], patterns: &[r"\p{N}", GPT2], flags: &[Nfc] },
    Row { names: &["falcon"], patterns: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"], flags: &[] },
    Row { names: &["deepseek-llm"], patterns: &[r"[\r\n]",
          r"\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+",
          r"\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+", r"\s+$", r"[\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+", r"\p{N}+"], flags: &[] },
    Row { names: &["deepseek-coder"], patterns: &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+", r"\p{N}"], flags: &[] },
    Row { names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"], patterns: &[r"\p{N}{1,3}", r"[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+", DEEPSEEK3], flags: &[] },
    Row { names: &["afmoe"], patterns: &[DIGITS_FROM_RIGHT,
          r"[\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff}\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{e40}-\x{e7f}\x{e80}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+", DEEPSEEK3], flags: &[] },
    Row { names: &["youtu"], patterns: &[r"[\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+",
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
          flags: &[IgnoreMerges] },
    Row { names: &["poro-chat", "bloom", "gpt3-finnish"], patterns: &[BLOOM], flags: &[] },
    Row { names: &["viking"], patterns: &[BLOOM, r"\p{N}"], flags: &[] },
    Row { names: &["tekken"], patterns: &[r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
          flags: &[IgnoreMerges, AddBos] },
    Row { names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], patterns: &[GPT4O], flags: &[] },
    Row { names: &["granite-embed-multi-97m"], patterns: &[GPT4O], flags: &[IgnoreMerges] },
    Row { names: &["tiny_aya", "cohere2moe"], patterns: &[NUMBERS_FROM_RIGHT, GPT4O], flags: &[] },
    Row { names: &["superbpe"], patterns: &[r"\p{N}+", DIGITS_FROM_RIGHT], flags: &[] },
    Row { names: &["kimi-k2"], patterns: &[r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"], flags: &[] },
    Row { names: &["bailingmoe", "bailingmoe2", "llada-moe"], patterns: &[r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"], flags: &[] },
    Row { names: &["seed-coder"], patterns: &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"], flags: &[] },
    Row { names: &["exaone-moe"], patterns: &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"], flags: &[] },
    Row { names: &["chameleon"], patterns: &[r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
          r"[\p{P}!-/:-@\[-`{-~]", GPT2], flags: &[AddBos] },
    Row { names: &["gemma4", "granite-embed-multi-311m"], patterns: &[LINES], flags: &[AddBos, Characters] },
    Row { names: &["sarvam-moe"], patterns: &[LINES], flags: &[Characters] },
];

/// The name of the rule that splits by these patterns in turn, as GGUF's `tokenizer.ggml.pre` has it.
///
/// `ignore_merges`: a word that is a token stays whole; `nfc`: characters are composed first. `None` where there is no
/// such rule: a file that named another one would be read wrongly by everybody.
pub fn pre_tokenizer_name(patterns: &[&str], ignore_merges: bool, nfc: bool) -> Option<&'static str> {
    let same = |row: &&Row| row.patterns == patterns && row.flags.contains(&IgnoreMerges) == ignore_merges;
    let rows: Vec<&Row> = ROWS.iter().filter(same).filter(|row| !row.flags.contains(&Characters)).collect();
    // Without a rule that composes, the one that does not is right for all text that is composed already.
    let composing = rows.iter().find(|row| row.flags.contains(&Nfc) == nfc);
    composing.or(rows.first()).and_then(|row| row.names.first()).copied()
}

/// The pattern of a byte-level vocabulary that names none.
pub const GPT2_PATTERN: &str = GPT2;

impl PreTokenizer {
    /// The rule called `name`; without a name, the default one.
    pub fn named(name: Option<&str>) -> Result<Self, Error> {
        let name = name.filter(|n| !n.is_empty()).unwrap_or("default");
        let row = ROWS
            .iter()
            .find(|row| row.names.contains(&name))
            .ok_or_else(|| Error::UnknownPreTokenizer(excerpt(name)))?;
        let steps = row.patterns.iter().map(|&pattern| match pattern {
            DIGITS_FROM_RIGHT => Ok(Step::DigitGroups { whole_number: false }),
            NUMBERS_FROM_RIGHT => Ok(Step::DigitGroups { whole_number: true }),
            pattern => Step::pattern(pattern),
        });
        let has = |flag| row.flags.contains(&flag);
        Ok(PreTokenizer {
            steps: steps.collect::<Result<_, _>>()?,
            ignore_merges: has(IgnoreMerges),
            add_bos: has(AddBos),
            nfc: has(Nfc),
            characters: has(Characters),
        })
    }
}

#[cfg(test)]
mod tests {
    use akunu_limits::Limits;

    use super::*;
    use crate::budget::Budget;
    use crate::split::split;

    fn words(steps: &[Step], text: &str, sink: &mut dyn FnMut(&str)) {
        let mut sink = |word: &str| {
            sink(word);
            Ok(())
        };
        split(steps, text, true, &Budget::new(text.len(), &Limits::default()), &mut sink).unwrap();
    }

    #[test]
    fn every_row_compiles_and_loses_no_text() {
        let text = "Hello, y'all! 1234567 ünïcödé  \n\t 中文 ฉัน 🚀 don't I'LL   x\r\n  ";
        for row in ROWS {
            for name in row.names {
                let rule = PreTokenizer::named(Some(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
                let mut joined = String::new();
                words(&rule.steps, text, &mut |word| joined.push_str(word));
                assert_eq!(joined, text, "{name}");
            }
        }
    }

    #[test]
    fn rules_are_found_by_their_patterns() {
        for (patterns, ignore_merges, nfc, expected) in [
            (&[QWEN2][..], false, true, Some("qwen2")),
            (&[LLAMA3], true, false, Some("llama3")),
            (&[LLAMA3], false, false, Some("dbrx")),
            (&[r"\p{N}", GPT2], false, false, Some("smollm")),
            (&[GPT2], false, false, Some("gpt-2")),
            (&[GPT2], false, true, Some("mpt")),
            (&["x"], false, false, None),
        ] {
            assert_eq!(pre_tokenizer_name(patterns, ignore_merges, nfc), expected, "{patterns:?}");
        }
    }

    #[test]
    fn an_unknown_name_is_named() {
        let error = PreTokenizer::named(Some("klingon")).err().unwrap().to_string();
        assert!(error.contains("\"klingon\""), "{error}");
    }

    #[test]
    fn words_of_the_common_rules() {
        for (name, text, expected) in [
            ("gpt-2", "I'm  12 x", vec!["I", "'m", " ", " 12", " x"]),
            ("llama-bpe", "I'M  1234\n\nx", vec!["I", "'M", " ", " ", "123", "4", "\n\n", "x"]),
            ("qwen2", "a12 (b)\n", vec!["a", "1", "2", " (", "b", ")\n"]),
            ("smollm", "v12 x", vec!["v", "1", "2", " x"]),
            ("gpt-4o", "HelloWorld's 1/\n", vec!["Hello", "World's", " ", "1", "/\n"]),
            ("default", "a==1234", vec!["a", "==", "123", "4"]),
        ] {
            let rule = PreTokenizer::named(Some(name)).unwrap();
            let mut found = Vec::new();
            words(&rule.steps, text, &mut |word| found.push(word.to_owned()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
