#!/usr/bin/env python3
"""Prints ten comment sentences of ten rooms, to be read once each.

usage: scripts/random_sentences.py [SEED]
"""
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tost"
COMMENT = re.compile(r"^ {0,8}//(?: (?! )(.*)|.*)$")  # one that is further right continues a comment after code


def paragraphs(path):
    """(line, text) of each run of whole-line comments; indented lines are formulas and end a run."""
    text, start = [], 0
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        match = COMMENT.match(line)
        if match and match.group(1):
            start = start if text else number
            text.append(match.group(1))
        elif text:
            yield start, " ".join(text)
            text = []


def sentences(room):
    for path in sorted((ROOT / room).rglob("*")):
        if path.suffix in {".h", ".cc"} and "_test" not in path.name:
            for line, text in paragraphs(path):
                for sentence in re.split(r"(?<=[.:;])\s+(?=[A-Z`])", text):
                    if len(sentence.split()) >= 5:
                        yield f"{path.relative_to(ROOT.parent)}:{line}", sentence


def main(seed):
    draw = random.Random(seed)
    for room in draw.sample(sorted(path.name for path in ROOT.iterdir() if path.is_dir()), 10):
        place, sentence = draw.choice(list(sentences(room)))
        print(f"{place}\n  {sentence}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
