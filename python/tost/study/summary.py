"""Means and spreads over seeds, and differences seed by seed."""

import math
from typing import Any, Dict, Iterable, List, NamedTuple

from .plan import PlannedRun
from .spec import Fields

CASE = "accuracy "  # the name of a group's score begins so


class MeanSpread(NamedTuple):
    """`spread`: the sample standard deviation (divisor n - 1); NaN below n = 2."""

    n: int = 0
    mean: float = math.nan
    spread: float = math.nan


def mean_spread(values: Iterable[float]) -> MeanSpread:
    values = list(values)
    n = len(values)
    if n == 0:
        return MeanSpread()
    mean = sum(values) / n
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1)) if n > 1 else math.nan
    return MeanSpread(n, mean, spread)


def paired_difference(values: Dict[int, float], base: Dict[int, float]) -> MeanSpread:
    """Of value - base over the seeds that both have."""
    return mean_spread(value - base[seed] for seed, value in sorted(values.items()) if seed in base)


def number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _corrupted(records: List[Dict[str, Any]], study: Fields) -> Dict[str, List[List[float]]]:
    """By kind, a row of scores for each run; records of an earlier rule have other strengths."""
    kinds, count = (study.corruptions.kinds, len(study.corruptions.strengths)) if study.corruptions else ([], 0)
    return {kind: [r["corrupted"][kind] for r in records if len(r["corrupted"].get(kind, [])) == count] for kind in kinds}


def _curve(records: List[Dict[str, Any]]) -> List[Any]:
    """Step, epoch and score of the evaluations that all runs have."""
    curves = [dict(zip(r["curve"]["steps"], r["curve"]["values"])) for r in records]
    first = records[0]["curve"] if records else {"steps": [], "epochs": []}
    return [(step, epoch, mean_spread(number(curve[step]) for curve in curves))
            for step, epoch in zip(first["steps"], first["epochs"]) if all(step in curve for curve in curves)]


def _summarize_variant(name: str, found: Dict[int, Dict[str, Any]], metric: str, study: Fields) -> Fields:
    """`by_seed`: the metric, of the runs that are done. `corrupted`: by kind, one a strength. `difference`: to the first variant."""
    done = {seed: record for seed, record in sorted(found.items()) if record["state"] == "done"}
    records = list(done.values())
    last = records[-1] if records else {}
    names = sorted({name for record in records for name in record["scores"]})
    scores = {score: mean_spread(number(r["scores"][score]) for r in records if score in r["scores"]) for score in names}
    damaged, curve = _corrupted(records, study), _curve(records)
    kept = {key: last.get(key) for key in ("heads", "head_width", "state_bytes")}
    times = {key: mean_spread(r[key] for r in records if r[key] is not None) for key in ("seconds", "cpu_seconds")}
    return Fields(
        variant=name, parameters=last.get("parameters", 0), **kept, **times, chosen=None,
        by_seed={seed: number(record["scores"][metric]) for seed, record in done.items() if metric in record["scores"]},
        score=scores.get(metric, MeanSpread()), scores=scores, difference=MeanSpread(),
        corrupted={kind: [mean_spread(row[s] for row in rows) for s in range(len(study.corruptions.strengths))]
                   for kind, rows in damaged.items()},
        corrupted_mean={kind: mean_spread(mean_spread(row).mean for row in rows) for kind, rows in damaged.items()},
        steps=[step for step, _, _ in curve], epochs=[epoch for _, epoch, _ in curve], curve=[score for _, _, score in curve],
        failed=sum(bool(record["error"]) for record in found.values()),
    )


def summarize(study: Fields, runs: List[PlannedRun], records: Dict[Any, Dict[str, Any]], chosen: Dict[Any, Any]) -> List[Fields]:
    """A summary of each task. `records` by the run's folder; `chosen`: the tuned setting by task and variant."""
    summaries = []
    for task in study.tasks:
        own = [(run, records[run.folder]) for run in runs if run.task == task.name and run.folder in records]
        metric = next((record["metric"] for _, record in own if record["metric"]), "loss")
        split = next((record["scored_by"]["split"] for _, record in own if record["scored_by"]), task.split or "test")
        variants: List[Fields] = []
        for variant in study.variants:
            found = {run.seed: record for run, record in own if run.variant == variant.name}
            summary = _summarize_variant(variant.name, found, metric, study)
            if variants:
                summary.difference = paired_difference(summary.by_seed, variants[0].by_seed)
            variants.append(summary.changed(chosen=chosen.get((task.name, variant.name))))
        summaries.append(Fields(task=task, metric=metric, split=split, corrupted=study.corruptions, variants=variants))
    return summaries


def best_values(runs: List[PlannedRun], records: Dict[Any, Dict[str, Any]]) -> Dict[Any, Any]:
    """By task and variant: the tried value with the best score, the first of equal ones."""
    best: Dict[Any, Any] = {}
    for run in runs:
        record = records.get(run.folder, {"state": ""})
        if record["state"] == "done":
            score = number(record["scores"].get(record["metric"])) * (-1 if record["metric"] == "loss" else 1)
            place = run.task, run.variant
            if math.isfinite(score) and (place not in best or score > best[place][0]):
                best[place] = score, run.tried
    return {place: value for place, (_, value) in best.items()}
