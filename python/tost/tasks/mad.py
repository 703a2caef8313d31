"""The six tasks of MAD (arXiv 2403.17844), by the rules of the authors' generator with several queries a sample.

Where a score asks for some tokens, training asks for every next token.
"""

from typing import Any, Dict, List, Tuple

import numpy as np

from .recall import Case, Sample, Task, blank, check_length, need

NOISE = 16  # the last tokens of the noisy task
MOST = 3  # tokens of a fuzzy key or value


def _sample(read: List[Tuple[int, bool]], case: Case, training: bool, padding: int) -> Sample:
    """Of tokens, each with whether the score asks for it, which it does at the token before; padding on the left."""
    tokens, targets = blank(case, padding)
    for i, (token, asked) in enumerate(read, case.length - len(read)):
        tokens[i] = token
        if (training or asked) and i > case.length - len(read):
            targets[i - 1] = token
    return tokens, targets


class InContextRecall(Task):
    """Keys of the lower half of the vocabulary, each followed by its value, drawn when the key first occurs."""

    defaults = {"vocab": 16}
    least_vocab = 2
    noise = 0.0
    noise_vocab = 0

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(self.vocab >= self.least_vocab, f"vocab is {self.vocab}; the task needs at least {self.least_vocab} tokens.")
        need(0 <= self.noise < 1, f"noise is {self.noise}; it must be at least 0 and below 1.")
        check_length(case, 4, "a pair with a query", even=True)
        symbols = self.vocab - self.noise_vocab
        pairs, keys = case.length // 2, symbols // 2
        known: Dict[int, int] = {}
        kept = int(random.integers(pairs - 1))  # is never noise
        tokens: List[Tuple[int, bool]] = []
        for i in range(pairs):
            last = i + 1 == pairs
            if not last and i != kept and random.random() < self.noise:
                tokens += [(symbols + i, False) for i in random.integers(self.noise_vocab, size=2)]
                continue
            key = list(known)[int(random.integers(len(known)))] if last else int(random.integers(keys))
            asked = key in known
            value = known.setdefault(key, int(random.integers(keys, symbols)))
            tokens += [(key, False), (value, asked)]
        return _sample(tokens, case, training, 0)


class NoisyRecall(InContextRecall):
    """The same, some pairs replaced by two tokens of noise."""

    defaults = {"vocab": 32, "noise": 0.2}
    least_vocab = NOISE + 2
    noise_vocab = NOISE


class FuzzyRecall(Task):
    """Keys and values of one to three tokens without repetition; keys of three are asked for. Padded on the left."""

    defaults = {"vocab": 16}

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(self.vocab >= 2 * MOST + 2, f"vocab is {self.vocab}; the task needs at least {2 * MOST + 2} tokens.")
        check_length(case, 8 * MOST, "a key and a value of three tokens, twice,")
        symbols = self.vocab - 1
        keys = symbols // 2
        known: Dict[Tuple[int, ...], Tuple[int, ...]] = {}
        read = set()
        tokens: List[Tuple[int, bool]] = []

        def draw_key() -> Tuple[int, ...]:
            count = 1 + int(random.integers(MOST)) if training else MOST
            return tuple(int(i) for i in random.permutation(keys)[:count])

        def value_of(key: Tuple[int, ...]) -> Tuple[int, ...]:
            if key not in known:
                count = 1 + int(random.integers(MOST))
                known[key] = tuple(keys + int(i) for i in random.permutation(symbols - keys)[:count])
            return known[key]

        def add_pair(key: Tuple[int, ...]) -> None:
            tokens.extend([(i, False) for i in key] + [(i, key in read) for i in value_of(key)])
            read.add(key)

        # The pair that is asked for at the end stands before, at a random place at the latest.
        asked = draw_key()
        room = case.length - len(asked) - len(value_of(asked)) - 2 * MOST
        after = int(random.integers(room - 2 * MOST + 1))
        while len(tokens) < room:
            add_pair(asked if asked not in read and len(tokens) >= after else draw_key())
        add_pair(asked)
        return _sample(tokens, case, training, symbols)


class SelectiveCopying(Task):
    """Symbols among blanks, to be repeated in their order after a sign."""

    defaults = {"vocab": 16}
    has_pairs = True

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(self.vocab >= 3, f"vocab is {self.vocab}; the task needs at least 3 tokens.")
        need(case.pairs >= 1, f"There must be at least 1 symbol, not {case.pairs}.")
        check_length(case, 2 * case.pairs + 1, f"copying {case.pairs} symbols")
        count, sign = case.pairs, case.length - case.pairs - 1
        tokens, targets = blank(case, self.vocab - 2)
        before = np.bincount(random.integers(count, size=sign - count), minlength=count)  # blanks before each symbol
        symbols = random.integers(self.vocab - 2, size=count)
        tokens[np.cumsum(before + 1) - 1] = symbols
        tokens[sign] = self.vocab - 1
        targets[sign + 1:] = symbols
        return tokens, targets


class Memorization(Task):
    """Keys, each followed by a sign, at which the key's value is asked for, the same in every sample of any seed."""

    defaults = {"vocab": 256}

    def __init__(self, **options: Any):
        super().__init__(**options)
        symbols = self.vocab - 1
        keys = symbols // 2
        self.values = keys + np.random.default_rng(12345).permutation(symbols - keys)[:keys]

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(self.vocab >= 3, f"vocab is {self.vocab}; the task needs at least 3 tokens.")
        check_length(case, 2, "a key with its sign", even=True)
        tokens, targets = blank(case, self.vocab - 1)
        keys = random.integers(len(self.values), size=case.length // 2)
        tokens[0::2], targets[1::2] = keys, self.values[keys]
        return tokens, targets


class Compression(Task):
    """Random tokens and a sign, all to be restored from what is known at the sign."""

    defaults = {"vocab": 16}
    restores = True

    def sample(self, case: Case, training: bool, random: np.random.Generator) -> Sample:
        need(self.vocab >= 3, f"vocab is {self.vocab}; the task needs at least 3 tokens.")
        check_length(case, 2, "a token with the sign")
        tokens, _ = blank(case, self.vocab - 1)
        tokens[:-1] = random.integers(self.vocab - 1, size=case.length - 1)
        return tokens, tokens.copy()
