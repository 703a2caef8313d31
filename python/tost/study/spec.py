"""Reads and checks study files: what is trained, with which seeds, and what is scored."""

import difflib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List

CORRUPTIONS = ["noise", "blur", "occlusion", "contrast"]
STRENGTHS = 5
MOST_ENTRIES = 1000  # of a list
MOST_BYTES = 1 << 20
MOST_NESTING = 16
MOST_SEED = 1 << 40
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")  # a folder's name on every system
TYPES = {str: "a text", dict: "an object", list: f"a list of 1 to {MOST_ENTRIES} entries", int: "an integer", bool: "true or false"}


class StudyError(Exception):
    """One sentence for the user; `code` is the exit code: 2 usage, 1 data."""

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code


class Fields(SimpleNamespace):
    """An object of a study file: its keys, with the usual values of those that are not there."""

    def changed(self, **values) -> "Fields":
        return Fields(**{**vars(self), **values})


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def did_you_mean(word: str, known: List[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f" Did you mean '{near[0]}'?" if near else ""


def merge(base: Dict[str, Any], over: Dict[str, Any]) -> Dict[str, Any]:
    """`base` changed by `over`; objects are merged field by field."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merge(result[key], value) if both else value
    return result


def each_once(values: List[Any]) -> List[Any]:
    """Drops repetitions: a seed given twice is one run, not two."""
    return [value for i, value in enumerate(values) if value not in values[:i]]


def need(condition: Any, message: str) -> None:
    if not condition:
        raise StudyError(message)


def read(value: Any, where: str, **usual: Any) -> Fields:
    """The fields of an object, those of `usual` and no others, each of the type of its usual value."""
    need(isinstance(value, dict), f"{where} must be an object, found {shown(value)}.")
    for key, found in value.items():
        need(key in usual, f"{where} has an unknown key '{key}' (known: {', '.join(usual)}).{did_you_mean(key, list(usual))}")
        kind = type(usual[key])
        right = type(found) is kind and (kind is not list or 1 <= len(found) <= MOST_ENTRIES)
        need(right, f"{where}: '{key}' must be {TYPES[kind]}, found {shown(found)}.")
    return Fields(**{**usual, **value})


def check_integers(values: List[Any], low: int, high: int, where: str) -> List[int]:
    need(values and all(type(v) is int and low <= v <= high for v in values),
         f"{where} must be a list of integers from {low} to {high}, such as [1, 2], found {shown(values)}.")
    return each_once(values)


def _split(value: Any, where: str) -> str:
    """Of an object with the field split alone."""
    split = read(value, where, split="").split
    need(split in ("", "test", "validation"), f"{where}: split is '{split}' but must be test or validation.")
    return split


def _named(items: List[Fields], where: str) -> List[Fields]:
    names = [item.name for item in items]
    for name in names:
        need(NAME.fullmatch(name), f"{where}: '{name[:100]}' cannot be a name: letters, digits and . _ - + are possible, at "
                                   "most 80, with a letter or digit first.")
        need(names.count(name) == 1, f"{where}: '{name}' is there twice; give each a different name.")
    return items


def _variant(value: Any, where: str) -> Fields:
    found = read(value, where, name="", settings={}, pretrain=True)
    need("pretrain" not in value or not found.pretrain, f"{where}: 'pretrain' must be false, or left out.")
    return found


def _task(value: Any, where: str) -> Fields:
    """`needs`: what --data must give; `generate`: arguments of tost.tasks.make. A study without tasks has one without a name."""
    found = read(value, where, name="", title="", settings={}, needs="", generate={}, score={})
    return found.changed(title=found.title or found.name, split=_split(found.score, f"{where}, score"))


def setting(key: str, value: Any) -> Dict[str, Any]:
    """{"model_options": {"heads": 8}} for "model_options.heads"."""
    first, _, rest = key.partition(".")
    need(not rest or first == "model_options" and "." not in rest,
         f"The key '{key}' cannot be used: only model_options has fields, as in model_options.heads.")
    return {first: {rest: value} if rest else value}


def _times(variants: List[Fields], key: str, values: Any, where: str) -> List[Fields]:
    need(isinstance(values, list) and 1 <= len(values) <= MOST_ENTRIES,
         f"{where}: the values of '{key}' must be a list of 1 to {MOST_ENTRIES}, found {shown(values)}.")
    points = []
    for variant in variants:
        for value in each_once(values):
            text = re.sub(r"[^A-Za-z0-9._+-]", "-", value if isinstance(value, str) else json.dumps(value))
            point = text if key == "mixer" else f"{key.split('.')[-1]}-{text}"
            name = "_".join(filter(None, [variant.name, point]))
            points.append(variant.changed(name=name, settings=merge(variant.settings, setting(key, value))))
    need(len(points) <= 10 * MOST_ENTRIES, f"{where} has more than {10 * MOST_ENTRIES} points; make it smaller.")
    return points


def _corruptions(value: Any, where: str) -> Fields:
    found = read(value, where, kinds=CORRUPTIONS, strengths=list(range(1, STRENGTHS + 1)), split="test")
    for kind in found.kinds:
        need(kind in CORRUPTIONS, f"{where}: unknown kind {shown(kind)} (known: {', '.join(CORRUPTIONS)}).")
    _split({"split": found.split}, where)
    strengths = check_integers(found.strengths, 1, STRENGTHS, f"{where}: 'strengths'")
    return found.changed(kinds=each_once(found.kinds), strengths=strengths)


def _tune(value: Any, where: str) -> Fields:
    """The best of `values` for the setting `key` is found by one run each, of a seed that is not reported."""
    found = read(value, where, key="", values=[], seed=1000)
    need(found.key and found.values and 0 <= found.seed <= MOST_SEED,
         f"{where} must have a key, such as \"lr\", values to try, and no seed or one of at least 0.")
    return found.changed(values=each_once(found.values))


def study_from_json(value: Any, where: str) -> Fields:
    """The study, its tasks, variants, tune (or None), pretrain (or None) and corruptions (or None) checked; docs/ablations.md."""
    study = read(value, where, title="", note="", settings={}, tasks=[], variants=[], grid={}, seeds=[], tune={}, pretrain={},
                 corruptions={}, generate={}, score={}, plot="")
    study.seeds = check_integers(study.seeds, 0, MOST_SEED, f"{where}: 'seeds'")
    need(study.variants or study.grid, f"{where} compares nothing; add variants or a grid.")
    need(not (study.tasks and study.generate), f"{where} has tasks and generate; put generate into the tasks.")
    study.variants = _named([_variant(v, f"{where}, variant {i}") for i, v in enumerate(study.variants, 1)], f"{where}, variants")
    for key, values in study.grid.items():
        study.variants = _times(study.variants or [_variant({}, where)], key, values, f"{where}, grid")
    _named(study.variants, f"{where}, variants that the grid makes")
    split = _split(study.score, f"{where}, score")
    study.tasks = _named([_task(v, f"{where}, task {i}") for i, v in enumerate(study.tasks, 1)], f"{where}, tasks")
    study.tasks = study.tasks or [_task({"generate": study.generate}, where)]
    study.tasks = [task.changed(split=task.split or split) for task in study.tasks]
    for key, check in (("corruptions", _corruptions), ("tune", _tune), ("pretrain", lambda stage, _: stage)):
        setattr(study, key, check(getattr(study, key), f"{where}, {key}") if key in value else None)
    study.plot = study.plot or ("lines" if study.corruptions else "dots")
    need(study.plot in ("dots", "curve", "lines"), f"{where}: plot is '{study.plot}' but must be dots, curve or lines.")
    need(study.plot != "lines" or study.corruptions, f"{where}: plot \"lines\" needs corruptions; add them.")
    return study


def _distinct(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key '{key}' is there twice")
    return dict(pairs)


def parse_json(text: str, where: str) -> Any:
    depth = most = 0  # counted before the parser recurses
    for character in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        depth += (character in "[{") - (character in "]}")
        most = max(most, depth)
    need(most <= MOST_NESTING, f"{where} is nested deeper than {MOST_NESTING} levels.")
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except ValueError as error:
        raise StudyError(f"{where} is not JSON: {error}.") from None


def read_study(path: str) -> Fields:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise StudyError(f"'{path}' cannot be read: {error.strerror}.", 1) from None
    need(len(data) <= MOST_BYTES, f"'{path}' is larger than 1 MiB; a study file is a page of text.")
    study = study_from_json(parse_json(data.decode("utf-8", "replace"), f"'{path}'"), f"'{path}'")
    return study.changed(title=study.title or Path(path).stem)
