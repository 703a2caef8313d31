"""Turns a study into the list of its training runs."""

import itertools
import json
from pathlib import PurePosixPath
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .spec import Fields, StudyError, did_you_mean, merge, need, setting, shown

MOST_RUNS = 10_000


class PlannedRun(NamedTuple):
    task: str
    variant: str
    seed: int
    settings: Dict[str, Any]  # as in a run's config.json
    pretrain: Optional[Dict[str, Any]]  # of a first stage, whose model the run starts from
    folder: PurePosixPath  # below the study's folder
    tried: Any = None  # the value that a run of the tuning tries

    def label(self, between: str = " ") -> str:
        return between.join(filter(None, [self.task, self.variant, f"seed {self.seed}"]))


def variant_settings(study: Fields, task: Fields, variant: Fields) -> Dict[str, Any]:
    return merge(merge(study.settings, task.settings), variant.settings)


def _run(study: Fields, task: Fields, variant: Fields, seed: int, folder: str, over: Dict[str, Any], tried: Any = None) -> PlannedRun:
    settings = merge(variant_settings(study, task, variant), over)
    first = study.pretrain if variant.pretrain else None
    for given, whose in ((settings, f"Variant '{variant.name}'"), (first or {}, "The first stage")):
        need("seed" not in given, f"{whose} has the setting seed; the study's list \"seeds\" gives it.")
        need("from" not in given, f"{whose} has the setting from; a study trains its first stage itself: use \"pretrain\".")
    settings["seed"] = seed
    pretrain = None if first is None else merge(settings, first)
    return PlannedRun(task.name, variant.name, seed, settings, pretrain, PurePosixPath(task.name, folder), tried)


def without_equal(study: Fields) -> Tuple[Fields, List[str]]:
    """Drops variants whose settings are those of an earlier one, and says so."""
    kept: List[Fields] = []
    notes = []
    for variant in study.variants:
        same = [other for other in kept if variant.changed(name=other.name) == other]
        if same:
            notes.append(f"{variant.name} has the settings of {same[0].name} and is counted once, as {same[0].name}.")
        else:
            kept.append(variant)
    return study.changed(variants=kept), notes


def tuning_runs(study: Fields) -> List[PlannedRun]:
    tune, runs = study.tune, []
    for task, variant, value in itertools.product(study.tasks, study.variants, tune.values):
        folder = f"tune/{variant.name}/{tune.key}-{json.dumps(value)}".replace('"', "")
        runs.append(_run(study, task, variant, tune.seed, folder, setting(tune.key, value), value))
    return runs


def reported_runs(study: Fields, chosen: Dict[Tuple[str, str], Any]) -> List[PlannedRun]:
    """`chosen`: by task and variant, where a setting was tuned. Those without a choice are left out."""
    runs = []
    for task, variant in itertools.product(study.tasks, study.variants):
        place = task.name, variant.name
        if not study.tune or place in chosen:
            over = setting(study.tune.key, chosen[place]) if study.tune else {}
            runs += [_run(study, task, variant, seed, f"runs/{variant.name}/seed-{seed}", over) for seed in study.seeds]
    need(len(runs) <= MOST_RUNS, f"The study has more than {MOST_RUNS} runs; make it smaller.")
    return runs


def with_settings(study: Fields, texts: List[str]) -> Fields:
    """The study with `texts` (KEY=VALUE, the value as JSON or as a text) over its settings. Refuses one that changes no run."""
    for text in texts:
        key, equals, value = text.partition("=")
        need(key and equals, f"--set takes KEY=VALUE, such as max_steps=100, not {shown(text)}.")
        try:
            over = setting(key, json.loads(value))
        except ValueError:
            over = setting(key, value)
        need(key not in ("seed", "from"), f"--set {text} cannot be used: the study gives {key} to each run itself.")
        if study.tune and key == study.tune.key:
            raise StudyError(f"--set {text} would change nothing: the study chooses {key} among "
                             f"{', '.join(map(json.dumps, study.tune.values))}; use --tune with one value.")
        tasks = [task.changed(settings=merge(task.settings, over)) for task in study.tasks]
        need(any(variant_settings(study, task, v) != variant_settings(study, new, v)
                 for task, new in zip(study.tasks, tasks) for v in study.variants),
             f"--set {text} changes nothing: every variant already has a value of {key} that it cannot "
             "change; leave it out, or change the study's file.")
        study = study.changed(tasks=tasks)
    return study


def choose(study: Fields, tasks: List[str], data: Dict[str, str]) -> Tuple[Fields, List[str]]:
    """The study cut to `tasks` (empty: all) with `data` by task; with a sentence for each that lacks its data."""
    names = [task.name for task in study.tasks]
    for name in list(tasks) + list(data):
        known = ", ".join(names) if names != [""] else "none; the study has no list of tasks"
        need(name in names, f"There is no task '{name}' (known: {known}).{did_you_mean(name, names)}")
        need(not tasks or name in tasks, f"Data is given for {name}, which is not among the tasks to run.")
    kept, notes = [], []
    for task in study.tasks:
        if tasks and task.name not in tasks:
            continue
        if task.name in data:
            task = task.changed(settings=merge(task.settings, {"data": data[task.name]}), generate={})
        elif task.needs:
            notes.append(f"{task.title} is left out: give its data with --data {task.name}=PATH ({task.needs}).")
            continue
        kept.append(task)
    need(kept, "No task can be run: " + " ".join(notes))
    return study.changed(tasks=kept), notes


def only(study: Fields, names: List[str]) -> List[str]:
    known = [variant.name for variant in study.variants]
    for name in names:
        need(name in known, f"There is no variant '{name}' (known: {', '.join(known)}).{did_you_mean(name, known)}")
    return names or known
