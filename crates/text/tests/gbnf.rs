//! Grammars as llama.cpp writes them: every feature takes what it should and nothing else.

use akunu_formats::ModelFile;
use akunu_testkit::fixtures;
use akunu_text::{Encode, Grammar, Grammars, Matcher, Tokenizer};

/// What is tried: a grammar, texts that it takes, texts that it does not.
#[rustfmt::skip]
const FEATURES: &[(&str, &str, &[&str], &[&str])] = &[
    ("literals and alternatives", r#"root ::= "yes" | "no" " way""#, &["yes", "no way"], &["no", "yes way", ""]),
    ("escapes", r#"root ::= "\"\\\n\t\x41\u00e9\U0001F525""#, &["\"\\\n\tAé🔥"], &["A"]),
    ("classes", "root ::= [a-cX_-]+", &["abcX_-", "-"], &["d", "x", ""]),
    ("negated classes", r"root ::= [^\n\x7F]+", &["any thing, Ünïcödé 火"], &["two\nlines"]),
    ("classes with brackets", r"root ::= [\[\]^\\]+", &["[]^\\"], &["a"]),
    ("classes beyond ASCII", "root ::= [ぁ-ゟ一-鿿]+", &["ひらがな漢字"], &["カ", "a"]),
    ("any character", "root ::= . . \"!\"", &["火a!", "ab!"], &["a!", "abc!"]),
    ("repetition", r#"root ::= "a"? "b"* "c"+"#, &["c", "abbcc", "bc"], &["ab", "aac"]),
    ("counted repetition", "root ::= [0-9]{2} [a-z]{1,3} \"-\"{2,}", &["12a--", "12abc-----"], &["1a--", "12abcd--", "12a-"]),
    ("groups over lines", "root ::= (\n  \"a\" # one\n  | \"b\"\n)+\n", &["abba"], &["c"]),
    ("rules", "root ::= word (\" \" word)*\nword ::= [a-z]+", &["one two"], &["one  two", " one"]),
    ("rules that lead back to themselves", "root ::= \"(\" root* \")\"", &["()", "(()(()))"], &["(()", ")("]),
    ("recursion to the left and the right", "root ::= sum\nsum ::= num (\"+\" sum)?\nnum ::= [0-9]+", &["1+22+3"], &["1+", "+1"]),
    ("names with dashes and digits", "root ::= a-1 b2\na-1 ::= \"x\"\nb2 ::= \"y\"", &["xy"], &["x"]),
    ("an empty alternative", "root ::= \"a\" (\"b\" | )", &["a", "ab"], &["b"]),
];

/// The same for llama.cpp's own examples, by their names.
#[rustfmt::skip]
const EXAMPLES: &[(&str, &[&str], &[&str])] = &[
    // Its white space, which ends as late as it can, takes the line break that must come after it: it never ends.
    ("arithmetic", &[], &["1 +", "A=1\n"]),
    ("c", &["int main(){return 0;}"], &["int main("]),
    ("chess", &["1. e4 e5\n2. Nf3 Nc6\n", "1. d4 Nf6\n2. O-O Qxd5+\n"], &["1. e9 e5\n", "1. e4\n"]),
    ("english", &["Hello, world!"], &["naïve"]),
    ("japanese", &["こんにちは"], &["hello"]),
    ("json", &["{\"a\": [1, true, null, \"x\\n\"]}"], &["[1]", "{a: 1}"]),
    ("json_arr", &["[\n1,\n{\"a\": \"b\"}]"], &["{}", "[1"]),
    ("list", &["- one\n- two\n"], &["one\n", "- one"]),
];

struct Vocabulary {
    tokenizer: Tokenizer,
    grammars: Grammars,
}

impl Vocabulary {
    fn new() -> Self {
        let file = ModelFile::open(&fixtures::path("gguf/stories-llama-Q4_0.gguf")).unwrap();
        let tokenizer = Tokenizer::from_model_file(&file).unwrap();
        let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
        Self { tokenizer, grammars }
    }

    fn matcher(&self, grammar: &str) -> Matcher {
        self.grammars.compile(&Grammar::Gbnf(grammar.into())).unwrap_or_else(|e| panic!("{e}: {grammar}"))
    }

    fn takes(&self, grammar: &str, text: &str) -> bool {
        let mut matcher = self.matcher(grammar);
        for token in self.tokenizer.encode(text, Encode::default()) {
            let allowed = matcher.allowed().is_ok_and(|words| words[token as usize / 32] >> (token % 32) & 1 == 1);
            if !allowed || matcher.accept(token).is_err() {
                return false;
            }
        }
        matcher.may_end()
    }

    fn check(&self, name: &str, grammar: &str, good: &[&str], bad: &[&str], wrong: &mut Vec<String>) {
        wrong.extend(good.iter().filter(|t| !self.takes(grammar, t)).map(|t| format!("{name} does not take {t:?}")));
        wrong.extend(bad.iter().filter(|t| self.takes(grammar, t)).map(|t| format!("{name} takes {t:?}")));
    }
}

#[test]
fn every_feature_takes_what_it_should_and_nothing_else() {
    let vocabulary = Vocabulary::new();
    let mut wrong = Vec::new();
    for (name, grammar, good, bad) in FEATURES {
        vocabulary.check(name, grammar, good, bad, &mut wrong);
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The examples are not ours to keep: they are read from where a clone of llama.cpp is.
#[test]
fn the_examples_of_llama_cpp_take_what_they_should() {
    let Some(folder) = std::env::var_os("AKUNU_GBNF_EXAMPLES").map(std::path::PathBuf::from) else {
        return eprintln!("skipped: AKUNU_GBNF_EXAMPLES does not name the folder of llama.cpp's grammars");
    };
    let vocabulary = Vocabulary::new();
    let mut wrong = Vec::new();
    for (name, good, bad) in EXAMPLES {
        let grammar = std::fs::read_to_string(folder.join(format!("{name}.gbnf"))).unwrap();
        vocabulary.check(name, &grammar, good, bad, &mut wrong);
    }
    assert_eq!(wrong, Vec::<String>::new());
}
