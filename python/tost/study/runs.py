"""Carries the runs of a study out as processes of the program, each in a folder of its own.

A run's folder is what `tost train` writes; its record is FOLDER.json next to it. A run that is done is kept; one that was stopped,
or whose process was killed, resumes from its checkpoint to the same bits. Several studies may share a folder: a run is
locked while one of them trains it.
"""

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, List, Optional

from .._write import write_atomic
from .plan import PlannedRun
from .spec import Fields, StudyError, need
from .summary import CASE

try:
    import fcntl
except ImportError:  # Windows has no flock: there one study at a time must use a folder
    fcntl = None

EMPTY = {"state": "started", "settings": {}, "pretrain": None, "error": "", "parameters": 0, "seconds": 0,
         "cpu_seconds": 0, "metric": "", "scores": {}, "scored_by": None, "corrupted": {}, "heads": None,
         "head_width": None, "state_bytes": None, "curve": {"steps": [], "epochs": [], "values": []}}


GENERATED = "@"  # data that begins so lies below the study's folder


class Interrupted(Exception):
    """The user stopped the study; what runs has saved."""


def record_path(folder: Path) -> Path:
    return folder.parent / (folder.name + ".json")


def read_record(folder: Path) -> Optional[Dict[str, Any]]:
    path = record_path(folder)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StudyError(f"'{path}' cannot be read ({error}); move it and its folder away to train the run again.", 1) from None
    if not isinstance(record, dict) or not set(EMPTY) <= set(record):
        raise StudyError(f"'{path}' is not a record of a study's run; move it and its folder away to train the run again.", 1)
    return record


def write_record(folder: Path, record: Dict[str, Any]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(record_path(folder), [(json.dumps(record, indent=2, allow_nan=False) + "\n").encode()])


def difference(there: Dict[str, Any], now: Dict[str, Any], before: str = "") -> str:
    """"lr is 0.003 there and 0.001 now"."""
    key = next(key for key in sorted(set(there) | set(now)) if there.get(key) != now.get(key))
    a, b = there.get(key), now.get(key)
    if isinstance(a, dict) and isinstance(b, dict):
        return difference(a, b, f"{before}{key}.")
    words = ["not set" if value is None else json.dumps(value) for value in (a, b)]
    return f"{before}{key} is {words[0]} there and {words[1]} now"


def choose_action(folder: Path, run: PlannedRun, rule: Dict[str, Any], overwrite: bool) -> str:
    """train, resume, train again, score or keep.

    What failed resumes from its last checkpoint, since a full disk fails too; what failed and now has other settings, and
    with `overwrite` what failed or was made with others, begins again. Other settings are refused otherwise.
    """
    record = read_record(folder)
    if record is None:
        return "train"
    failed = record["state"] == "failed"
    there, now = ({**settings, "pretrain": first} for settings, first in (
        (record["settings"], record["pretrain"]), (run.settings, run.pretrain)))
    if there != now:
        need(overwrite or failed, f"The run in '{folder}' was made with other settings ({difference(there, now)}); train it "
                                  "again with --overwrite, or choose another --out.")
        return "train again"
    if (failed and overwrite) or record["state"] == "replacing":  # killed while the old run may still have been there
        return "train again"
    if failed or record["state"] == "started":
        return "resume"
    return "keep" if record["state"] == "done" and record["scored_by"] == rule else "score"


def evaluations_of(folder: Path) -> List[Dict[str, Any]]:
    """Those in a run's log, in order."""
    with open(folder / "metrics.jsonl", encoding="utf-8") as file:
        values = map(json.loads, file)
        return [value for value in values if isinstance(value, dict) and value.get("kind") == "eval"]


def finite(value: Any) -> Optional[float]:
    """JSON has no NaN: a number that is not finite is null."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if ok else None


def logged_scores(evaluation: Dict[str, Any]) -> Dict[str, Optional[float]]:
    """What the training logged last, with the accuracy of every group of a task."""
    scores = {key: finite(evaluation[key]) for key in ("accuracy", "exact", "loss") if key in evaluation}
    for group in evaluation.get("groups", []):
        scores[CASE + str(group["group"])] = finite(group["accuracy"])
    return scores


def heads_of(folder: Path) -> Dict[str, int]:
    """The heads of a mixer that has some; those without have them in their configuration all the same."""
    config = json.loads((folder / "model.json").read_text(encoding="utf-8")).get("config", {})
    dim, heads = config.get("dim"), config.get("heads")
    without = config.get("mixer") in ("none", "ssm") or config.get("architecture") == "linear"
    if without or not (isinstance(dim, int) and isinstance(heads, int) and 1 <= heads <= dim):
        return {}
    return {"heads": heads, "head_width": dim // heads}


class Program:
    """The program `tost`, called as a process; an interruption reaches it once, so that it can save."""

    def __init__(self, path: str, threads: int = 0):
        self.path = path
        self.threads = threads
        self.stop = threading.Event()
        self._running: set = set()
        self._lock = threading.RLock()  # interrupt() comes by a signal, perhaps within call()

    def interrupt(self) -> None:
        with self._lock:
            self.stop.set()
            for process in self._running:
                process.send_signal(signal.SIGINT)

    def call(self, *args: Any, keep_open: Optional[int] = None, threads: int = 0) -> Dict[str, Any]:
        """The JSON that the program prints. Raises StudyError with its message, Interrupted where it was stopped."""
        command = [self.path] + [str(arg) for arg in args] + ["--json"]
        if threads:
            command += ["--threads", str(threads)]
        extra: Dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
        if keep_open is not None and os.name == "posix":
            extra["pass_fds"] = (keep_open,)  # the lock lives as long as the process, even without its study
        with self._lock:
            if self.stop.is_set():
                raise Interrupted()
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, **extra)
            except OSError as error:
                raise StudyError(f"'{self.path}' cannot be started: {error.strerror}.", 1) from None
            self._running.add(process)
        try:
            out, err = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode == 130:
            raise Interrupted(out)
        if process.returncode != 0:
            lines = err.decode("utf-8", "replace").strip().splitlines() or [f"ended with {process.returncode}"]
            raise StudyError(re.sub("^error: ", "", lines[-1]), 2 if process.returncode == 2 else 1)
        try:
            return json.loads(out)
        except ValueError:
            raise StudyError(f"'{self.path} {args[0]}' printed no JSON; is it of the same version?", 1) from None

    def check(self, settings: Dict[str, Any]) -> Dict[str, Any]:
        """Kind, metric, whether runs are scored, and the whole configuration. Refuses what no run can have."""
        with config_file(settings) as file:
            return self.call("train", "--dry-run", "--config", file, "--out", file.parent / "run")


@contextmanager
def config_file(settings: Dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_text(json.dumps(settings), encoding="utf-8")
        yield file


@contextmanager
def locked(folder: Path, stop: threading.Event):
    """The lock of one run, its file descriptor given to the process that trains it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f".{folder.name}.lock", "w", encoding="utf-8") as file:
        while fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # of another study, or of a process that outlived its study
                if stop.wait(0.2):
                    raise Interrupted() from None
        yield file.fileno()


class Runner:
    """Trains and scores single runs below `out`. `rules`: by task what rule_of() says."""

    def __init__(self, program: Program, out: Path, rules: Dict[str, Dict[str, Any]], overwrite: bool):
        self.program, self.out, self.rules, self.overwrite = program, out, rules, overwrite

    def rule(self, run: PlannedRun) -> Dict[str, Any]:
        """What is scored. Trials are scored on the validation split, so that no reported score takes part in a choice."""
        rule = self.rules[run.task]["rule"]
        return rule if run.tried is None else {"split": "validation", "corruptions": None}

    def action(self, run: PlannedRun) -> str:
        return choose_action(self.out / run.folder, run, self.rule(run), self.overwrite)

    def run(self, run: PlannedRun) -> Dict[str, Any]:
        """The run's record. Raises Interrupted; failures are in the record."""
        folder = self.out / run.folder
        with locked(folder, self.program.stop) as lock:
            action = self.action(run)  # another study may have done it meanwhile
            record = read_record(folder)
            if action == "keep":
                return record
            try:
                if action != "score":
                    record = self._train(run, self._first_stage(run, lock), action, lock)
                record = {**record, **self._scores(run, folder), **heads_of(folder), "state": "done", "error": ""}
            except (StudyError, OSError, ValueError, KeyError) as error:
                trained = record is not None and record["state"] in ("trained", "done")
                if not trained:
                    record = {**EMPTY, "settings": run.settings, "pretrain": run.pretrain}
                record = {**record, "state": "trained" if trained else "failed", "error": str(error) or repr(error)}
            write_record(folder, record)
            return record

    def _first_stage(self, run: PlannedRun, lock: int) -> Dict[str, Any]:
        """The settings to train with, which begin from the first stage's model, trained here unless it is there."""
        settings = dict(run.settings)
        if run.pretrain is None:
            return settings
        stage = run._replace(settings=run.pretrain, pretrain=None, folder=run.folder.parent / (run.folder.name + "-pretrain"))
        folder = self.out / stage.folder
        done = read_record(folder)
        if done is None or done["state"] != "trained" or done["settings"] != stage.settings:
            self._train(stage, stage.settings, choose_action(folder, stage, {}, self.overwrite), lock)
        checkpoints = sorted(p.name for p in (folder / "checkpoints").glob("step-*") if p.is_dir())
        if not checkpoints:
            raise StudyError(f"'{folder}' has no checkpoint.", 1)
        settings.pop("model", None)  # the first stage's file says what it is
        return {**settings, "from": str(folder / "checkpoints" / checkpoints[-1])}

    def _train(self, run: PlannedRun, settings: Dict[str, Any], action: str, lock: int) -> Dict[str, Any]:
        folder = self.out / run.folder
        there = (folder / "config.json").exists()
        resume, again = action == "resume" and there, action == "train again" and there
        record = read_record(folder) if resume else {**EMPTY, "settings": run.settings, "pretrain": run.pretrain}
        known = (record["seconds"], record["cpu_seconds"])
        # What a killed process spent is not known: until a training ends by itself, the record does not claim to know.
        record = {**record, "state": "replacing" if again else "started", "error": "", "seconds": None, "cpu_seconds": None}
        write_record(folder, record)
        data = str(settings.get("data", ""))
        if data.startswith(GENERATED):
            settings = {**settings, "data": str((self.out / data[len(GENERATED):]).resolve())}
        with config_file(settings) as file:
            how = ["--resume"] if resume else ["--config", file] + ["--overwrite"] * again
            try:
                report = self.program.call("train", "--out", folder, "--quiet", *how, keep_open=lock,
                                           threads=self.program.threads)
                record["state"] = "trained"
            except Interrupted as stopped:
                report = json.loads(stopped.args[0] or "{}") if stopped.args else {}
                record["state"] = "started"
        if None not in known and "cpu_seconds" in report:
            record["seconds"] = known[0] + report["seconds"]
            record["cpu_seconds"] = known[1] + report["cpu_seconds"]
        record["parameters"] = report.get("parameters", record["parameters"])
        write_record(folder, record)
        if record["state"] != "trained":
            raise Interrupted()
        return record

    def _scores(self, run: PlannedRun, folder: Path) -> Dict[str, Any]:
        """What a record says of the scores."""
        found, rule = self.rules[run.task], self.rule(run)
        metric, evaluations = found["metric"], evaluations_of(folder)
        record = {"metric": metric, "scored_by": rule}
        if found["scored"]:
            record["scores"] = self._eval(run, folder, rule["split"])
            corrupted = rule["corruptions"] or {"kinds": [], "strengths": []}
            record["corrupted"] = {
                kind: [self._eval(run, folder, corrupted["split"], kind, s)["top1"] for s in corrupted["strengths"]]
                for kind in corrupted["kinds"]}
        else:
            if not evaluations:
                raise StudyError(f"'{folder}' has no evaluation to read the {metric} from.", 1)
            record["scores"] = logged_scores(evaluations[-1])
            sizes = [group.get("state_bytes") for group in evaluations[-1].get("groups", [])]
            record["state_bytes"] = max(filter(None, sizes), default=None)
        record["curve"] = {"steps": [e["step"] for e in evaluations], "epochs": [e["epoch"] for e in evaluations],
                           "values": [finite(e.get(metric)) for e in evaluations]}
        return record

    def _eval(self, run: PlannedRun, folder: Path, split: str, kind: str = "", strength: int = 0) -> Dict[str, Any]:
        damage = ["--corrupt", kind, "--strength", strength] if kind else []
        threads = self.program.threads or run.settings.get("threads", 0)
        report = self.program.call("eval", folder, "--split", split, *damage, threads=threads)
        return {key: finite(report[key]) for key in ("top1", "top5", "loss") if key in report}


def rule_of(check: Dict[str, Any], split: str, corrupted: Optional[Fields]) -> Dict[str, Any]:
    """What is scored, from what the program says of a run of these settings."""
    need(not corrupted or check["corruptible"], "Corruptions are for pictures; leave them out.")
    need(check["scored"] or split in ("", "validation"), "Language models are scored by the validation split that training "
         "reports; leave score out, or set its split to validation.")
    split = (split or "test") if check["scored"] else "validation"
    rule = {"split": split, "corruptions": vars(corrupted) if corrupted and check["scored"] else None}
    return {"kind": check["kind"], "metric": check["metric"], "scored": check["scored"], "rule": rule}


def run_all(runner: Runner, runs: List[PlannedRun], jobs: int, quiet: bool) -> Dict[str, Any]:
    """Does the runs, `jobs` at a time; counts of failed ones, and whether the user stopped it."""
    result = {"failed": 0, "interrupted": False}
    lock, finished = threading.Lock(), 0

    def one(run: PlannedRun) -> None:
        nonlocal finished
        try:
            record = runner.run(run)
        except Interrupted:
            result["interrupted"] = True
            return
        with lock:
            finished += 1
            result["failed"] += bool(record["error"])
            score = record["scores"].get(record["metric"])
            words = f"failed: {record['error']}" if record["error"] else \
                f"{record['metric']} {'not finite' if score is None else format(score, '.4f')}"
            if not quiet:
                print(f"[{finished}/{len(runs)}] {run.label()}: {words}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        for future in [pool.submit(one, run) for run in runs]:
            future.result()
    return result
