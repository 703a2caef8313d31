"""Tables of a study as Markdown, CSV and JSON."""

import csv
import io
import math
from typing import Any, Dict, List, Tuple

from .plan import PlannedRun
from .spec import Fields
from .summary import CASE, MeanSpread, mean_spread

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


def main_table(summary: Fields, tuned: str = "") -> Table:
    heading, _, scale, digits = view(summary.metric)
    pictures, variants = summary.metric == "top1", summary.variants
    heads, states = (any(getattr(v, key) is not None for v in variants) for key in ("heads", "state_bytes"))
    # Heading, whether there is such a column, and its cell of a variant.
    columns = [("variant", True, lambda v: v.variant),
               ("parameters", True, lambda v: f"{v.parameters:,}" if v.parameters else NONE),
               ("heads", heads, lambda v: str(v.heads or NONE)), ("p", heads, lambda v: str(v.head_width or NONE)),
               ("state, bytes", states, lambda v: f"{v.state_bytes:,}" if v.state_bytes is not None else NONE),
               (tuned, bool(tuned), lambda v: NONE if v.chosen is None else str(v.chosen)),
               (heading, True, lambda v: show(v.score, scale, digits)),
               (f"difference to {variants[0].variant}", True, lambda v: show(v.difference, scale, digits, sign=True)),
               ("loss", pictures, lambda v: show(v.scores.get("loss", MeanSpread()), 1, 4)),
               ("seeds", True, lambda v: f"{len(v.by_seed)} ({v.failed} failed)" if v.failed else str(len(v.by_seed))),
               ("seconds", True, lambda v: show(v.seconds._replace(spread=math.nan), 1, 0)),
               ("CPU s", True, lambda v: show(v.cpu_seconds._replace(spread=math.nan), 1, 0))]
    columns = [(name, cell) for name, there, cell in columns if there]
    return "", [name for name, _ in columns], [[cell(v) for _, cell in columns] for v in variants]


def corruption_table(summary: Fields) -> Table:
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


def case_table(summary: Fields) -> Table:
    names = {name[len(CASE):] for v in summary.variants for name in v.scores if name.startswith(CASE)}
    ordered = sorted(names, key=_case_order)
    rows = [[v.variant] + [show(v.scores.get(CASE + name, MeanSpread()), 100, 2) for name in ordered]
            for v in summary.variants]
    return "Accuracy % by group", ["variant"] + ordered, rows


def tasks_table(summaries: List[Fields]) -> Table:
    """Variants by tasks, with the mean over the seeds that all tasks have where all have the same metric."""
    same = len({summary.metric for summary in summaries}) == 1
    header = ["variant"] + [f"{s.task.title}, {view(s.metric)[0]}" for s in summaries] + ["mean"] * same
    rows = []
    for of_tasks in zip(*(summary.variants for summary in summaries)):
        row = [show(v.score, *view(summary.metric)[2:]) for v, summary in zip(of_tasks, summaries)]
        if same:
            seeds = sorted(set.intersection(*(set(v.by_seed) for v in of_tasks)))
            means = mean_spread(sum(v.by_seed[seed] for v in of_tasks) / len(of_tasks) for seed in seeds)
            row.append(show(means, *view(summaries[0].metric)[2:]))
        rows.append([of_tasks[0].variant] + row)
    return "", header, rows


def tables_of(summary: Fields, tuned: str = "") -> List[Table]:
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


def markdown(study: Fields, summaries: List[Fields], runs: List[PlannedRun], records: Dict[Any, Dict[str, Any]],
             notes: List[str]) -> str:
    several = len(summaries) > 1
    parts = [f"# {escape(study.title)}\n"]
    if study.note:
        parts.append(f"{escape(study.note)}\n")
    if several:
        parts.append(to_markdown(tasks_table(summaries)))
    for summary in summaries:
        parts += [f"## {escape(summary.task.title)}\n"] * several
        parts += map(to_markdown, tables_of(summary, study.tune.key if study.tune else ""))
    if any(math.isfinite(v.score.spread) for summary in summaries for v in summary.variants):
        parts.append("± is the sample standard deviation over seeds, whose mean errs by ± / √seeds; differences are taken seed "
                     "by seed.\n")
    parts += [f"{escape(note)}\n" for note in notes]
    for run in runs:
        error = records.get(run.folder, {}).get("error")
        parts += [f"Failed: {run.label(', ')}: {escape(error)}\n"] if error else []
    return "\n".join(parts)


def plain(value: Any) -> Any:
    """Objects and tuples with names as dictionaries; numbers that are not finite as null."""
    if isinstance(value, (Fields, MeanSpread)):
        value = vars(value) if isinstance(value, Fields) else value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def results_json(study: Fields, summaries: List[Fields], runs: List[PlannedRun],
                 records: Dict[Any, Dict[str, Any]]) -> Dict[str, Any]:
    listed = []
    for run in runs:
        record = records.get(run.folder, {"state": "planned", "settings": run.settings})
        listed.append({**record, "task": run.task, "variant": run.variant, "seed": run.seed, "folder": str(run.folder)})
    tasks = [{"task": s.task.name, "title": s.task.title, "metric": s.metric, "split": s.split,
              "variants": plain(s.variants)} for s in summaries]
    strengths = study.corruptions.strengths if study.corruptions else []
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
        writer.writerow([run.task, run.variant, run.seed, *values, str(run.folder)])  # None is an empty cell
    return file.getvalue()
