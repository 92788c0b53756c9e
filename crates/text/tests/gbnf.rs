//! Grammars as llama.cpp writes them: every feature takes what it should and nothing else.

use akunu_formats::ModelFile;
use akunu_testkit::{fixtures, quarter_of_limits};
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
    ("a repetition before what it could take itself", "root ::= line (\"\\n\" root)?\nline ::= [a-z\\n]*", &["a\n\n", "", "a\nb"], &["A"]),
    ("trailing space that may be the end", "root ::= (\"(\" root \")\" | [a-z]+) ws \"\\n\"?\nws ::= [ \\n]*", &["(a \n\n)\n", "a\n \n"], &["(a"]),
    ("words and letters that begin alike", "root ::= \"(\" root \")\" | key \"b\" \"c\" | \"ab\" \"d\" | word\nkey ::= \"a\"\nword ::= [x-z]+ \"z\"", &["abc", "(abd)", "xyzz", "(zzz)", "zz"], &["abcd", "ab", "z"]),
    ("classes that overlap", "root ::= one | two\none ::= [a-c] one? \"1\"\ntwo ::= [b-d] two? \"2\"", &["bc11", "bc22", "ab11", "dc22"], &["ab22", "bc12"]),
    ("characters with a byte in common", "root ::= \"(\" root \")\" | [é]* \"è\"", &["ééè", "(è)"], &["éé", "(é)"]),
    ("counted characters", "root ::= \"<\" root \">\" | [0-9]{2,4} \"0\"", &["<120>", "12340", "000"], &["10", "123450"]),
    ("an empty alternative", "root ::= \"a\" (\"b\" | )", &["a", "ab"], &["b"]),
];

/// The same for llama.cpp's own examples, by their names.
#[rustfmt::skip]
const EXAMPLES: &[(&str, &[&str], &[&str])] = &[
    (
        "arithmetic",
        &["1 +2=3\n", "a*(b_1 -22) = 7\n\n\n", "x=y\n(1)= 2 \n"],
        &["1 +", "A=1\n", "1+2=3", "1++2=3\n", "1 + 2=3\n", "(1=2\n"],
    ),
    (
        "c",
        &[
            "int main(){return 0;}",
            "float f(int x){int y = x*2+1;while(y<10){y = y+g(x, 3);}if(x==y){return y;}else{g (1);}}",
            "char c(){// a comment\n/* another * one */intx = 1;returned = (\n x \t);for(int i = 0; i<3; i = i+1){f ();}}",
        ],
        &["int main(", "int main(){return 0}", "int 1(){}", "int f(){1 = 1;}", "int f(){f();}", "int f(){/* open }"],
    ),
    ("chess", &["1. exd8=Q# Nbxd7\n10. Raxb1 O-O-O+\n", "1. e4 e5\n2. Nf3 Nc6\n", "1. d4 Nf6\n2. O-O Qxd5+\n"], &["1. e9 e5\n2. a4 a5\n", "1. e4\n", "1. e4 e5\n0. a4 a5\n", "1. e4 e5\n"]),
    ("english", &["Hello, world!", "a[b]\\c^d\n\"{|}~\" 1-2"], &["naïve", "two  spaces", " a", ""]),
    ("japanese", &["こんにちは", "カタカナ、漢字。 ひら"], &["hello", "こa", "こ ", ""]),
    ("json", &["{\"a\": [1, true, null, \"x\\n\"]}", "{\n  \"é\": {\"\\u00e9\": -12.5e+31 } ,\n \"b\":[]} "], &["[1]", "{a: 1}", "{\"a\":01}", "{\"a\": \"\n\"}", "{\"a\":1,}", "{\"\\u00g0\":1}"]),
    ("json_arr", &["[\n1,\n{\"a\": \"b\"}]", "[\n]"], &["{}", "[1", "[\n1,2]", "[\n1] "]),
    ("list", &["- one\n- two\n", "- é 火 🔥\n"], &["one\n", "- one", "- \n", "- a\rb\n", "- a\u{2028}b\n"]),
];

struct Vocabulary {
    tokenizer: Tokenizer,
    grammars: Grammars,
}

impl Vocabulary {
    fn new() -> Self {
        let file =
            ModelFile::open_within(&fixtures::path("gguf/stories-llama-Q4_0.gguf"), quarter_of_limits()).unwrap();
        let tokenizer = Tokenizer::from_model_file(&file).unwrap();
        let grammars = Grammars::new(&tokenizer, tokenizer.vocab_size()).unwrap();
        Self { tokenizer, grammars }
    }

    fn matcher(&self, grammar: &str) -> Matcher {
        self.grammars.compile(&Grammar::Gbnf(grammar.into())).unwrap_or_else(|e| panic!("{e}: {grammar}"))
    }

    fn takes(&self, grammar: &str, text: &str) -> bool {
        let mut matcher = self.matcher(grammar);
        for token in self.tokenizer.encode(text, Encode::default()).unwrap() {
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
    let named = std::env::var_os("AKUNU_GBNF_EXAMPLES").map(std::path::PathBuf::from);
    let what = "folder of llama.cpp's grammars (AKUNU_GBNF_EXAMPLES names it)";
    let Some(folder) = fixtures::needed(named, fixtures::Source::Fetched, what) else { return };
    let vocabulary = Vocabulary::new();
    let mut wrong = Vec::new();
    for (name, good, bad) in EXAMPLES {
        let grammar = std::fs::read_to_string(folder.join(format!("{name}.gbnf"))).unwrap();
        vocabulary.check(name, &grammar, good, bad, &mut wrong);
    }
    assert_eq!(wrong, Vec::<String>::new());
}
