"""The rules of the tasks of tokens, written apart from their generators: check() fails for a sample that breaks them."""
import itertools
import re



def check(name, task, case, training, tokens, targets):
    """`tokens` and `targets` of one sample of `case`; `task` has the options as attributes."""
    assert len(tokens) == len(targets) == case.length
    assert tokens.min() >= 0 and max(tokens.max(), targets.max()) < task.vocabulary and (targets >= 0).any()
    RULES[name](task, case, training, list(map(int, tokens)), list(map(int, targets)))


def recall(task, case, training, tokens, targets):
    half, context = task.vocab // 2, 2 * case.pairs
    keys, values = tokens[0:context:2], tokens[1:context:2]
    assert len(set(keys)) == len(set(values)) == case.pairs
    assert all(1 <= key < half for key in keys) and all(half <= value < task.vocab for value in values)
    asked = [i for i, target in enumerate(targets) if target >= 0]
    assert len(asked) == case.pairs and all(i >= context and i % 2 == 0 for i in asked)
    assert {tokens[i]: targets[i] for i in asked} == dict(zip(keys, values))
    if task.filler == "zeros":
        assert all(tokens[i] == 0 for i in range(context, case.length) if i not in asked)


def needle(task, case, training, tokens, targets):
    text = bytes(tokens).decode()
    found = dict(re.findall(r"The code of (\w+) is (\d{5})\. ", text))
    assert len(found) == task.distractors + 1
    asked = [i for i, target in enumerate(targets) if target >= 0]
    assert len(asked) == 5 * task.questions
    first = None
    for question in range(task.questions):
        places = asked[5 * question:5 * question + 5]
        key = re.search(r"\nThe code of (\w+) is $", text[:places[0] + 1]).group(1)
        first = first or key
        assert "".join(chr(targets[i]) for i in places) == found[key]
        assert text[places[0] + 1:places[0] + 6] == found[key][:len(text) - places[0] - 1]
    assert len(text) == case.length
    if case.depth >= 0 and task.distractors == 0 and not task.haystack:
        place, room = text.index(f"The code of {first}"), text.index("\nThe code of")
        sentence = len(f"The code of {first} is 12345. ")
        assert -0.5 <= case.depth * (room - sentence) - place < 200
        assert place == 0 or text[place - 2:place] == ". " or text[place - 1] == " "


def copying(task, case, training, tokens, targets):
    count = (case.length - task.gap) // 2
    sign = count + task.gap
    assert all(token >= 2 for token in tokens[:count]) and tokens[count:sign] == [0] * task.gap
    assert tokens[sign:] == [1] + tokens[:count - 1]
    assert targets == [-1] * sign + tokens[:count]


def state(task, case, training, tokens, targets):
    moved = 2 if task.vocabulary == 2 else 3
    elements = [p + tuple(range(moved, 3)) for p in itertools.permutations(range(moved))]
    things = (0, 1, 2)
    for token, target in zip(tokens, targets):
        things = tuple(elements[token][i] for i in things)  # first what was there, then the token
        assert things == elements[target]


def next_tokens(case, training, tokens, targets, asked):
    """`asked`: places of the answers that a score asks for."""
    for i in range(case.length - 1):
        if training and targets[i] >= 0 or not training:
            assert targets[i] == (tokens[i + 1] if training or i + 1 in asked else -1), i
    assert targets[-1] == -1


def in_context(task, case, training, tokens, targets):
    noise = 16 if hasattr(task, "noise_vocab") and task.noise_vocab else 0
    symbols = task.vocab - noise
    keys, known, asked = symbols // 2, {}, set()
    for i in range(0, case.length, 2):
        key, value = tokens[i:i + 2]
        if key >= symbols:
            assert value >= symbols and i + 2 < case.length
            continue
        assert key < keys <= value < symbols
        if key in known:
            assert known[key] == value
            asked.add(i + 1)
        known[key] = value
    assert case.length - 1 in asked
    if training:
        assert targets == tokens[1:] + [-1]
    next_tokens(case, training, tokens, targets, asked)


def fuzzy(task, case, training, tokens, targets):
    symbols = task.vocab - 1
    keys = symbols // 2
    begin = next(i for i, token in enumerate(tokens) if token != symbols)
    assert all(token < symbols for token in tokens[begin:])
    known, asked, at = {}, set(), begin
    for is_value, group in itertools.groupby(tokens[begin:], lambda token: token >= keys):
        motif = tuple(group)
        assert len(motif) <= 3 and len(set(motif)) == len(motif)
        if is_value:
            if key in known:
                assert known[key] == motif
                asked.update(range(at, at + len(motif)))
            known[key] = motif
        else:
            key = motif
            assert training or len(motif) == 3
        at += len(motif)
    assert at == case.length and case.length - 1 in asked
    assert all(target == -1 for target in targets[:begin])
    for i in range(begin, case.length - 1):
        assert targets[i] == (tokens[i + 1] if training or i + 1 in asked else -1), i


def selective_copying(task, case, training, tokens, targets):
    blank, sign = task.vocab - 2, case.length - case.pairs - 1
    symbols = [token for token in tokens[:sign] if token != blank]
    assert len(symbols) == case.pairs and max(symbols) < blank and tokens[sign - 1] != blank
    assert tokens[sign:] == [task.vocab - 1] + [blank] * case.pairs
    assert targets == [-1] * (sign + 1) + symbols


def memorization(task, case, training, tokens, targets):
    symbols = task.vocab - 1
    keys = symbols // 2
    assert len(set(task.values)) == keys and all(keys <= value < symbols for value in task.values)
    for i in range(0, case.length, 2):
        assert tokens[i] < keys and tokens[i + 1] == symbols and targets[i] == -1
        assert targets[i + 1] == task.values[tokens[i]]


def compression(task, case, training, tokens, targets):
    assert tokens == targets and tokens[-1] == task.vocab - 1 and max(tokens[:-1]) < task.vocab - 1


RULES = {"recall": recall, "needle": needle, "copying": copying, "parity": state, "s3": state,
         "in-context-recall": in_context, "noisy-in-context-recall": in_context, "fuzzy-in-context-recall": fuzzy,
         "selective-copying": selective_copying, "memorization": memorization, "compression": compression}
