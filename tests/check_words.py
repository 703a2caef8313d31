#!/usr/bin/env python3
"""Checks that documents, sources and messages use the standard terms of the table in tests/words.md.

usage: check_words.py SOURCE_DIR [--counts]; exits 1 and names each line with a word of a row whose last column is 0.
--counts prints how often the words of the other rows are left in tost/. Names are not checked: identifiers, literals of
one word (keys, formats), flags and what stands in backquotes.
"""
import pathlib
import re
import sys

FOLDERS = ["tost", "python", "docs", "scripts", "tests", "bench", "fuzz", "examples", "cmake"]
SUFFIXES = {".h", ".cc", ".py", ".sh", ".md", ".txt", ".cmake"}
HEADER = "| write | meaning | not | left |"
NAMES = re.compile(r"`([^`]+)`")
C_SUFFIXES = {".h", ".cc"}
LITERAL = r'R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
COMMENT_OR_LITERAL = re.compile(rf"//[^\n]*|{LITERAL}", re.S)
NAME = re.compile(r"\"[^\s\"]*\"|`[^`\n]*`|--[\w-]+")
WORDS = pathlib.Path("tests/words.md")
SKIPPED = {"phrases.py", "check_words.py", WORDS.name}  # the phrases of a synthetic text; the words themselves


def rows(text):
    """(standard term, [words to avoid], number that is left) for each row of the table with words to avoid."""
    table = text[text.index(HEADER):].split("\n\n")[0].splitlines()[2:]
    for line in table:
        term, _, avoid, left = (cell.strip() for cell in line.strip("|").split("|"))
        if avoid:
            yield term, NAMES.findall(avoid), int(left)


def pattern(words):
    """Matches the words in any case, also over the end of a line of a comment; … stands for up to three words."""
    gap = r"\s+(?:(?://|#)\s*)?"
    parts = [gap.join(re.escape(word) for word in part.split()) for part in words.split("…")]
    return r"\b" + (rf"(?:{gap}[\w'-]+){{0,3}}{gap}").join(parts) + r"\b"


def dots(match_or_text):
    """As many dots, lines kept."""
    text = match_or_text if isinstance(match_or_text, str) else match_or_text.group()
    return re.sub(r"[^\n]", ".", text)


def prose(text, suffix):
    """The text with dots for names, and in C++ for all but comments and literals."""
    if suffix not in C_SUFFIXES:
        return NAME.sub(dots, text)
    parts, end = [], 0
    for match in COMMENT_OR_LITERAL.finditer(text):
        parts += [dots(text[end : match.start()]), NAME.sub(dots, match.group())]
        end = match.end()
    return "".join(parts) + dots(text[end:])


def sources(root):
    """Files to check, with their prose."""
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))] + sorted(root.glob("*.md"))
    for path in paths:
        if path.suffix in SUFFIXES and path.name not in SKIPPED and "corpus" not in path.parts:
            yield path, prose(path.read_text(), path.suffix)


def main(root, counts):
    entries = list(rows((root / WORDS).read_text()))
    banned = [(term, re.compile("|".join(map(pattern, words)), re.I)) for term, words, left in entries if left == 0]
    texts = list(sources(root))
    if counts:
        for term, words, left in entries:
            found = re.compile("|".join(map(pattern, words)), re.I)
            now = sum(len(found.findall(text)) for path, text in texts if path.is_relative_to(root / "tost"))
            print(f"{now:5}  (table: {left})  {', '.join(words)}: write '{term}'")
        return 0
    offences = 0
    for path, text in texts:
        for term, words in banned:
            for match in words.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                found = re.sub(r"\s+(?:(?://|#)\s*)?", " ", match.group())
                print(f"{path}:{line}: '{found}': write '{term}' ({WORDS})")
                offences += 1
    if not offences:
        print("no word of the table that is to be avoided is used")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), "--counts" in sys.argv[2:]))
