"""Models that need no download: the one inside the package, and two made of the repository's fixtures."""

import json
import os
import shutil
from pathlib import Path

import pytest

import akunu

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "fixtures"

# Marks who speaks, as ChatML does; shows tools.
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
)


@pytest.fixture(scope="session")
def model():
    with akunu.Model(threads=2, chat_template=TEMPLATE) as model:
        yield model


@pytest.fixture(scope="session")
def embedder():
    with akunu.Model(task="embed", threads=2) as model:
        yield model


@pytest.fixture(scope="session")
def ranker_path(tmp_path_factory):
    """The ranker among the fixtures, with a vocabulary of letters."""
    source, folder = FIXTURES / "hf/bert-ranker", tmp_path_factory.mktemp("ranker")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(source / name, folder / name)
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    letters = [c for c in map(chr, range(ord("a"), ord("z") + 1))]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters)]
    words += [f"[unused{i}]" for i in range(size - len(words))]
    special = [
        {"id": i, "content": w, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        for i, w in enumerate(words[:5])
    ]
    tokenizer = {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def downloaded(name):
    """A model that was fetched, or a skip that says how."""
    try:
        akunu.about(name)
    except akunu.LoadError:
        if os.environ.get("AKUNU_REQUIRE_FIXTURES") == "all":
            raise
        pytest.skip(f"there is no {name}: `akunu models fetch {name}` fetches it")
    return name


@pytest.fixture(scope="session")
def chat_model():
    with akunu.Model(downloaded("smollm2-135m"), threads=2, context=2048) as model:
        yield model


@pytest.fixture(scope="session")
def speech_model():
    with akunu.Model(downloaded("whisper-tiny"), threads=2) as model:
        yield model
