"""Turns a study into the list of its training runs."""

import json
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Dict, List, Optional, Tuple

from .spec import Study, StudyError, Task, Tuning, Variant, did_you_mean, merge, setting, shown

MOST_RUNS = 10_000


@dataclass(frozen=True)
class PlannedRun:
    task: str
    variant: str
    seed: int
    settings: Dict[str, Any]  # as in a run's config.json
    pretrain: Optional[Dict[str, Any]]  # of a first stage, whose model the run starts from
    folder: PurePosixPath  # below the study's folder
    tried: Any = None  # the value that a run of the tuning tries

    @property
    def pretrain_folder(self) -> PurePosixPath:
        return self.folder.parent / (self.folder.name + "-pretrain")

    @property
    def label(self) -> str:
        return " ".join(filter(None, [self.task, self.variant, f"seed {self.seed}"]))


def _check_reserved(settings: Dict[str, Any], whose: str) -> None:
    if "seed" in settings:
        raise StudyError(f"{whose} has the setting seed; the study's list \"seeds\" gives it.")
    if "from" in settings:
        raise StudyError(f"{whose} has the setting from; a study trains its first stage itself: use \"pretrain\".")


def variant_settings(study: Study, task: Task, variant: Variant) -> Dict[str, Any]:
    return merge(merge(study.settings, task.settings), variant.settings)


def _run(study: Study, task: Task, variant: Variant, seed: int, folder: PurePosixPath, over: Dict[str, Any],
         tried: Any = None) -> PlannedRun:
    settings = merge(variant_settings(study, task, variant), over)
    _check_reserved(settings, f"Variant '{variant.name}'")
    pretrain = None
    settings["seed"] = seed
    if study.pretrain is not None and variant.pretrained:
        _check_reserved(study.pretrain, "The first stage")
        pretrain = merge(settings, study.pretrain)
    return PlannedRun(task.name, variant.name, seed, settings, pretrain, folder, tried)


def without_equal(study: Study) -> Tuple[Study, List[str]]:
    """Drops variants whose settings are those of an earlier one, and says so."""
    kept: List[Variant] = []
    notes = []
    for variant in study.variants:
        for other in kept:
            if (variant.settings, variant.pretrained) == (other.settings, other.pretrained):
                notes.append(f"{variant.name} has the settings of {other.name} and is counted once, as {other.name}.")
                break
        else:
            kept.append(variant)
    return study.changed(variants=kept), notes


def tuning_runs(study: Study, tuning: Tuning) -> List[PlannedRun]:
    runs = []
    for task in study.tasks:
        for variant in study.variants:
            for value in tuning.values:
                folder = PurePosixPath(task.name, "tune", variant.name, f"{tuning.key}-{json.dumps(value)}".replace('"', ""))
                over = setting(tuning.key, value)
                runs.append(_run(study, task, variant, tuning.seed, folder, over, value))
    return runs


def reported_runs(study: Study, chosen: Dict[Tuple[str, str], Any]) -> List[PlannedRun]:
    """`chosen`: by task and variant, where a setting was tuned. Those without a choice are left out."""
    runs = []
    for task in study.tasks:
        for variant in study.variants:
            over: Dict[str, Any] = {}
            if study.tuning:
                if (task.name, variant.name) not in chosen:
                    continue
                over = setting(study.tuning.key, chosen[task.name, variant.name])
            for seed in study.seeds:
                folder = PurePosixPath(task.name, "runs", variant.name, f"seed-{seed}")
                runs.append(_run(study, task, variant, seed, folder, over))
    if len(runs) > MOST_RUNS:
        raise StudyError(f"The study has more than {MOST_RUNS} runs; make it smaller.")
    return runs


def setting_from_text(text: str) -> Dict[str, Any]:
    """KEY=VALUE, the value as JSON or as a text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise StudyError(f"--set takes KEY=VALUE, such as max_steps=100, not {shown(text)}.")
    try:
        return setting(key, json.loads(value))
    except ValueError:
        return setting(key, value)


def with_settings(study: Study, texts: List[str]) -> Study:
    """The study with `texts` (KEY=VALUE) over its settings. Refuses one that changes no run."""
    for text in texts:
        over = setting_from_text(text)
        key = text.partition("=")[0]
        if key in ("seed", "from"):
            raise StudyError(f"--set {text} cannot be used: the study gives {key} to each run itself.")
        if study.tuning and key == study.tuning.key:
            raise StudyError(f"--set {text} would change nothing: the study chooses {key} among "
                             f"{', '.join(map(json.dumps, study.tuning.values))}; use --tune with one value.")
        tasks = [replace(task, settings=merge(task.settings, over)) for task in study.tasks]
        changed = study.changed(tasks=tasks)
        if all(variant_settings(study, task, v) == variant_settings(changed, new, v)
               for task, new in zip(study.tasks, tasks) for v in study.variants):
            raise StudyError(f"--set {text} changes nothing: every variant already has a value of {key} that it cannot "
                             "change; leave it out, or change the study's file.")
        study = changed
    return study


def choose(study: Study, tasks: List[str], data: Dict[str, str]) -> Tuple[Study, List[str]]:
    """The study cut to `tasks` (empty: all) with `data` by task; with a sentence for each that lacks its data."""
    names = [task.name for task in study.tasks]
    for name in list(tasks) + list(data):
        if name not in names:
            known = ", ".join(names) if names != [""] else "none; the study has no list of tasks"
            raise StudyError(f"There is no task '{name}' (known: {known}).{did_you_mean(name, names)}")
    for name in data:
        if tasks and name not in tasks:
            raise StudyError(f"Data is given for {name}, which is not among the tasks to run.")
    kept, notes = [], []
    for task in study.tasks:
        if tasks and task.name not in tasks:
            continue
        if task.name in data:
            task = replace(task, settings=merge(task.settings, {"data": data[task.name]}), generate=None)
        elif task.needs:
            notes.append(f"{task.title} is left out: give its data with --data {task.name}=PATH ({task.needs}).")
            continue
        kept.append(task)
    if not kept:
        raise StudyError("No task can be run: " + " ".join(notes))
    return study.changed(tasks=kept), notes


def only(study: Study, names: List[str]) -> List[str]:
    known = [variant.name for variant in study.variants]
    for name in names:
        if name not in known:
            raise StudyError(f"There is no variant '{name}' (known: {', '.join(known)}).{did_you_mean(name, known)}")
    return names or known
