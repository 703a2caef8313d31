"""tost.tasks: every sample keeps the rules of its task, files are what the reader expects, and bad requests are refused."""
import json
import pathlib
import struct
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from tost import tasks  # noqa: E402
from tost.tasks import files  # noqa: E402
from tost.tasks.__main__ import main  # noqa: E402
from tost.tasks.recall import Case, begin_of_sentence  # noqa: E402

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(ROOT / "studies")]
from pathfinder import Artist  # noqa: E402
from task_rules import check  # noqa: E402

CASES = {"recall": [Case(64, 8), Case(16, 4)], "needle": [Case(256), Case(128, depth=0.0), Case(300, depth=1.0)],
         "copying": [Case(64)], "parity": [Case(9)], "s3": [Case(17)], "in-context-recall": [Case(4), Case(128)],
         "noisy-in-context-recall": [Case(128)], "fuzzy-in-context-recall": [Case(128), Case(25)],
         "selective-copying": [Case(256, 16), Case(9, 4)], "memorization": [Case(32)], "compression": [Case(32)]}


@pytest.mark.parametrize("name", tasks.TASKS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_samples_keep_the_rules(name, split):
    task = tasks.TASKS[name]()
    for case in CASES[name]:
        drawn = tasks.draw(task, [case], split, 15, 3)
        for tokens, targets in zip(drawn["tokens"], drawn["targets"]):
            check(name, task, case, split == "train", tokens.astype(int), targets.astype(int))


def test_options_of_tasks():
    for name, options, case in (("copying", {"gap": 5}, Case(25)), ("recall", {"filler": "zeros", "power": 1}, Case(32, 3)),
                                ("needle", {"distractors": 3, "questions": 2}, Case(512)),
                                ("noisy-in-context-recall", {"noise": 0.7}, Case(64))):
        task = tasks.TASKS[name](**options)
        for i in range(20):
            tokens, targets = task.sample(case, False, np.random.default_rng(i))
            check(name, task, case, False, tokens, targets)


def test_samples_depend_on_seed_split_and_place_alone():
    task, case = tasks.TASKS["recall"](), Case(32, 4)
    few, many = (tasks.draw(task, [Case(16, 2), case], "train", n, 5) for n in (3, 9))
    np.testing.assert_array_equal(few["tokens"][3:], many["tokens"][9:12])
    for seed, split in ((6, "train"), (5, "test")):
        assert (tasks.draw(task, [case], split, 3, seed)["tokens"] != few["tokens"][3:]).any()


def test_a_needle_lies_where_it_is_asked_for(tmp_path):
    text = b"One. Two words. " * 40
    assert [begin_of_sentence(text, at) for at in (0, 3, 5, 6, 17)] == [0, 0, 5, 5, 16]
    (tmp_path / "hay.txt").write_bytes(text)
    task = tasks.TASKS["needle"](haystack=str(tmp_path / "hay.txt"))
    places = []
    for depth in (0.0, 0.5, 1.0):
        tokens, _ = task.sample(Case(400, depth=depth), False, np.random.default_rng(1))
        places.append(bytes(tokens.astype(np.uint8)).index(b"The code of"))
    assert places[0] == 0 and 150 < places[1] < 200 and places[2] > 300


def read_safetensors(path):
    """Tensors and metadata of a file that write_safetensors() wrote."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    names = {code: name for name, code in files.DTYPES.items()}
    tensors = {}
    for name, entry in header.items():
        low, high = entry["data_offsets"]
        array = np.frombuffer(data, np.dtype(names[entry["dtype"]]).newbyteorder("<"), offset=8 + size + low,
                              count=(high - low) // np.dtype(names[entry["dtype"]]).itemsize)
        tensors[name] = array.reshape(entry["shape"])
    return tensors, metadata


def test_files(tmp_path, capsys):
    out = tmp_path / "task"
    arguments = ["recall", "--out", str(out), "--lengths", "16,32", "--pairs", "2,4", "--vocab", "16", "--train", "5",
                 "--validation", "2", "--test", "3"]
    assert main(arguments) == 0
    tensors, metadata = read_safetensors(out / "test.safetensors")
    assert tensors["tokens"].shape == tensors["targets"].shape == (6, 32) and list(tensors["group"]) == [0] * 3 + [1] * 3
    assert metadata["vocabulary"] == "16" and json.loads(metadata["groups"]) == ["16/2", "32/4"]
    assert (tensors["targets"][:3, 16:] == -1).all()
    before = (out / "train.safetensors").stat().st_mtime_ns
    assert main(arguments) == 0 and (out / "train.safetensors").stat().st_mtime_ns == before
    assert main(arguments + ["--seed", "1"]) == 2 and "other settings" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    assert main(["parity", "--out", str(tmp_path / "mine")]) == 2
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes"]


def test_refusals(tmp_path, capsys):
    for arguments, words in ((["recall", "--pairs", "400"], "raise vocab"), (["recall", "--lengths", "7"], "too short"),
                             (["recall", "--lengths", "17"], "odd"), (["copying", "--pairs", "3"], "pairs does not go"),
                             (["copying", "--noise", "0.5"], "no option noise"), (["needle", "--questions", "2"], "to ask for"),
                             (["parity", "--train", "0"], "at least 1"), (["needle", "--lengths", "20"], "too short"),
                             (["recall", "--lengths", "16,32", "--pairs", "1,2,3"], "as many of both"),
                             (["pathfinder", "--side", "33"], "not 33"), (["pathfinder", "--contour-length", "2"], "not 2"),
                             (["recall", "--lengths", "10000k"], "more than a file"),
                             (["recall", "--lengths", "64,x"], "lengths must be"), (["needle", "--depths", "0,2"], "depths must be")):
        assert main(arguments + ["--out", str(tmp_path / "x")]) == 2, arguments
        assert words in capsys.readouterr().err, arguments
    assert not list(tmp_path.iterdir())


def test_pathfinder(tmp_path):
    artist = Artist(32, 6)
    central = 0
    for i in range(24):
        image, label, discs = artist.draw(np.random.default_rng(i))
        assert image.shape == (32, 32) and image.max() == 255 and label in (0, 1)
        assert all(image[y, x] > 150 for y, x in discs)
        central += 14 <= discs[0][0] <= 16 and 14 <= discs[0][1] <= 16
    assert 3 < central < 21  # the first contour begins there, and its beginning is marked half the time
    assert main(["pathfinder", "--out", str(tmp_path / "p"), "--contour-length", "6", "--train", "4", "--test", "2"]) == 0
    data = (tmp_path / "p" / "train-images-idx3-ubyte").read_bytes()
    assert len(data) == 16 + 4 * 1024 and data[:8] == bytes([0, 0, 8, 3, 0, 0, 0, 4])
    assert len((tmp_path / "p" / "t10k-labels-idx1-ubyte").read_bytes()) == 8 + 2


def test_only_a_checkout_draws_pathfinder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tasks, "STUDIES", tmp_path)
    assert main(["pathfinder", "--out", str(tmp_path / "p")]) == 2
    assert "only a checkout" in capsys.readouterr().err and not list(tmp_path.iterdir())
