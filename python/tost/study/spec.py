"""Reads and checks study files: what is trained, with which seeds, and what is scored."""

import difflib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, List, Optional

CORRUPTIONS = ["noise", "blur", "occlusion", "contrast"]
STRENGTHS = 5
MOST_ENTRIES = 1000  # of a list
MOST_BYTES = 1 << 20
MOST_NESTING = 16
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
NAME_RULE = "letters, digits and . _ - + are possible, at most 80, with a letter or digit first"
SPLITS = ["validation", "test"]


class StudyError(Exception):
    """One sentence for the user; `code` is the exit code: 2 usage, 1 data."""

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Variant:
    name: str
    settings: Dict[str, Any] = field(default_factory=dict)
    pretrained: bool = True


@dataclass(frozen=True)
class Tuning:
    """The best of `values` for the setting `key`, found by one run each, of a seed that is not reported."""

    key: str
    values: List[Any]
    seed: int = 1000


@dataclass(frozen=True)
class Corrupted:
    kinds: List[str]
    strengths: List[int]
    split: str = "test"


@dataclass(frozen=True)
class Task:
    name: str = ""  # empty: the only task of a study without a list of tasks
    title: str = ""
    settings: Dict[str, Any] = field(default_factory=dict)
    needs: str = ""  # what the user must give by --data
    generate: Optional[Dict[str, Any]] = None  # arguments of tost.tasks.make
    split: str = ""


@dataclass(frozen=True)
class Study:
    title: str
    note: str
    settings: Dict[str, Any]
    tasks: List[Task]
    variants: List[Variant]
    seeds: List[int]
    tuning: Optional[Tuning]
    pretrain: Optional[Dict[str, Any]]
    corrupted: Optional[Corrupted]
    plot: str

    def changed(self, **values) -> "Study":
        return replace(self, **values)


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
    kept: List[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


class _Reader:
    """One object of the file, whose keys are those that are asked for and no others."""

    def __init__(self, value: Any, where: str, keys: List[str]):
        self.where = where
        if not isinstance(value, dict):
            raise StudyError(f"{where} must be an object, found {shown(value)}.")
        self.value = value
        for key in value:
            if key not in keys:
                raise StudyError(f"{where} has an unknown key '{key}' (known: {', '.join(keys)}).{did_you_mean(key, keys)}")

    def fail(self, key: str, wanted: str):
        raise StudyError(f"{self.where}: '{key}' must be {wanted}, found {shown(self.value[key])}.")

    def text(self, key: str, usual: str = "") -> str:
        value = self.value.get(key, usual)
        if not isinstance(value, str):
            self.fail(key, "a text")
        return value

    def object(self, key: str) -> Dict[str, Any]:
        value = self.value.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, "an object")
        return value

    def list(self, key: str, needed: bool = False) -> List[Any]:
        if key not in self.value and not needed:
            return []
        value = self.value.get(key)
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_ENTRIES:
            raise StudyError(f"{self.where}: '{key}' must be a list of 1 to {MOST_ENTRIES} entries, found {shown(value)}.")
        return value

    def integers(self, key: str, low: int, high: int) -> List[int]:
        values = self.list(key)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                self.fail(key, f"a list of integers from {low} to {high}")
        return each_once(values)

    def name(self, key: str) -> str:
        name = self.text(key)
        if not NAME.fullmatch(name):
            raise StudyError(f"{self.where}: '{name[:100]}' cannot be a name: {NAME_RULE}.")
        return name

    def split(self, key: str = "split", usual: str = "") -> str:
        split = self.text(key, usual)
        if split and split not in SPLITS:
            raise StudyError(f"{self.where}: split is '{split}' but must be test or validation.")
        return split


def _named(values: List[Any], where: str, what: str, read) -> List[Any]:
    items = [read(value, f"{where}, {what} {i + 1}") for i, value in enumerate(values)]
    names = [item.name for item in items]
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f"{where} has two {what}s named '{name}'; give each a different name.")
    return items


def _variant(value: Any, where: str) -> Variant:
    reader = _Reader(value, where, ["name", "settings", "pretrain"])
    if value.get("pretrain", False) is not False:
        reader.fail("pretrain", "false, or left out")
    return Variant(reader.name("name"), reader.object("settings"), "pretrain" not in value)


def _task(value: Any, where: str) -> Task:
    reader = _Reader(value, where, ["name", "title", "settings", "needs", "generate", "score"])
    name = reader.name("name")
    return Task(name, reader.text("title", name), reader.object("settings"), reader.text("needs"),
                reader.object("generate") or None, _Reader(reader.object("score"), f"{where}, score", ["split"]).split())


def _point_name(key: str, value: Any) -> str:
    text = re.sub(r"[^A-Za-z0-9._+-]", "-", value if isinstance(value, str) else json.dumps(value))
    return text if key == "mixer" else f"{key.split('.')[-1]}-{text}"


def setting(key: str, value: Any) -> Dict[str, Any]:
    """{"model_options": {"heads": 8}} for "model_options.heads"."""
    if "." not in key:
        return {key: value}
    first, rest = key.split(".", 1)
    if first != "model_options" or "." in rest:
        raise StudyError(f"The key '{key}' cannot be used: only model_options has fields, as in model_options.heads.")
    return {first: {rest: value}}


def _times(variants: List[Variant], key: str, values: Any, where: str) -> List[Variant]:
    if not isinstance(values, list) or not 1 <= len(values) <= MOST_ENTRIES:
        raise StudyError(f"{where}: the values of '{key}' must be a list of 1 to {MOST_ENTRIES}, found {shown(values)}.")
    points = []
    for variant in variants:
        for value in each_once(values):
            name = "_".join(filter(None, [variant.name, _point_name(key, value)]))
            points.append(replace(variant, name=name, settings=merge(variant.settings, setting(key, value))))
    return points


def _variants(reader: _Reader) -> List[Variant]:
    variants = _named(reader.list("variants"), reader.where, "variant", _variant)
    grid = reader.object("grid")
    if not variants and not grid:
        raise StudyError(f"{reader.where} compares nothing; add variants or a grid.")
    variants = variants or [Variant("")]
    for key, values in grid.items():
        variants = _times(variants, key, values, f"{reader.where}, grid")
        if len(variants) > 10 * MOST_ENTRIES:
            raise StudyError(f"{reader.where}: the grid has more than {10 * MOST_ENTRIES} points; make it smaller.")
    names = [variant.name for variant in variants]
    for name in names:
        if not NAME.fullmatch(name) or names.count(name) > 1:
            raise StudyError(f"The grid's values make a variant named '{name}', which is no folder's name or there twice; "
                             "list the variants with names of your choice.")
    return variants


def _corrupted(value: Any, where: str) -> Corrupted:
    reader = _Reader(value, where, ["kinds", "strengths", "split"])
    kinds = each_once(reader.list("kinds")) or CORRUPTIONS
    for kind in kinds:
        if kind not in CORRUPTIONS:
            raise StudyError(f"{where}: unknown kind {shown(kind)} (known: {', '.join(CORRUPTIONS)}).")
    strengths = reader.integers("strengths", 1, STRENGTHS) or list(range(1, STRENGTHS + 1))
    return Corrupted(kinds, strengths, reader.split(usual="test"))


def _tuning(value: Any, where: str) -> Tuning:
    reader = _Reader(value, where, ["key", "values", "seed"])
    seed = value.get("seed", 1000)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= 1 << 40:
        reader.fail("seed", "an integer of at least 0")
    if not reader.text("key"):
        raise StudyError(f"{where} has no key, such as \"lr\".")
    return Tuning(reader.text("key"), each_once(reader.list("values", needed=True)), seed)


def _plot(reader: _Reader, corrupted: bool) -> str:
    plot = reader.text("plot", "lines" if corrupted else "dots")
    if plot not in ("dots", "curve", "lines"):
        raise StudyError(f"{reader.where}: plot is '{plot}' but must be dots, curve or lines.")
    if plot == "lines" and not corrupted:
        raise StudyError(f"{reader.where}: plot \"lines\" needs corruptions; add them.")
    return plot


def study_from_json(value: Any, where: str) -> Study:
    reader = _Reader(value, where, ["title", "note", "settings", "tasks", "variants", "grid", "seeds", "tune", "pretrain",
                                    "corruptions", "generate", "score", "plot"])
    seeds = reader.integers("seeds", 0, 1 << 40)
    if not seeds:
        raise StudyError(f"{where} has no seeds; add \"seeds\": [0, 1, 2].")
    split = _Reader(reader.object("score"), f"{where}, score", ["split"]).split()
    corrupted = _corrupted(value["corruptions"], f"{where}, corruptions") if "corruptions" in value else None
    tasks = _named(reader.list("tasks"), where, "task", _task)
    if tasks and "generate" in value:
        raise StudyError(f"{where} has tasks and generate; put generate into the tasks.")
    tasks = [replace(task, split=task.split or split) for task in tasks]
    study = Study(reader.text("title"), reader.text("note"), reader.object("settings"),
                  tasks or [Task(generate=reader.object("generate") or None, split=split)],
                  _variants(reader), seeds, _tuning(value["tune"], f"{where}, tune") if "tune" in value else None,
                  reader.object("pretrain") if "pretrain" in value else None, corrupted,
                  _plot(reader, corrupted is not None))
    if study.tuning and study.tuning.seed in seeds:
        raise StudyError(f"{where}: seed {study.tuning.seed} chooses {study.tuning.key}; report other seeds.")
    return study


def _distinct(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key '{key}' is there twice")
    return dict(pairs)


def _depth(text: str) -> int:
    """The deepest nesting, counted before the parser recurses into it."""
    most = depth = 0
    for character in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        depth += (character in "[{") - (character in "]}")
        most = max(most, depth)
    return most


def parse_json(text: str, where: str) -> Any:
    if _depth(text) > MOST_NESTING:
        raise StudyError(f"{where} is nested deeper than {MOST_NESTING} levels.")
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except ValueError as error:
        raise StudyError(f"{where} is not JSON: {error}.") from None


def read_study(path: str) -> Study:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise StudyError(f"'{path}' cannot be read: {error.strerror}.", 1) from None
    if len(data) > MOST_BYTES:
        raise StudyError(f"'{path}' is larger than 1 MiB; a study file is a page of text.")
    study = study_from_json(parse_json(data.decode("utf-8", "replace"), f"'{path}'"), f"'{path}'")
    return study if study.title else study.changed(title=Path(path).stem)
