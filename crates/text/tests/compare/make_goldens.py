#!/usr/bin/env python3
"""Writes the committed goldens: what HF's library makes of some strings with small vocabularies.

    python3 make_goldens.py DATA_DIR TEXT_FILE

DATA_DIR has stories-tokenizer.json (byte-level BPE); small WordPiece, Unigram and Llama-2-like vocabularies are trained here on
TEXT_FILE and written beside it. Every NAME-golden.json is a list of [text, ids, decoded].
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from compare import strings

data, text = Path(sys.argv[1]), sys.argv[2]


def golden(name, tok, count):
    added = [t.content for t in tok.get_added_tokens_decoder().values()]
    cases = []
    for t in strings(count, 11, added):
        if len(t) > 200:
            continue
        ids = tok.encode(t, add_special_tokens=True).ids
        cases.append([t, ids, tok.decode(ids, skip_special_tokens=False)])
    lines = ",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases)
    (data / f"{name}-golden.json").write_text(f"[\n{lines}\n]\n")


golden("stories", Tokenizer.from_file(str(data / "stories-tokenizer.json")), 600)

tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
tok.normalizer = normalizers.BertNormalizer()
tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tok.decoder = decoders.WordPiece()
tok.train([text], trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
tok.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
tok.save(str(data / "wordpiece-tokenizer.json"))
golden("wordpiece", tok, 400)

tok = Tokenizer(models.Unigram())
tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
tok.decoder = decoders.Metaspace(prepend_scheme="always")
tok.train([text], trainers.UnigramTrainer(vocab_size=500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
tok.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
tok.save(str(data / "unigram-tokenizer.json"))
golden("unigram", tok, 400)

tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # For training only.
tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
tok.train([text], trainers.BpeTrainer(vocab_size=800, special_tokens=specials, show_progress=False))
saved = json.loads(tok.to_str())
saved["pre_tokenizer"] = None
saved["added_tokens"] = saved["added_tokens"][:3]
tok = Tokenizer.from_str(json.dumps(saved))
tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
tok.save(str(data / "llama2-tokenizer.json"))
golden("llama2", tok, 400)
