"""Means and spreads over seeds, and differences seed by seed."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional

from .plan import PlannedRun
from .spec import Corrupted, Study, Task

CASE = "accuracy "  # the name of a group's score begins so


@dataclass(frozen=True)
class MeanSpread:
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
    if n == 1:
        return MeanSpread(1, mean)
    squares = 0.0
    for value in values:
        squares += (value - mean) * (value - mean)
    return MeanSpread(n, mean, math.sqrt(squares / (n - 1)))


def paired_difference(values: Dict[int, float], base: Dict[int, float]) -> MeanSpread:
    """Of value - base over the seeds that both have."""
    return mean_spread(value - base[seed] for seed, value in sorted(values.items()) if seed in base)


@dataclass
class VariantSummary:
    variant: str
    by_seed: Dict[int, float] = field(default_factory=dict)  # the metric, of the runs that are done
    parameters: int = 0
    heads: Optional[int] = None
    head_width: Optional[int] = None
    state_bytes: Optional[int] = None
    chosen: Any = None  # the value of the tuned setting
    score: MeanSpread = MeanSpread()
    difference: MeanSpread = MeanSpread()  # to the first variant; n = 0 for the first itself
    scores: Dict[str, MeanSpread] = field(default_factory=dict)
    corrupted: Dict[str, List[MeanSpread]] = field(default_factory=dict)  # by kind, one a strength
    corrupted_mean: Dict[str, MeanSpread] = field(default_factory=dict)
    seconds: MeanSpread = MeanSpread()
    cpu_seconds: MeanSpread = MeanSpread()
    steps: List[int] = field(default_factory=list)  # evaluations that all runs have
    epochs: List[int] = field(default_factory=list)
    curve: List[MeanSpread] = field(default_factory=list)
    failed: int = 0


@dataclass
class TaskSummary:
    task: Task
    metric: str
    split: str
    corrupted: Optional[Corrupted]
    variants: List[VariantSummary]


def number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _known(records: List[Dict[str, Any]], key: str) -> MeanSpread:
    return mean_spread(r[key] for r in records if r[key] is not None)


def _add_corrupted(records: List[Dict[str, Any]], corrupted: Corrupted, summary: VariantSummary) -> None:
    count = len(corrupted.strengths)
    for kind in corrupted.kinds:
        # Records of an earlier rule have other strengths.
        rows = [r["corrupted"][kind] for r in records if len(r["corrupted"].get(kind, [])) == count]
        summary.corrupted[kind] = [mean_spread(row[s] for row in rows) for s in range(count)]
        summary.corrupted_mean[kind] = mean_spread(mean_spread(row).mean for row in rows)


def _add_curve(records: List[Dict[str, Any]], summary: VariantSummary) -> None:
    curves = [r["curve"] for r in records]
    for i, step in enumerate(curves[0]["steps"] if curves else []):
        values = [number(c["values"][c["steps"].index(step)]) for c in curves if step in c["steps"]]
        if len(values) < len(curves):
            continue
        summary.steps.append(step)
        summary.epochs.append(curves[0]["epochs"][i])
        summary.curve.append(mean_spread(values))


def _summarize_variant(name: str, found: Dict[int, Dict[str, Any]], metric: str, study: Study) -> VariantSummary:
    summary = VariantSummary(name)
    done = {seed: record for seed, record in sorted(found.items()) if record["state"] == "done"}
    records = list(done.values())
    summary.failed = sum(bool(record["error"]) for record in found.values())
    for seed, record in done.items():
        summary.parameters = record["parameters"]
        summary.heads, summary.head_width = record["heads"], record["head_width"]
        summary.state_bytes = record.get("state_bytes")
        if metric in record["scores"]:
            summary.by_seed[seed] = number(record["scores"][metric])
    for score in sorted({name for record in records for name in record["scores"]}):
        summary.scores[score] = mean_spread(number(r["scores"][score]) for r in records if score in r["scores"])
    if study.corrupted:
        _add_corrupted(records, study.corrupted, summary)
    _add_curve(records, summary)
    summary.score = summary.scores.get(metric, MeanSpread())
    summary.seconds, summary.cpu_seconds = _known(records, "seconds"), _known(records, "cpu_seconds")
    return summary


def summarize(study: Study, runs: List[PlannedRun], records: Dict[Any, Dict[str, Any]]) -> List[TaskSummary]:
    """`records` by the run's folder."""
    summaries = []
    for task in study.tasks:
        own = [run for run in runs if run.task == task.name]
        kept = [records[run.folder] for run in own if run.folder in records]
        metric = next((r["metric"] for r in kept if r["metric"]), "loss")
        split = next((r["scored_by"]["split"] for r in kept if r["scored_by"]), task.split or "test")
        variants = []
        for variant in study.variants:
            found = {run.seed: records[run.folder] for run in own
                     if run.variant == variant.name and run.folder in records}
            variants.append(_summarize_variant(variant.name, found, metric, study))
            if len(variants) > 1:
                variants[-1].difference = paired_difference(variants[-1].by_seed, variants[0].by_seed)
        summaries.append(TaskSummary(task, metric, split, study.corrupted, variants))
    return summaries


def lower_is_better(metric: str) -> bool:
    return metric == "loss"


def best_values(runs: List[PlannedRun], records: Dict[Any, Dict[str, Any]]) -> Dict[Any, Any]:
    """By task and variant: the tried value with the best score, the first of equal ones."""
    best: Dict[Any, Any] = {}
    for run in runs:
        record = records.get(run.folder)
        if record is None or record["state"] != "done":
            continue
        score = number(record["scores"].get(record["metric"]))
        if not math.isfinite(score):
            continue
        score = -score if lower_is_better(record["metric"]) else score
        key = (run.task, run.variant)
        if key not in best or score > best[key][0]:
            best[key] = (score, run.tried)
    return {key: value for key, (_, value) in best.items()}


def mean_over_tasks(summaries: List[TaskSummary], variant: int) -> MeanSpread:
    """Of the seeds that all tasks have, where all have the same metric."""
    scores = [summary.variants[variant].by_seed for summary in summaries]
    seeds = set(scores[0]).intersection(*scores[1:])
    return mean_spread(sum(score[seed] for score in scores) / len(scores) for seed in sorted(seeds))
