#!/usr/bin/env python3
"""Writes tokenizer.json files of kinds that no package on hand has, for compare.py, with HF's library.

    python3 make_tokenizers.py OUT_DIR TEXT_FILE BERT_VOCAB.gguf LLAMA_SPM.gguf

bert.json (WordPiece), unigram.json (Unigram with Metaspace, NFKC and lower case), unigram-spm.json (with SentencePiece's own
character map and byte fallback; needs the sentencepiece package), llama2.json (BPE with byte fallback over `▁`, from the
SPM vocabulary's scores, so that the SPM route can be compared too), gpt2-like and falcon-like splits.
"""
import base64
import json
import sys
from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

out, text, bert, spm = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
out.mkdir(parents=True, exist_ok=True)


def field(reader, name):
    return reader.fields["tokenizer.ggml." + name].contents()


# WordPiece: GGUF writes `▁word` and `inside`, HF `word` and `##inside`.
reader = gguf.GGUFReader(bert)
vocab = {}
for i, (token, kind) in enumerate(zip(field(reader, "tokens"), field(reader, "token_type"))):
    if kind == 1:
        token = token[1:] if token.startswith("▁") else "##" + token
    vocab[token] = i
tok = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
tok.normalizer = normalizers.BertNormalizer(lowercase=True)
tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tok.post_processor = processors.BertProcessing(("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"]))
tok.decoder = decoders.WordPiece()
tok.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, normalized=False, special=True)])
tok.save(str(out / "bert.json"))

# Unigram.
tok = Tokenizer(models.Unigram())
tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")])
tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
tok.decoder = decoders.Metaspace(prepend_scheme="always")
tok.train([text], trainers.UnigramTrainer(vocab_size=2000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
tok.save(str(out / "unigram.json"))

try:
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as model_pb2

    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=str(out / "spm"), vocab_size=1500, model_type="unigram", byte_fallback=True,
        normalization_rule_name="nmt_nfkc", minloglevel=2)
    proto = model_pb2.ModelProto()
    proto.ParseFromString((out / "spm.model").read_bytes())
    pieces = [(p.piece, p.score) for p in proto.pieces]
    tok = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
                                           normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    tok.save(str(out / "unigram-spm.json"))
except ImportError:
    print("skipped: unigram-spm.json needs sentencepiece")

# Llama 2: merges in the order of the scores of what they make.
reader = gguf.GGUFReader(spm)
tokens, scores, kinds = field(reader, "tokens"), field(reader, "scores"), field(reader, "token_type")
vocab = {t: i for i, t in enumerate(tokens)}
merges = []
for token, score, kind in zip(tokens, scores, kinds):
    if kind == 1:
        merges += [(-score, vocab[token[:i]], vocab[token[i:]], token[:i], token[i:])
                   for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab]
merges.sort()
tok = Tokenizer(models.BPE(vocab, [(m[3], m[4]) for m in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in ("<unk>", "<s>", "</s>")])
tok.save(str(out / "llama2.json"))

# Byte-level with other splits, over a small vocabulary.
splits = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=True),
    "falcon": pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                       ]),
    "digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "gpt4o": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
        "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    "deepseek": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in (
        r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    "cl100k": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"),
        "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    "aya": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\d{1,3}(?=(?:\d{3})*\b)"), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False)]),
}
for name, split in splits.items():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = split
    tok.decoder = decoders.ByteLevel()
    tok.train([text], trainers.BpeTrainer(vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                          special_tokens=["<|endoftext|>"]))
    tok.add_tokens([AddedToken("wordy", single_word=True), AddedToken("<l>", lstrip=True), AddedToken("<r>", rstrip=True)])
    tok.save(str(out / f"split-{name}.json"))
print("wrote", ", ".join(sorted(p.name for p in out.glob("*.json"))))
