"""Tables of a study as Markdown, CSV and JSON."""

import csv
import io
import math
from dataclasses import fields, is_dataclass
from typing import Any, Dict, List, Tuple

from .plan import PlannedRun
from .spec import Study
from .summary import CASE, MeanSpread, TaskSummary, VariantSummary, mean_over_tasks

NONE = "–"
SCHEMA = "tost.study/1"
VIEWS = {"top1": ("top-1 %", "top-1, %", 100, 2), "accuracy": ("accuracy %", "accuracy, %", 100, 2)}
Table = Tuple[str, List[str], List[List[str]]]  # caption, header, rows


def view(metric: str) -> Tuple[str, str, int, int]:
    """Heading of a column, label of an axis, scale and digits."""
    return VIEWS.get(metric, ("loss", "loss, nats", 1, 4))


def show(value: MeanSpread, scale: float, digits: int, sign: bool = False) -> str:
    if value.n == 0 or not math.isfinite(value.mean):
        return NONE
    mean = f"{scale * value.mean:{'+' if sign else ''}.{digits}f}"
    return f"{mean} ± {scale * value.spread:.{digits}f}" if math.isfinite(value.spread) else mean


def _seconds(value: MeanSpread) -> str:
    return show(MeanSpread(value.n, value.mean), 1, 0)


def _count(variant: VariantSummary) -> str:
    done = len(variant.by_seed)
    return f"{done} ({variant.failed} failed)" if variant.failed else str(done)


def main_table(summary: TaskSummary, tuned: str = "") -> Table:
    heading, _, scale, digits = view(summary.metric)
    pictures = summary.metric == "top1"
    variants = summary.variants
    heads, states = (any(getattr(v, key) is not None for v in variants) for key in ("heads", "state_bytes"))
    header = ["variant", "parameters"] + ["heads", "p"] * heads + ["state, bytes"] * states + [tuned] * bool(tuned)
    header += [heading, f"difference to {variants[0].variant}"] + ["loss"] * pictures + ["seeds", "seconds", "CPU s"]
    rows = []
    for v in variants:
        row = [v.variant, f"{v.parameters:,}" if v.parameters else NONE]
        row += [str(v.heads or NONE), str(v.head_width or NONE)] * heads
        row += [f"{v.state_bytes:,}" if v.state_bytes is not None else NONE] * states
        row += [NONE if v.chosen is None else str(v.chosen)] * bool(tuned)
        row += [show(v.score, scale, digits), show(v.difference, scale, digits, sign=True)]
        row += [show(v.scores.get("loss", MeanSpread()), 1, 4)] * pictures
        rows.append(row + [_count(v), _seconds(v.seconds), _seconds(v.cpu_seconds)])
    return "", header, rows


def corruption_table(summary: TaskSummary) -> Table:
    caption = "Top-1 % under corruption, mean over the strengths"
    if summary.corrupted.split != summary.split:
        caption += f" ({summary.corrupted.split}; whole pictures: {summary.split})"
    kinds = summary.corrupted.kinds
    rows = [[v.variant, show(v.score, 100, 2)] + [show(v.corrupted_mean[kind], 100, 2) for kind in kinds]
            for v in summary.variants]
    return caption, ["variant", "whole"] + kinds, rows


def _case_order(name: str) -> Tuple[List[float], str]:
    numbers = []
    for part in name.replace("/", " ").split():
        try:
            numbers.append(float(part))
        except ValueError:
            numbers.append(math.inf)
    return numbers, name


def case_table(summary: TaskSummary) -> Table:
    names = {name[len(CASE):] for v in summary.variants for name in v.scores if name.startswith(CASE)}
    ordered = sorted(names, key=_case_order)
    rows = [[v.variant] + [show(v.scores.get(CASE + name, MeanSpread()), 100, 2) for name in ordered]
            for v in summary.variants]
    return "Accuracy % by group", ["variant"] + ordered, rows


def tasks_table(summaries: List[TaskSummary]) -> Table:
    """Variants by tasks, with the mean where all tasks have the same metric."""
    same = len({summary.metric for summary in summaries}) == 1
    header = ["variant"] + [f"{s.task.title}, {view(s.metric)[0]}" for s in summaries] + ["mean"] * same
    rows = []
    for i, variant in enumerate(summaries[0].variants):
        row = [variant.variant]
        for summary in summaries:
            _, _, scale, digits = view(summary.metric)
            row.append(show(summary.variants[i].score, scale, digits))
        if same:
            row.append(show(mean_over_tasks(summaries, i), *view(summaries[0].metric)[2:]))
        rows.append(row)
    return "", header, rows


def tables_of(summary: TaskSummary, tuned: str = "") -> List[Table]:
    tables = [main_table(summary, tuned)]
    if summary.corrupted:
        tables.append(corruption_table(summary))
    cases = case_table(summary)
    return tables + [cases] * (len(cases[1]) > 1)


def escape(text: str) -> str:
    """As text, whatever it holds: no tags, no table cells, no lines."""
    for old, new in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("\n", " "), ("\r", " ")):
        text = text.replace(old, new)
    return text


def to_markdown(table: Table) -> str:
    caption, header, rows = table
    text = f"{caption}:\n\n" if caption else ""
    text += "|" + "".join(f" {escape(name)} |" for name in header) + "\n|---|" + "---:|" * (len(header) - 1) + "\n"
    return text + "".join("|" + "".join(f" {escape(cell)} |" for cell in row) + "\n" for row in rows)


def spread_words(summaries: List[TaskSummary]) -> str:
    if not any(math.isfinite(v.score.spread) for summary in summaries for v in summary.variants):
        return ""
    return ("± is the sample standard deviation over seeds, whose mean errs by ± / √seeds; differences are taken seed "
            "by seed.")


def markdown(study: Study, summaries: List[TaskSummary], runs: List[PlannedRun], records: Dict[Any, Dict[str, Any]],
             notes: List[str]) -> str:
    tuned = study.tuning.key if study.tuning else ""
    text = f"# {escape(study.title)}\n"
    if study.note:
        text += f"\n{escape(study.note)}\n"
    if len(summaries) > 1:
        text += "\n" + to_markdown(tasks_table(summaries))
    for summary in summaries:
        if len(summaries) > 1:
            text += f"\n## {escape(summary.task.title)}\n"
        for table in tables_of(summary, tuned):
            text += "\n" + to_markdown(table)
    words = spread_words(summaries)
    text += f"\n{words}\n" if words else ""
    for note in notes:
        text += f"\n{escape(note)}\n"
    for run in runs:
        record = records.get(run.folder)
        if record and record["error"]:
            label = ", ".join(filter(None, [run.task, run.variant, f"seed {run.seed}"]))
            text += f"\nFailed: {label}: {escape(record['error'])}\n"
    return text


def plain(value: Any) -> Any:
    """Dataclasses as objects; numbers that are not finite as null."""
    if is_dataclass(value):
        value = {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def results_json(study: Study, summaries: List[TaskSummary], runs: List[PlannedRun],
                 records: Dict[Any, Dict[str, Any]]) -> Dict[str, Any]:
    listed = []
    for run in runs:
        record = records.get(run.folder, {"state": "planned", "settings": run.settings})
        listed.append({**record, "task": run.task, "variant": run.variant, "seed": run.seed, "folder": str(run.folder)})
    tasks = [{"task": s.task.name, "title": s.task.title, "metric": s.metric, "split": s.split,
              "variants": plain(s.variants)} for s in summaries]
    strengths = study.corrupted.strengths if study.corrupted else []
    return {"schema": SCHEMA, "title": study.title, "note": study.note, "seeds": study.seeds, "strengths": strengths,
            "tasks": tasks, "runs": listed}


def results_csv(runs: List[PlannedRun], records: Dict[Any, Dict[str, Any]]) -> str:
    """One line a run."""
    found = {name for record in records.values() for name in record["scores"]}
    first = [name for name in ("top1", "top5", "accuracy", "exact", "loss") if name in found]
    scores = first + sorted(found - set(first))
    keys = ["state", "parameters", "seconds", "cpu_seconds"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["task", "variant", "seed"] + keys + scores + ["folder"])
    for run in runs:
        record = records.get(run.folder, {"state": "planned", "scores": {}})
        values = [record.get(key) for key in keys] + [record["scores"].get(name) for name in scores]
        cells = ["" if value is None else value for value in values]
        writer.writerow([run.task, run.variant, run.seed] + cells + [str(run.folder)])
    return file.getvalue()
