"""Fixtures: seeds, and recorded numbers that lie next to the source tree, not in it."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import pytest
import torch


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def parity():
    """parity(name): the tensors of shared/parity/name, the weights and what the official code made of them."""
    here = pathlib.Path(__file__).resolve().parents[2].parent / "shared"
    root = pathlib.Path(os.environ.get("TOST_SHARED", here)) / "parity"

    def read(path):
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        types = {"F32": torch.float32, "I64": torch.int64}
        tensors = {}
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                bytes_of = bytearray(data[8 + size + begin : 8 + size + end])
                tensors[name] = torch.frombuffer(bytes_of, dtype=types[entry["dtype"]]).view(entry["shape"])
        return tensors

    def load(name):
        if not (root / name).is_dir():
            pytest.skip(f"needs {root / name}, which is missing; set TOST_SHARED to where it is")
        return read(root / name / "state.safetensors"), read(root / name / "expected.safetensors")

    return load


@pytest.fixture(scope="session")
def program():
    """program(arguments...): runs the program tost, or tost.convert for `convert`, and returns what it prints."""
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "tost"
    path = os.environ.get("TOST_PROGRAM") or (str(built) if built.is_file() else shutil.which("tost"))
    if path is None:
        pytest.skip("needs the program tost; build it, or set TOST_PROGRAM to where it is")

    def run(*arguments):
        command = [sys.executable, "-m", "tost.convert"] if arguments[0] == "convert" else [path, arguments[0]]
        done = subprocess.run([*command, *map(str, arguments[1:])], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def image_run(program, tmp_path_factory):
    """A run folder of an image model, trained for two steps."""
    run = tmp_path_factory.mktemp("image") / "run"
    program("train", "--data", "shapes", "--batch", 8, "--max-steps", 2, "--threads", 1, "--quiet", "--out", run)
    return run


@pytest.fixture(scope="session")
def language_run(program, tmp_path_factory):
    """A run folder of a language model of bytes, trained for two steps."""
    folder = tmp_path_factory.mktemp("language")
    text = folder / "text.txt"
    text.write_text("Tokens meet in sums alone, and no sum ends before the token that asks. " * 40)
    arguments = ("--data", text, "--recipe", "char", "--max-steps", 2, "--threads", 1, "--quiet")
    program("train", *arguments, "--out", folder / "run")
    return folder / "run"
