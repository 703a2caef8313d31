"""The TensorBoard event files of a training run, read by TensorBoard itself.

Run by ctest with the program that writes them as TOST_PROBE.
"""

import os
import subprocess

import pytest

event_accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="the tensorboard package is not installed"
)

WRITER = os.environ.get("TOST_PROBE", "")


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    if not WRITER:
        pytest.skip("TOST_PROBE is not set")
    folder = tmp_path_factory.mktemp("run")
    subprocess.run([WRITER, folder], check=True)
    accumulator = event_accumulator.EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def test_tags(events):
    assert sorted(events.Tags()["scalars"]) == ["eval/top1", "train/loss"]


# write_event_files logs loss = step / 8 for steps 1 ... 300, then resumes after step 200 and logs step / 4.
def test_values_and_restart(events):
    loss = events.Scalars("train/loss")
    assert [event.step for event in loss] == list(range(1, 301))
    assert [event.value for event in loss] == [step / 8 if step <= 200 else step / 4 for step in range(1, 301)]
    assert loss[0].wall_time > 1.7e9


def test_large_step_and_float_rounding(events):
    top1 = events.Scalars("eval/top1")
    assert [event.step for event in top1] == [5_000_000_000]
    assert top1[0].value == pytest.approx(0.9, abs=1e-7)
