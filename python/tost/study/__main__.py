"""Trains every variant of a study with every seed, and writes tables and plots.

The study's folder holds TASK/runs/VARIANT/seed-N (run folders of `tost train`), results.md, results.csv, results.json,
plot.svg and plot.png. The same command resumes what was stopped.
"""

import argparse
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

from .._write import write_atomic
from . import plan, tables
from .plan import PlannedRun
from .plot import write_plots
from .runs import GENERATED, Program, Runner, read_record, rule_of, run_all
from .spec import MOST_SEED, Fields, StudyError, check_integers, each_once, merge, need, read_study
from .summary import best_values, summarize

EXIT_INTERRUPTED = 130
MARK = "study.json"  # a folder without it is not ours to write into
EXAMPLES = """examples:
  python -m tost.study studies/width.json --out width --jobs 2 --threads 1
  python -m tost.study studies/arena.json --out arena --task listops --seeds 0,1
  python -m tost.study studies/width.json --out width --list          (one line a run, for a scheduler)
  python -m tost.study studies/width.json --out width --index 3       (that run alone)
  python -m tost.study studies/width.json --out width --tables        (the tables of what is done)"""


def _list(text: str, flag: str, example: str) -> List[Any]:
    try:
        return each_once(json.loads(f"[{text}]"))
    except ValueError:
        raise StudyError(f"{flag} takes values with commas between, such as {example}, not '{text}'.") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tost.study", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("file", help="study file (docs/ablations.md describes it)")
    add("--out", required=True, help="folder of the runs and tables")
    add("--task", action="append", default=[], help="this task alone (may be repeated)")
    add("--only", action="append", default=[], metavar="VARIANT", help="this variant alone (may be repeated)")
    add("--seeds", help="in place of the file's, such as 0,1,2")
    add("--tune", metavar="VALUES", help="values of the tuned setting; a single one is taken without trial")
    add("--data", action="append", default=[], metavar="TASK=PATH", help="data of a task (may be repeated)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all runs (may be repeated)")
    add("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    add("--threads", type=int, default=0, help="threads of a run (default: as the settings say; all cores by jobs)")
    add("--tost", default="", help="the program (default: $TOST_PROGRAM, build/release/tost, or that on PATH)")
    add("--overwrite", action="store_true", help="train again what failed or was made with other settings")
    add("--dry-run", action="store_true", help="show what would be done")
    add("--list", action="store_true", help="one line of JSON a run, with its index")
    add("--index", type=int, help="do the run of this index alone, and write no tables")
    add("--tables", action="store_true", help="write the tables of what is done, and train nothing")
    add("--json", action="store_true", help="print results.json in place of the tables")
    add("--quiet", action="store_true", help="no progress")
    return parser


def _program(path: str) -> str:
    built = Path(__file__).resolve().parents[3] / "build" / "release" / "tost"
    found = path or os.environ.get("TOST_PROGRAM", "") or (str(built) if built.exists() else shutil.which("tost"))
    if not found:
        raise StudyError("The program tost is not there; build it with `make`, or name it with --tost.", 1)
    return found


def _pairs(texts: List[str]) -> Dict[str, str]:
    data = {}
    for text in texts:
        task, _, path = text.partition("=")
        need(path, f"--data takes TASK=PATH, not '{text}'.")
        need(os.path.exists(path), f"There is no '{path}', which is to be the data of {task}.")
        data[task] = path
    return data


def _study(args: argparse.Namespace) -> Tuple[Fields, List[str]]:
    """The study that the file and the options describe, and what is to be said of it."""
    study = read_study(args.file)
    if args.seeds is not None:
        seeds = _list(args.seeds, "--seeds", "0,1,2")
        study.seeds = check_integers(seeds, 0, MOST_SEED, "--seeds")
    if args.tune is not None:
        need(study.tune, "--tune does not go with this study, which tunes no setting.")
        study.tune.values = _list(args.tune, "--tune", "0.001,0.003")
    if study.tune:
        need(study.tune.seed not in study.seeds, f"Seed {study.tune.seed} chooses {study.tune.key}; report other seeds.")
    study, notes = plan.choose(study, each_once(args.task), _pairs(args.data))
    study, equal = plan.without_equal(study)
    study = plan.with_settings(study, args.set)
    for task in study.tasks:
        if task.generate:  # the data is below the study's folder, wherever that is
            task.settings = merge(task.settings, {"data": GENERATED + _data_folder(task).as_posix()})
    return study, notes + equal


def _data_folder(task: Fields) -> Path:
    return Path("data", task.name or "task")


def _check_place(out: Path) -> None:
    """Refuses a folder that holds somebody else's files."""
    mark = out / MARK
    if mark.exists() and '"tost.study' not in mark.read_text(encoding="utf-8", errors="replace"):
        raise StudyError(f"'{mark}' is not of a study; choose another --out.")
    if not mark.exists() and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StudyError(f"'{out}' is there and is no study's folder, whose files would be overwritten; choose another --out.")


def _begin(out: Path, study: Fields) -> None:
    """Makes the folder ours, and the data that is generated."""
    out.mkdir(parents=True, exist_ok=True)
    text = {"schema": tables.SCHEMA, "title": study.title, "command": sys.argv[1:]}
    write_atomic(out / MARK, [(json.dumps(text, indent=2) + "\n").encode()])
    for task in study.tasks:
        if task.generate:
            from ..tasks import make  # numpy, which other studies do without
            try:
                make(out / _data_folder(task), task.generate)
            except ValueError as error:
                raise StudyError(f"The data of {task.name or study.title} cannot be made: {error}") from None


class _Work:
    """A study with what is known of its runs."""

    def __init__(self, study: Fields, args: argparse.Namespace, notes: List[str], program: Program):
        self.study, self.args, self.notes, self.program = study, args, notes, program
        self.out = Path(args.out)
        self.variants = plan.only(study, each_once(args.only))
        self.runner = Runner(program, self.out, self._rules(), args.overwrite)

    def _rules(self) -> Dict[str, Any]:
        """Checks a run of every variant before the first begins; what is scored in each task."""
        rules: Dict[str, Any] = {}
        for task in self.study.tasks:
            for variant in self.study.variants:
                place = self.out / task.name / "runs" / variant.name
                if task.name in rules and any(place.glob("seed-*.json")):
                    continue  # it has been checked before
                settings = {"seed": 0, **plan.variant_settings(self.study, task, variant)}
                try:
                    found = self.program.check(settings)
                    if self.study.pretrain is not None:
                        self.program.check(merge(settings, self.study.pretrain))
                except StudyError as error:
                    raise StudyError(f"Variant '{variant.name}' cannot be trained: {error}", error.code) from None
                rule = rule_of(found, task.split, self.study.corruptions)
                need(rules.setdefault(task.name, rule)["kind"] == rule["kind"],
                     f"Variant '{variant.name}' trains a {rule['kind']} model and the first one a "
                     f"{rules[task.name]['kind']} model; a study compares models of one kind.")
        return rules

    def tuning_runs(self) -> List[PlannedRun]:
        return plan.tuning_runs(self.study) if self.study.tune and len(self.study.tune.values) > 1 else []

    def reported_runs(self) -> List[PlannedRun]:
        return plan.reported_runs(self.study, self.chosen())

    def wanted_runs(self) -> List[PlannedRun]:
        return [run for run in self.tuning_runs() + self.reported_runs() if run.variant in self.variants]

    def records(self, runs: List[PlannedRun]) -> Dict[Any, Dict[str, Any]]:
        """Of the plan's settings; records of another study's settings are left where they are."""
        found = {}
        for run in runs:
            record = read_record(self.out / run.folder)
            if record is not None and record["settings"] == run.settings and record["pretrain"] == run.pretrain:
                found[run.folder] = record
        return found

    def chosen(self) -> Dict[Tuple[str, str], Any]:
        if not self.study.tune:
            return {}
        runs = self.tuning_runs()
        if not runs:
            return {(t.name, v.name): self.study.tune.values[0] for t in self.study.tasks for v in self.study.variants}
        return best_values(runs, self.records(runs))

    def do(self, runs: List[PlannedRun], jobs: int) -> Dict[str, Any]:
        due = [run for run in runs if run.variant in self.variants and self.runner.action(run) != "keep"]
        return run_all(self.runner, due, jobs, self.args.quiet)

    def do_all(self) -> Dict[str, Any]:
        total = self.do(self.tuning_runs(), self.args.jobs)
        if not total["interrupted"]:
            done = self.do(self.reported_runs(), self.args.jobs)
            total = {"failed": total["failed"] + done["failed"], "interrupted": done["interrupted"]}
        return total

    def show_plan(self) -> None:
        for index, run in enumerate(self.wanted_runs()):
            action = self.runner.action(run)
            if self.args.list or self.args.json:
                print(json.dumps({"index": index, "task": run.task, "variant": run.variant, "seed": run.seed,
                                  "folder": str(run.folder), "action": action, "settings": run.settings}))
            else:
                print(f"{index:5d}  {action:12s} {run.folder}")

    def write(self) -> Tuple[str, Dict[str, Any]]:
        runs = self.reported_runs()
        records = self.records(runs)
        summaries = summarize(self.study, runs, records, self.chosen())
        text = tables.markdown(self.study, summaries, runs, records, self.notes)
        results = tables.results_json(self.study, summaries, runs, records)
        for name, content in (("results.md", text), ("results.json", json.dumps(results, indent=2, allow_nan=False) + "\n"),
                              ("results.csv", tables.results_csv(runs, records))):
            write_atomic(self.out / name, [content.encode()])
        missing = write_plots(self.study, summaries, self.out)
        if missing and not self.args.quiet:
            print(f"note: {missing}", file=sys.stderr)
        return text, results


def _run(args: argparse.Namespace) -> int:
    need(args.jobs >= 1 and args.threads >= 0, "--jobs is at least 1, and --threads at least 0.")
    if args.jobs > 1 and args.threads == 0:
        args.threads = max(1, (os.cpu_count() or 1) // args.jobs)
    program = Program(_program(args.tost), args.threads)
    for sent in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sent, lambda number, frame: program.interrupt())
    study, notes = _study(args)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    out = Path(args.out)
    _check_place(out)
    work = _Work(study, args, notes, program)
    if args.dry_run or args.list:
        work.show_plan()
        return 0
    _begin(out, study)
    if args.index is not None:
        runs = work.wanted_runs()
        need(0 <= args.index < len(runs), f"There is no run {args.index}; there are {len(runs)} now, numbered from 0.")
        done = work.do([runs[args.index]], 1)
        return EXIT_INTERRUPTED if done["interrupted"] else int(done["failed"] > 0)
    done = {"failed": 0, "interrupted": False} if args.tables else work.do_all()
    text, results = work.write()
    if done["interrupted"]:
        print(f"stopped; the same command resumes. What is done: {work.out / 'results.md'}")
        return EXIT_INTERRUPTED
    print(json.dumps(results, indent=2) if args.json else text.rstrip("\n"))
    return int(done["failed"] > 0)


def main(arguments=None) -> int:
    try:
        code = _run(_parser().parse_args(arguments))
        sys.stdout.flush()
        return code
    except StudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # the reader has seen enough, as `head` has; what Python writes at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
