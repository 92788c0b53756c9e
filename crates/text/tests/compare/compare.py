#!/usr/bin/env python3
"""Compares this crate's tokenizer with HF's `tokenizers` library on random and adversarial strings.

    cargo build --release -p akunu-text --example encode_lines
    python3 compare.py ENCODE_LINES TOKENIZER_JSON [--gguf VOCAB.gguf] [--count 10000] [--seed 1] [--decode]

With --gguf as many strings go through the GGUF vocabulary, without the added tokens that only one of the two
vocabularies has, or has under another id. Exits 1 where anything differs.
"""
import argparse
import json
import random
import subprocess
import sys

from tokenizers import Tokenizer

SCRIPTS = [
    (0x20, 0x7E), (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF),
    (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x2000, 0x206F), (0x2070, 0x209F),
    (0x2150, 0x218F), (0x2200, 0x22FF), (0x2580, 0x259F), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
    (0xFB00, 0xFB4F), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF),
]
SPACES = " \t\n\r\v\f\x85\xa0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000"
PIECES = [
    "'s", "'S", "'ll", "'LL", "'re", "'Ve", "'d", "'ſ", "’s", "don't", "I'm", "\r\n", "\n\n", "   ", "\t\t", "0", "12", "123", "1234567",
    "½", "²", "①", "e\u0301", "\u0301", "ñ", "n\u0303", "한글", "ㄱ", "각", "ﬁ", "İ", "ß", "ſ", "K", "Å", "Ω", "<|", "|>", "<", ">", "</s>",
    "<s>", "<unk>", "[INST]", "##a", "▁", "▁▁", "_", "__", "Ġ", "Ċ", "<0x0A>", "<0x41>", "\u200b", "\u200d", "\ufeff", "\ufffd", "\x00", "\x7f",
    "👨‍👩‍👧", "🏳️‍🌈", "🚀", "😶‍🌫️", "ก็", "नमस्ते", "العربية", "שלום", "中文", "日本語", "。", "、", "…", "—", "``", "()", "{}", "[]", "==",
    "://", "www.", "\\n", "/*", "*/", "    return", "def f(x):", "\u0378", "\U000e0001", "a" * 30, "ab" * 20, " " * 33, "\n" * 7, "=" * 40, "-" * 17,
]


def strings(count, seed, added):
    rng = random.Random(seed)
    fixed = ["", " ", "  ", "\n", "a", " a", "a ", "Hello world", "Hello, y'all! How are you 😁 ?"]
    fixed += PIECES + list(SPACES) + added[:200]
    fixed += [chr(c) for c in range(0x250)]
    fixed += [c * n for c in "a 0\n=é中🚀" for n in (2, 3, 40, 41, 42, 100, 1000)]
    yield from fixed[: count // 2]
    for _ in range(count - min(len(fixed), count // 2)):
        parts = []
        for _ in range(rng.randrange(1, 14)):
            kind = rng.randrange(12)
            if kind < 4:
                low, high = rng.choice(SCRIPTS)
                parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 9))))
            elif kind < 6:
                parts.append("".join(rng.choice("etaoinshrdluETAOIN") for _ in range(rng.randrange(1, 12))))
            elif kind < 8:
                parts.append(rng.choice(SPACES if kind == 6 else " \n") * rng.randrange(1, 5))
            elif kind < 10:
                parts.append(rng.choice(PIECES))
            elif kind == 10 and added:
                parts.append(rng.choice(added))
            else:
                c = rng.randrange(0x110000)
                parts.append(chr(c) if not 0xD800 <= c < 0xE000 else " ")
        yield "".join(parts)


def ours(binary, model, texts, decode):
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    command = [binary, model] + (["--decode"] if decode else [])
    out = subprocess.run(command, input=lines, capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return [json.loads(line) for line in out.stdout.split("\n")[:-1]]


def report(name, texts, got, expected):
    bad = [i for i in range(len(texts)) if got[i] != expected[i]]
    print(f"{name}: {len(texts) - len(bad)} of {len(texts)} agree")
    for i in bad[:10]:
        print(f"  {texts[i]!r}\n    ours   {got[i]}\n    theirs {expected[i]}")
    return not bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("tokenizer")
    parser.add_argument("--gguf")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--decode", action="store_true")
    args = parser.parse_args()

    theirs = Tokenizer.from_file(args.tokenizer)
    added = [t.content for t in theirs.get_added_tokens_decoder().values()]
    texts = list(strings(args.count, args.seed, added))
    expected = [theirs.encode(t, add_special_tokens=False).ids for t in texts]
    if args.decode:
        expected = [[ids, theirs.decode(ids, skip_special_tokens=False)] for ids in expected]
    ok = report("tokenizer.json and HF", texts, ours(args.binary, args.tokenizer, texts, args.decode), expected)
    if args.gguf:
        import gguf

        reader = gguf.GGUFReader(args.gguf)
        tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        types = reader.fields["tokenizer.ggml.token_type"].contents()
        special = {(t, i) for i, (t, kind) in enumerate(zip(tokens, types)) if kind in (2, 3, 4)}
        known = {(t.content, i) for i, t in theirs.get_added_tokens_decoder().items()}
        differing = {t for t, _ in special ^ known}
        common = [t for t in added if t not in differing]
        texts = list(strings(args.count * 2, args.seed, common))
        texts = [t for t in texts if not any(d in t for d in differing)][: args.count]
        expected = [theirs.encode(t, add_special_tokens=False).ids for t in texts]
        if args.decode:
            expected = [[ids, theirs.decode(ids, skip_special_tokens=False)] for ids in expected]
        ok &= report("GGUF and HF", texts, ours(args.binary, args.gguf, texts, args.decode), expected)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
