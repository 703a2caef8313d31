"""tost.study with a stand-in for the program: statistics, tables, what is kept, resumed and refused."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from tost.study import StudyError, mean_spread, paired_difference, study_from_json  # noqa: E402
from tost.study import __main__ as command  # noqa: E402
from tost.study import plan, tables  # noqa: E402
from tost.study.summary import summarize  # noqa: E402

STUDY = {"title": "Two <by> two", "settings": {"lr": 0.1, "steps": 3}, "grid": {"mixer": ["tssa", "none"]}, "seeds": [0, 1]}

# Trains by writing a line a step; the score follows from the settings alone.
FAKE = """\
    #!{python}
    import json, os, pathlib, signal, sys, time
    args, values = sys.argv[2:], {{}}
    def flag(name):
        return args[args.index(name) + 1] if name in args else None
    if sys.argv[1] == "eval":
        run = pathlib.Path(args[0])
        config = json.loads((run / "config.json").read_text())
        score = config["seed"] / 16 + len(config["mixer"]) / 64 + config["lr"]
        print(json.dumps({{"top1": score if "--corrupt" not in args else score / 2, "loss": 1 - score}}))
        sys.exit(0)
    out = pathlib.Path(flag("--out"))
    if "--dry-run" in args:
        config = json.loads(pathlib.Path(flag("--config")).read_text())
        if config["mixer"] == "wrong":
            sys.exit("error: there is no mixer wrong.")
        print(json.dumps({{"kind": "vision", "metric": "top1", "scored": True, "corruptible": True, "config": config}}))
        sys.exit(0)
    if "--resume" in args:
        config = json.loads((out / "config.json").read_text())
    else:
        if out.exists() and "--overwrite" not in args:
            print("error: there is something.", file=sys.stderr)
            sys.exit(2)
        out.mkdir(parents=True, exist_ok=True)
        config = json.loads(pathlib.Path(flag("--config")).read_text())
        (out / "config.json").write_text(json.dumps(config))
        (out / "metrics.jsonl").write_text("")
    if config["mixer"] == "breaks" and config["seed"] == 1:
        print("error: it broke.", file=sys.stderr)
        sys.exit(1)
    (out / "model.json").write_text(json.dumps({{"config": {{"dim": 8, "heads": 2}}}}))
    stopped = []
    signal.signal(signal.SIGINT, lambda *_: stopped.append(1))
    with open(out / "metrics.jsonl", "r+") as log:
        done = len(log.readlines())
        while done < config["steps"] and not stopped:
            done += 1
            line = {{"kind": "eval", "step": done, "epoch": 0, "top1": done / 8, "pid": os.getpid()}}
            log.write(json.dumps(line) + "\\n")
            log.flush()
            time.sleep(config.get("nap", 0))
    print(json.dumps({{"seconds": 1.0, "cpu_seconds": 2.0, "parameters": 1234, "interrupted": bool(stopped)}}))
    sys.exit(130 if stopped else 0)
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    path = tmp_path / "tost"
    path.write_text(textwrap.dedent(FAKE).format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("TOST_PROGRAM", str(path))
    return tmp_path


def write(folder, value=None, **changes):
    path = folder / "study.json"
    path.write_text(json.dumps({**(STUDY if value is None else value), **changes}))
    return str(path)


def study(folder, *args, expect=0, **changes):
    arguments = [write(folder, **changes), "--out", str(folder / "out"), "--quiet", *map(str, args)]
    assert command.main(arguments) == expect
    path = folder / "out" / "results.json"
    return json.loads(path.read_text()) if path.exists() else None


def refusal(capsys, folder, *args, **changes):
    capsys.readouterr()
    assert command.main([write(folder, **changes), "--out", str(folder / "out"), *map(str, args)]) in (1, 2)
    return capsys.readouterr().err


def test_statistics():
    assert mean_spread([]).n == 0 and mean_spread([2.0]).mean == 2 and tables.plain(mean_spread([2.0]))["spread"] is None
    found = mean_spread([1.0, 2.0, 4.0])
    assert found.mean == pytest.approx(7 / 3) and found.spread == pytest.approx((7 / 3) ** 0.5)
    assert tables.plain(mean_spread([1.0, float("nan")])) == {"n": 2, "mean": None, "spread": None}  # of a run that diverged
    difference = paired_difference({0: 1.0, 1: 2.0, 2: 9.0}, {0: 0.5, 1: 1.0})
    assert (difference.n, difference.mean) == (2, 0.75)


def test_tables_equal_those_of_the_program_before():
    """Numbers of two seeds that `tost sweep` of an earlier build trained, and the tables that it wrote of them."""
    frozen = json.loads((pathlib.Path(__file__).parent / "frozen_studies.json").read_text())
    for case in frozen:
        spec = study_from_json(case["study"], "the case")
        runs = plan.reported_runs(spec, {})
        records = {run.folder: {"corrupted": {}, "scored_by": {"split": case["split"]}, "error": "", "settings": {},
                                **case["records"][f"{run.variant} {run.seed}"]} for run in runs}
        summaries = summarize(spec, runs, records, {})
        text = "\n".join(tables.to_markdown(table) for table in tables.tables_of(summaries[0]))
        assert text.replace("Accuracy % by group", "Accuracy % by length, or length/pairs") == case["tables"]


def test_a_study_runs_and_is_kept(fake, capsys):
    results = study(fake)
    task = results["tasks"][0]
    assert [v["variant"] for v in task["variants"]] == ["tssa", "none"]
    first = task["variants"][0]
    assert first["score"] == {"n": 2, "mean": pytest.approx(0.19375), "spread": pytest.approx(0.0625 / 2**0.5)}
    assert first["parameters"] == 1234 and first["cpu_seconds"]["mean"] == 2 and (first["heads"], first["head_width"]) == (2, 4)
    assert [run["curve"]["values"] for run in results["runs"]] == [[0.125, 0.25, 0.375]] * 4
    text = (fake / "out" / "results.md").read_text()
    assert "Two &lt;by> two" in text and "| tssa | 1,234 | 2 | 4 | 19.38 ± 4.42 | – |" in text
    assert (fake / "out" / "results.csv").read_text().splitlines()[1].startswith(",tssa,0,done,1234,1.0,2.0,0.1")
    before = {p: p.stat().st_mtime_ns for p in (fake / "out" / "runs").rglob("*")}
    assert study(fake, "--jobs", 2) == results
    assert before == {p: p.stat().st_mtime_ns for p in (fake / "out" / "runs").rglob("*") if p in before}


def test_seeds_and_contestants_count_once(fake, capsys):
    same = [{"name": "a", "settings": {"mixer": "tssa"}}, {"name": "b", "settings": {"mixer": "tssa"}}]
    results = study(fake, "--seeds", "1,1", "--only", "a", "--only", "a", variants=same, grid={})
    assert "b has the settings of a and is counted once" in capsys.readouterr().err
    only = results["tasks"][0]["variants"]
    assert [(v["variant"], v["score"]["n"], v["score"]["spread"]) for v in only] == [("a", 1, None)]


def test_refusals(fake, capsys):
    assert "unknown key 'seed'" in refusal(capsys, fake, seed=1)
    assert "is there twice" in refusal(capsys, fake, grid={"lr": ["a b", "a:b"]})
    assert "There is no variant 'tsa'" in refusal(capsys, fake, "--only", "tsa")
    assert "--set mixer=delta changes nothing" in refusal(capsys, fake, "--set", "mixer=delta")
    assert "--set lr=0.1 changes nothing" in refusal(capsys, fake, "--set", "lr=0.1")
    assert "no mixer wrong" in refusal(capsys, fake, grid={"mixer": ["tssa", "wrong"]})
    assert "nested deeper" in refusal(capsys, fake, note=json.loads("[" * 40 + "]" * 40))
    assert not (fake / "out").exists()
    (fake / "out").mkdir()
    (fake / "out" / "results.md").write_text("mine")
    assert "is no study's folder" in refusal(capsys, fake)
    assert (fake / "out" / "results.md").read_text() == "mine"


def test_other_settings_need_a_word(fake, capsys):
    study(fake)
    assert "steps is 3 there and 2 now" in refusal(capsys, fake, "--set", "steps=2")
    results = study(fake, "--set", "steps=2", "--overwrite")
    assert [run["curve"]["steps"] for run in results["runs"]] == [[1, 2]] * 4


def test_a_failure_stops_nothing_else(fake):
    results = study(fake, expect=1, grid={"mixer": ["breaks", "tssa"]})
    assert [run["state"] for run in results["runs"]] == ["done", "failed", "done", "done"]
    assert "Failed: breaks, seed 1: it broke." in (fake / "out" / "results.md").read_text()


def test_tuning_tasks_and_damage(fake):
    results = study(fake, tune={"key": "lr", "values": [0.1, 0.3, 0.2]}, settings={"steps": 2},
                    tasks=[{"name": "a"}, {"name": "b", "settings": {"steps": 3}}], corruptions={"strengths": [1, 2]})
    assert {run["settings"]["lr"] for run in results["runs"]} == {0.3}
    assert [t["task"] for t in results["tasks"]] == ["a", "b"] and len(results["runs"]) == 8
    text = (fake / "out" / "results.md").read_text()
    assert "| variant | a, top-1 % | b, top-1 % | mean |" in text and "Top-1 % under corruption" in text
    assert results["runs"][0]["corrupted"]["noise"] == [results["runs"][0]["scores"]["top1"] / 2] * 2


def test_single_runs_of_a_scheduler(fake, capsys):
    assert command.main([write(fake), "--out", str(fake / "out"), "--list"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(run["index"], run["variant"], run["seed"]) for run in listed] == [
        (0, "tssa", 0), (1, "tssa", 1), (2, "none", 0), (3, "none", 1)]
    for index in (3, 0):
        study(fake, "--index", index)
    assert not (fake / "out" / "results.md").exists()
    assert [run["state"] for run in study(fake, "--tables")["runs"]] == ["done", "planned", "planned", "done"]


def test_a_reader_may_stop_early(fake):
    """As `head` does: no traceback."""
    arguments = [sys.executable, "-m", "tost.study", write(fake, seeds=list(range(200))), "--out", str(fake / "out"), "--dry-run"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(60) == 0


def test_generated_data_moves_with_the_study(fake):
    pytest.importorskip("numpy")
    generate = {"task": "parity", "lengths": [4], "train": 3, "validation": 2, "test": 2}
    study(fake, generate=generate, seeds=[0])
    data = json.loads((fake / "out" / "runs" / "none" / "seed-0" / "config.json").read_text())["data"]
    assert data == str((fake / "out" / "data" / "task").resolve()) and os.path.exists(os.path.join(data, "train.safetensors"))
    (fake / "out").rename(fake / "moved")
    assert command.main([write(fake, generate=generate, seeds=[0]), "--out", str(fake / "moved"), "--quiet"]) == 0
    assert command.main([write(fake, generate={**generate, "train": 4}), "--out", str(fake / "moved"), "--quiet"]) == 2


def steps_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_stopped_or_killed_it_resumes_without_loss(fake, sent):
    slow = {**STUDY, "settings": {"lr": 0.1, "steps": 20, "nap": 0.02}}
    arguments = [sys.executable, "-m", "tost.study", write(fake, slow), "--out", str(fake / "out"), "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    second = fake / "out" / "runs" / "tssa" / "seed-1"
    while not (second / "metrics.jsonl").exists() or len(steps_of(second)) < 2:
        time.sleep(0.01)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (130 if sent == signal.SIGINT else -signal.SIGKILL), err
    results = study(fake, value=slow)
    assert [run["curve"]["steps"] for run in results["runs"]] == [list(range(1, 21))] * 4
    # A run whose study was killed trains on, and is not trained twice at once: its time is not known.
    known = results["runs"][1]["cpu_seconds"]
    assert known == (4.0 if sent == signal.SIGINT else None)
