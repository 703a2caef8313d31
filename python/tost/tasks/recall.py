"""Samples of associative recall, a needle in a haystack, copying and state tracking.

A sample is tokens and targets of one length. A target is the token that comes next and is asked for, or -1.
"""

import itertools
import math
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from .phrases import DEEDS, KEYS, PEOPLE, PLACES, QUALITIES, THINGS

Sample = Tuple[np.ndarray, np.ndarray]
BLANK, REPEAT, FIRST_SYMBOL = 0, 1, 2  # of copying


class Case(NamedTuple):
    """How long and how hard a sample is."""

    length: int
    pairs: int = 0  # keys with a value, or symbols
    depth: float = -1.0  # of a needle: share of the haystack before it; -1: drawn for each sample

    @property
    def name(self) -> str:
        parts = [str(self.length)] + [str(self.pairs)] * (self.pairs > 0) + [f"{self.depth:g}"] * (self.depth >= 0)
        return "/".join(parts)


class Task:
    """Draws samples by sample(), or raises ValueError with what would fit for a case that cannot be made."""

    defaults: Dict[str, Any] = {}
    has_pairs = False
    restores = False  # targets are the tokens themselves, restored once all are read
    tokenizer = ""

    def __init__(self, **options: Any):
        self.__dict__.update({**self.defaults, **options})

    @property
    def vocabulary(self) -> int:
        return self.vocab


def need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def check_length(case: Case, least: int, why: str, even: bool = False) -> None:
    need(case.length >= least, f"A length of {case.length} is too short: {why} needs at least {least} tokens.")
    need(not even or case.length % 2 == 0, f"A length of {case.length} is odd; {why} takes an even one.")


def blank(case: Case, value: int = 0) -> Sample:
    return np.full(case.length, value, np.int64), np.full(case.length, -1, np.int64)


class Recall(Task):
    """Multi-query associative recall (arXiv 2312.04927): keys with values, then each key once more as a query."""

    defaults = {"vocab": 256, "power": 0.01, "filler": "random"}
    has_pairs = True

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(self.vocab >= 4, f"vocab is {self.vocab}; associative recall needs at least 4 tokens.")
        need(0 < self.power <= 16, f"power is {self.power}; it must be above 0 and at most 16.")
        need(self.filler in ("random", "zeros"), f"filler is {self.filler}; it must be random or zeros.")
        need(case.pairs >= 1, f"There must be at least 1 pair, not {case.pairs}.")
        most = self.vocab // 2 - 1  # 0 is no key
        need(case.pairs <= most, f"A vocabulary of {self.vocab} has {most} keys and cannot make {case.pairs} pairs; raise "
                                 f"vocab to at least {2 * (case.pairs + 1)}.")
        check_length(case, 4 * case.pairs, f"{case.pairs} pairs with a query each", even=True)
        half, context = self.vocab // 2, 2 * case.pairs
        tokens, targets = blank(case)
        keys = 1 + random.permutation(half - 1)[:case.pairs]
        values = half + random.permutation(self.vocab - half)[:case.pairs]
        # Drawn one after another with weight (place + 1)^(power - 1): the order in which exponential clocks ring.
        free = (case.length - context) // 2
        waits = random.exponential(size=free) * np.arange(1, free + 1) ** (1 - self.power)
        queries = context + 2 * np.argsort(waits)[:case.pairs]
        tokens[0:context:2], tokens[1:context:2], tokens[queries], targets[queries] = keys, values, keys, values
        if self.filler == "random":
            empty = tokens == 0
            tokens[empty] = random.integers(self.vocab, size=int(empty.sum()))
        return tokens, targets


class Copying(Task):
    """Random symbols, `gap` blanks, a sign, and the symbols again."""

    defaults = {"vocab": 64, "gap": 0}

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(self.vocab > FIRST_SYMBOL, f"vocab is {self.vocab}; copying needs at least 3 tokens, two of which are the "
                                        "blank and the sign to repeat.")
        need(self.gap >= 0, f"gap is {self.gap}; it must be at least 0.")
        check_length(case, self.gap + 2, f"copying over a gap of {self.gap}")
        need((case.length - self.gap) % 2 == 0, f"A length of {case.length} less a gap of {self.gap} is odd; a string and "
                                                "its copy take an even number.")
        count = (case.length - self.gap) // 2
        sign = count + self.gap
        tokens, targets = blank(case, BLANK)
        tokens[:count] = random.integers(FIRST_SYMBOL, self.vocab, size=count)
        tokens[sign] = REPEAT
        targets[sign:] = tokens[:count]
        tokens[sign + 1:] = tokens[:count - 1]  # the last symbol of the copy is predicted, not read
        return tokens, targets


class State(Task):
    """Uniform elements of the permutations of `moved` things, 0 the identity; the product so far is asked for."""

    moved = 2

    def __init__(self, **options: Any):
        super().__init__(**options)
        elements = [p + tuple(range(self.moved, 3)) for p in itertools.permutations(range(self.moved))]
        # products[state, next]: first `state`, then `next`.
        self.products = np.array([[elements.index(tuple(b[i] for i in a)) for b in elements] for a in elements])

    @property
    def vocabulary(self) -> int:
        return len(self.products)

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        check_length(case, 1, "a word of group elements")
        tokens, targets = blank(case)
        tokens[:] = random.integers(self.vocabulary, size=case.length)
        state = 0
        for i, token in enumerate(tokens):
            targets[i] = state = self.products[state, token]
        return tokens, targets


class Symmetric3(State):
    moved = 3


DIGITS = 5


def sentence(key: str, code: str) -> bytes:
    return f"The code of {key} is {code}. ".encode()


def question(key: str, code: str) -> bytes:
    return f"\nThe code of {key} is {code}".encode()


class Needle(Task):
    """A haystack of bytes with a sentence that gives a code; at the end its five digits are asked for."""

    defaults = {"distractors": 0, "questions": 1, "haystack": ""}
    tokenizer = "bytes"
    vocabulary = 257

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.text = b""
        if self.haystack:
            with open(self.haystack, "rb") as file:
                self.text = file.read()

    def _hay(self, length: int, random: np.random.Generator) -> bytes:
        if self.haystack:
            begin = int(random.integers(len(self.text) - length + 1))
            return self.text[begin:begin + length]
        parts: List[str] = []
        size = 0
        while size < length:
            a, b, c, d, e, f = (words[int(i)] for words, i in zip((QUALITIES, PEOPLE, DEEDS, QUALITIES, THINGS, PLACES),
                                                                  random.integers(12, size=6)))
            parts.append(f"The {a} {b} {c} the {d} {e} {f}. ")
            size += len(parts[-1])
        return "".join(parts).encode()[:length]

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(0 <= self.distractors < len(KEYS), f"distractors is {self.distractors}; it must be 0 to {len(KEYS) - 1}.")
        need(1 <= self.questions <= self.distractors + 1, f"questions is {self.questions} but there are "
             f"{self.distractors + 1} needles to ask for (distractors + 1).")
        longest = "x" * max(map(len, KEYS))
        frame = (self.distractors + 1) * len(sentence(longest, "0" * DIGITS)) \
            + self.questions * len(question(longest, "0" * DIGITS)) - 1
        check_length(case, frame, f"needles ({self.distractors + 1}) with questions ({self.questions})")
        need(not self.haystack or len(self.text) >= case.length, f"'{self.haystack}' has {len(self.text)} bytes, too few "
             f"for a haystack of {case.length}; give a longer text or shorter lengths.")
        names = [KEYS[int(i)] for i in random.permutation(len(KEYS))[:self.distractors + 1]]
        needles = [(name, "".join(map(str, random.integers(10, size=DIGITS)))) for name in names]
        depth = random.random()
        asked = needles[:self.questions]
        filler = case.length + 1 - sum(len(question(*n)) for n in asked) - sum(len(sentence(*n)) for n in needles)
        places = [int(random.random() * (filler + 1)) for _ in needles]
        share = case.depth if case.depth >= 0 else depth
        places[0] = math.floor(share * filler + 0.5)
        hay = self._hay(filler, random)
        places = [begin_of_sentence(hay, place) for place in places]
        text, done = b"", 0
        for place, needle in sorted(zip(places, needles), key=lambda item: item[0]):
            text += hay[done:place] + sentence(*needle)
            done = place
        text += hay[done:]
        ends = []
        for needle in asked:
            text += question(*needle)
            ends.append(len(text))
        tokens, targets = blank(case)
        tokens[:] = np.frombuffer(text[:case.length], np.uint8)
        for end, (_, code) in zip(ends, asked):
            targets[end - DIGITS - 1:end - 1] = np.frombuffer(code.encode(), np.uint8)
        return tokens, targets


def begin_of_sentence(text: bytes, at: int) -> int:
    """The last beginning of a sentence, or else of a word, at or before `at`."""
    if at == 0:
        return 0
    found = text.rfind(b". ", 0, at) if at >= 2 else -1
    if found >= 0 and at - found < 200:
        return found + 2
    return max(text.rfind(mark, 0, at) for mark in (b" ", b"\n", b"\t")) + 1
