"""The first page works when it is pasted: its blocks run in order, in one folder."""

import doctest
import re
import subprocess
import sys

import pytest

import akunu
from conftest import ROOT

PAGE = ROOT / "docs/python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_page_runs(number, tmp_path):
    block = BLOCKS[number]
    needs = re.findall(r'"(smollm2-135m|minilm|whisper-tiny)"', block)
    for name in needs:
        try:
            akunu.about(name)
        except akunu.LoadError:
            pytest.skip(f"there is no {name}: `akunu models fetch {name}` fetches it")
    if "langchain" in block:
        pytest.importorskip("langchain_core")
    if "talk.flac" in block:
        (tmp_path / "talk.flac").write_bytes((ROOT / "fixtures/audio/speech/jfk.flac").read_bytes())
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for line in re.findall(r"# prints (.*)", block):
        assert line in done.stdout, done.stdout


def test_the_page_has_blocks():
    assert len(BLOCKS) >= 8


def test_the_example_of_the_package_runs():
    assert doctest.testmod(akunu, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed == 0


def test_everything_public_says_what_it_is():
    for name in akunu.__all__:
        thing = getattr(akunu, name)
        assert name.startswith("__") or thing.__doc__, name
        for method, value in vars(thing).items() if isinstance(thing, type) else ():
            assert method.startswith("_") or not callable(value) or value.__doc__, f"{name}.{method}"
