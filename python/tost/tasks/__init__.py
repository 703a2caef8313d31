"""Synthetic tasks as files: `python -m tost.tasks NAME --out FOLDER`. Needs numpy, and no torch.

A task of tokens is a folder of train, validation and test.safetensors: `tokens` [n, T], `targets` [n, T] (the token that
is asked for at this place, -1: none) and `group` [n], with the vocabulary's size and the names of the groups as metadata.
Pathfinder is a folder of pictures, as Fashion-MNIST is (idx files). A checkout draws it; that needs Pillow.
"""

import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np

from . import files, mad, recall
from .recall import Case, Task

TASKS = {"recall": recall.Recall, "needle": recall.Needle, "copying": recall.Copying, "parity": recall.State,
         "s3": recall.Symmetric3, "in-context-recall": mad.InContextRecall, "noisy-in-context-recall": mad.NoisyRecall,
         "fuzzy-in-context-recall": mad.FuzzyRecall, "selective-copying": mad.SelectiveCopying,
         "memorization": mad.Memorization, "compression": mad.Compression}
LENGTHS = {"recall": [64], "needle": [128, 256, 512, 1024], "copying": [64], "parity": [8, 16, 32, 64],
           "s3": [8, 16, 32, 64], "selective-copying": [256], "memorization": [32], "compression": [32]}
SPLITS = ["train", "validation", "test"]
MOST_BYTES = 1 << 36  # of one file
STUDIES = Path(__file__).resolve().parents[3] / "studies"
PATHFINDER = {"side": 32, "contour_length": 14}
DEFAULTS = {"seed": 0, "train": 20_000, "validation": 256, "test": 256}


def names() -> List[str]:
    return list(TASKS) + ["pathfinder"]


def cases_of(name: str, lengths: Optional[List[int]], pairs: Optional[List[int]], depths: Optional[List[float]]) -> List[Case]:
    """One number of pairs goes with all lengths, or there are as many of both; every depth goes with every length."""
    for key, values in (("lengths", lengths), ("pairs", pairs)):
        if any(type(value) is not int or value < 1 for value in values or []):
            raise ValueError(f"{key} must be integers of at least 1, such as 64,128 or 1k,16k.")
    if any(type(depth) not in (int, float) or not 0 <= depth <= 1 for depth in depths or []):
        raise ValueError("depths must be numbers from 0 (begin of the haystack) to 1 (end), such as 0,0.5,1.")
    lengths = lengths or LENGTHS.get(name, [128])
    if not TASKS[name].has_pairs:
        if pairs:
            raise ValueError(f"pairs does not go with {name}.")
        return [Case(length, 0, depth) for depth in depths or [-1.0] for length in lengths]
    if depths:
        raise ValueError(f"depths does not go with {name}.")
    pairs = pairs or [16 if name == "selective-copying" else 4]
    count = max(len(lengths), len(pairs))
    if len(lengths) not in (1, count) or len(pairs) not in (1, count):
        raise ValueError(f"lengths has {len(lengths)} values and pairs {len(pairs)}; give as many of both, or one of either.")
    return [Case(lengths[i % len(lengths)], pairs[i % len(pairs)]) for i in range(count)]


def draw(task: Task, cases: List[Case], split: str, count: int, seed: int) -> Dict[str, np.ndarray]:
    """`count` samples of every case. Sample i of a case is a function of seed, split and case alone."""
    longest = max(case.length for case in cases)
    rows = count * len(cases)
    if rows * longest * 8 > MOST_BYTES:
        raise ValueError(f"{rows} samples of {longest} tokens are more than a file of 64 GiB; take fewer or shorter ones.")
    token_type = np.uint8 if task.vocabulary <= 256 or task.tokenizer else np.int32
    tokens = np.zeros((rows, longest), token_type)
    targets = np.full((rows, longest), -1, np.int16 if task.vocabulary < 1 << 15 else np.int32)
    for i in range(count):  # a case that cannot be made is refused at its first sample
        for number, case in enumerate(cases):
            random = np.random.default_rng([seed, SPLITS.index(split), case.length, case.pairs, i])
            sample = task.sample(case, split == "train", random)
            row = number * count + i
            tokens[row, :case.length], targets[row, :case.length] = sample
    return {"tokens": tokens, "targets": targets, "group": np.repeat(np.arange(len(cases), dtype=np.int32), count)}


def _draw_pathfinder(part: Path, options: Dict[str, Any], jobs: int) -> None:
    if not (STUDIES / "pathfinder.py").is_file():
        raise ValueError("Pathfinder is drawn by studies/pathfinder.py, which only a checkout of tost has.")
    sys.path.insert(0, str(STUDIES))
    import pathfinder

    pathfinder.write(part, options, jobs)


def make(out: Any, options: Dict[str, Any], jobs: int = 1) -> None:
    """Makes the task that `options` describe in the folder `out`, unless it is there already.

    `task` is a name of names(). Further options: lengths, pairs, depths (lists), seed, train, validation, test (samples of
    every case), and those of the task; of pathfinder side and contour_length. Raises ValueError.
    """
    given = dict(options)
    name = given.pop("task", None)
    if name not in names():
        raise ValueError(f"Unknown task '{name}' (known: {', '.join(names())}).")
    cases, own = ([], PATHFINDER) if name == "pathfinder" else (["lengths", "pairs", "depths"], TASKS[name].defaults)
    known = [*cases, *DEFAULTS, *own]
    for key in given:
        if key not in known:
            raise ValueError(f"{name} has no option {key} (known: {', '.join(known)}).")
    common = {key: given.pop(key, usual) for key, usual in DEFAULTS.items()}
    for key, value in common.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < (key != "seed"):
            raise ValueError(f"{key} is {json.dumps(value)}; it must be an integer of at least {int(key != 'seed')}.")
    if name == "pathfinder":
        made = {"task": name, **common, **own, **given}
        files.write_folder(Path(out), made, lambda part: _draw_pathfinder(part, made, jobs))
        return
    cases = cases_of(name, *(given.pop(key, None) for key in cases))
    task = TASKS[name](**given)
    groups = [case.name for case in cases]
    metadata = {"task": name, "vocabulary": str(task.vocabulary), "groups": json.dumps(groups),
                "restores": json.dumps(task.restores), "tokenizer": task.tokenizer}

    def write(part: Path) -> None:
        for split in SPLITS:
            tensors = draw(task, cases, split, common[split], common["seed"])
            files.write_safetensors(part / f"{split}.safetensors", tensors, {**metadata, "split": split})

    files.write_folder(Path(out), {"task": name, **common, "cases": groups, **own, **given}, write)
