"""scripts/tensorboard_log.py: the curves of metrics.jsonl, read by TensorBoard itself."""

import json
import pathlib
import subprocess
import sys

import pytest

event_accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="the tensorboard package is not installed"
)

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/tensorboard_log.py"


def write(run, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "metrics.jsonl").write_text(text + '{"kind": "train", "st', encoding="utf-8")  # the run is writing


def events_of(run):
    subprocess.run([sys.executable, str(SCRIPT), str(run)], check=True)
    accumulator = event_accumulator.EventAccumulator(str(run / "tensorboard"))
    accumulator.Reload()
    return accumulator


@pytest.fixture
def lines():
    train = [{"kind": "train", "step": step, "epoch": 1, "loss": step / 8, "lr": 1e-3, "images_per_s": 5.0, "wait_share": 0.5}
             for step in range(1, 301)]
    return train + [{"kind": "event", "event": "skipped_step", "step": 4, "rollbacks": 0, "value": 1.5},
                    {"kind": "sample", "step": 5, "text": "x"},
                    {"kind": "bound", "step": 9, "samples": 4, "layers": [{"layer": 2, "bound": 0.25}]},
                    {"kind": "eval", "step": 5_000_000_000, "epoch": 9, "best": True, "top1": 0.9, "split": "test"}]


def test_curves(tmp_path, lines):
    write(tmp_path, lines)
    events = events_of(tmp_path)
    assert sorted(events.Tags()["scalars"]) == ["bound/bound/2", "eval/top1", "speed/images_per_s", "speed/wait_share",
                                                "train/loss", "train/lr"]
    loss = events.Scalars("train/loss")
    assert [(event.step, event.value) for event in loss] == [(step, step / 8) for step in range(1, 301)]
    top1 = events.Scalars("eval/top1")
    assert [event.step for event in top1] == [5_000_000_000]
    assert top1[0].value == pytest.approx(0.9, abs=1e-7)


def test_a_second_call_replaces_the_first(tmp_path, lines):
    write(tmp_path, lines)
    events_of(tmp_path)
    write(tmp_path, lines[:7])
    assert len(events_of(tmp_path).Scalars("train/loss")) == 7
