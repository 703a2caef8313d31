"""Fixtures: seeds, and recorded numbers that lie beside the source tree and are not part of it."""

import json
import os
import pathlib
import struct

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
