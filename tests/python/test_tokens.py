"""GPT-2's BPE gives the ids of the reference files, and those of tiktoken where it is installed.

Run by ctest with the probe program as TOST_PROBE; the data lies in TOST_SHARED, else next to the source tree.
"""

import hashlib
import os
import pathlib
import random
import subprocess
import unicodedata

import pytest

PROBE = os.environ.get("TOST_PROBE", "")
if not PROBE:
    pytest.skip("TOST_PROBE is not set", allow_module_level=True)
SHARED = pathlib.Path(os.environ.get("TOST_SHARED") or pathlib.Path(__file__).parents[2].parent / "shared")
DATA = SHARED / "data"
VOCABULARY = DATA / "gpt2-bpe"
pytestmark = pytest.mark.skipif(not VOCABULARY.is_dir(), reason=f"needs {VOCABULARY}; set TOST_SHARED to where it is")


def probe(text, vocabulary=VOCABULARY):
    """The ids of `text` (bytes) as 16-bit little-endian numbers."""
    return subprocess.run([PROBE, str(vocabulary)], input=text, capture_output=True, check=True).stdout


def rows():
    if not VOCABULARY.is_dir():
        return []
    return [line.split("\t") for line in (VOCABULARY / "reference-files.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize("vocabulary", ["", "r50k_base.tiktoken"])
@pytest.mark.parametrize("name,size,tokens,digest", rows())
def test_reference_files(vocabulary, name, size, tokens, digest):
    text = (DATA / name).read_bytes()
    assert len(text) == int(size)
    ids = probe(text, VOCABULARY / vocabulary)
    assert len(ids) == 2 * int(tokens)
    assert hashlib.sha256(ids).hexdigest() == digest


def tiktoken_ids(text):
    """By tiktoken on the local ranks: it would fetch its own."""
    tiktoken = pytest.importorskip("tiktoken")
    from tiktoken.load import load_tiktoken_bpe

    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    encoding = tiktoken.Encoding("gpt2", pat_str=pattern, special_tokens={},
                                 mergeable_ranks=load_tiktoken_bpe(str(VOCABULARY / "r50k_base.tiktoken")))
    return b"".join(i.to_bytes(2, "little") for i in encoding.encode_ordinary(text))


def same(text):
    ours, theirs = probe(text.encode()), tiktoken_ids(text)
    if ours == theirs:
        return
    at = next(i for i in range(0, len(ours) + 2, 2) if ours[i:i + 2] != theirs[i:i + 2])
    pytest.fail(f"token {at // 2} differs")


def character(source):
    """Any character, short ones, white space and contractions more often than their share."""
    kind = source.randrange(8)
    if kind == 0:
        return source.choice([" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u180e", "\u2028", "\x85", "\x1c"])
    if kind == 1:
        return source.choice(["'s", "'S", "'re", "'ll", "'d ", " '", "''t", "\u2019s"])
    if kind < 5:
        return chr(source.randrange(0x20, 0x7F))
    code = source.randrange(0x800 if kind == 5 else 0x10000 if kind == 6 else 0x110000)
    return chr(code) if not 0xD800 <= code < 0xE000 else "x"


@pytest.mark.parametrize("seed", range(4))
def test_random_text(seed):
    source = random.Random(seed)
    same("".join(character(source) for _ in range(200_000)))


def test_every_character():
    """Each between letters, numbers, signs and spaces, so that its class shows."""
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    wanted = [c for c in codes if c < 0x3000 or unicodedata.category(chr(c)) != "Lo" or c % 97 == 0]
    same("".join(f"a{chr(c)}b1{chr(c)}2 {chr(c)}!{chr(c)} " for c in wanted if c < 0xE000 or c >= 0x10000 or c % 7 == 0))


def test_many_scripts():
    words = ["naïve", "Straße", "Ελλάδα", "мир", "שלום", "السلام", "नमस्ते", "ไทย", "한국어", "日本語", "中文",
             "👩‍👩‍👧", "🇩🇪", "e\u0301", "½", "Ⅷ", "٣٤", "१२", "²", "…", "—"]
    source = random.Random(7)
    same("".join(source.choice(words) + source.choice(["", " ", "  ", "\n", "'s ", ", "]) for _ in range(50_000)))


@pytest.mark.parametrize("unit", ["a", " ", "\n", "=", "ab", "é", "the", "0"])
def test_long_runs(unit):
    same(unit * (200_000 // len(unit)) + "x y")
