#!/usr/bin/env python3
"""Makes a cross-encoder of an embedding model: `ranker.py MINILM OUT`. Its head is arbitrary, so it ranks, and not well.

No trained one is to be had as a package, and what is asked of it is protocol.
"""

import json
import random
import struct
import sys
from pathlib import Path

source, out = map(Path, sys.argv[1:])
source = source if source.is_dir() else source.parent
out.mkdir(parents=True, exist_ok=True)
data = (source / "model.safetensors").read_bytes()
length = struct.unpack("<Q", data[:8])[0]
header, tensors = json.loads(data[8 : 8 + length]), data[8 + length :]
config = json.loads((source / "config.json").read_text())
width = config["hidden_size"]

names = {name: about for name, about in header.items() if name != "__metadata__"}
named = {name if name.startswith("bert.") else f"bert.{name}": about for name, about in names.items()}
draw = random.Random(0)


def add(name, shape):
    global tensors
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    values = struct.pack(f"<{count}e", *(draw.gauss(0, 0.05) for _ in range(count)))
    named[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(tensors), len(tensors) + len(values)]}
    tensors += values


for name, shape in {
    "bert.pooler.dense.weight": [width, width],
    "bert.pooler.dense.bias": [width],
    "classifier.weight": [1, width],
    "classifier.bias": [1],
}.items():
    if name not in named:
        add(name, shape)

text = json.dumps(named).encode()
text += b" " * (-len(text) % 8)
(out / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + tensors)
config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
(out / "config.json").write_text(json.dumps(config))
(out / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
