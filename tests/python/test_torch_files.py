"""Files that this torch writes are read bit for bit, in every protocol.

Run by ctest with the probe program as TOST_PROBE.
"""

import argparse
import collections
import json
import os
import subprocess

import pytest
import torch

PROBE = os.environ.get("TOST_PROBE", "")
if not PROBE:
    pytest.skip("TOST_PROBE is not set", allow_module_level=True)

protocols = pytest.mark.parametrize("protocol", (2, 3, 4, 5))
OLD_TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
             torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128]
NEW_NAMES = ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
             "float8_e8m0fnu")
NEW_TYPES = [getattr(torch, name) for name in NEW_NAMES if hasattr(torch, name)]
if hasattr(torch, "float8_e5m2"):  # torch 1 has complex32 but cannot save it
    NEW_TYPES.append(torch.complex32)


def read(tmp_path, value, protocol=2):
    """What the probe says of `value` after torch.save: tensors by name, and the outline."""
    path = tmp_path / "x.pt"
    torch.save(value, path, pickle_protocol=protocol)
    out = subprocess.run([PROBE, str(path)], capture_output=True)
    assert out.returncode == 0, out.stderr.decode()
    tensors, rest = {}, out.stdout
    while True:
        line, rest = rest.split(b"\n", 1)
        head = json.loads(line)
        if "contents" in head:
            assert not rest
            return tensors, head["contents"]
        head["data"], rest = rest[:head["bytes"]], rest[head["bytes"]:]
        tensors[head["name"]] = head


def bits(tensor):
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b""


def expect_same(seen, tensor):
    assert seen["dtype"] == str(tensor.dtype).removeprefix("torch.")
    assert seen["shape"] == list(tensor.shape)
    assert seen["data"] == bits(tensor)


@protocols
@pytest.mark.parametrize("dtype", OLD_TYPES + NEW_TYPES, ids=str)
def test_types(tmp_path, dtype, protocol):
    raw = torch.arange(0, 96, dtype=torch.uint8)
    value = {"t": (raw % 2).bool() if dtype == torch.bool else raw.view(dtype)}
    tensors, _ = read(tmp_path, value, protocol)
    expect_same(tensors["t"], value["t"])


@protocols
def test_views_and_shared_storages(tmp_path, protocol):
    base = torch.arange(120.0).reshape(4, 5, 6)
    value = {"base": base, "transposed": base.permute(2, 0, 1), "strided": base[1:3, ::2, 1::3], "row": base[2, 3],
             "expanded": torch.tensor([7.0]).expand(3, 4), "scalar": torch.tensor(2.5), "element": base[1, 2, 3],
             "empty": torch.zeros(0, 3), "empty_too": base[:, :0], "other": torch.ones(3)}
    tensors, _ = read(tmp_path, value, protocol)
    assert list(tensors) == list(value)
    for name, tensor in value.items():
        expect_same(tensors[name], tensor)
    same = {name for name, tensor in tensors.items() if tensor["storage"] == tensors["base"]["storage"]}
    assert same == {"base", "transposed", "strided", "row", "element", "empty_too"}


@protocols
def test_modules_and_optimisers(tmp_path, protocol):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3, bias=False))
    model[2].weight = torch.nn.Parameter(model[0].weight.t().contiguous())
    optimiser = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimiser.step()
    value = {"model": model.state_dict(), "optimizer": optimiser.state_dict(), "epoch": 3}
    tensors, contents = read(tmp_path, value, protocol)
    for name, tensor in value["model"].items():
        expect_same(tensors["model." + name], tensor)
    for number, state in value["optimizer"]["state"].items():
        for name, tensor in state.items():
            expect_same(tensors[f"optimizer.state.{number}.{name}"], tensor)
    assert contents["epoch"] == 3
    assert contents["optimizer"]["param_groups"][0]["lr"] == 1e-3
    assert contents["optimizer"]["param_groups"][0]["betas"] == [0.9, 0.999]


@protocols
def test_parameters(tmp_path, protocol):
    weight = torch.nn.Parameter(torch.randn(2, 3))
    tagged = torch.nn.Parameter(torch.randn(2))
    tagged.note = "kept"
    attributed = torch.randn(4)
    attributed.note = "kept"
    value = {"weight": weight, "tied": weight, "tagged": tagged, "attributed": attributed}
    tensors, _ = read(tmp_path, value, protocol)
    for name, tensor in value.items():
        expect_same(tensors[name], tensor)
    assert [tensors[name]["parameter"] for name in value] == [True, True, True, False]
    assert tensors["weight"]["storage"] == tensors["tied"]["storage"]


@protocols
def test_plain_values(tmp_path, protocol):
    ordered = collections.OrderedDict(b=1, a=[None, True, -5, 2**40, 1.5, "h\u00e9", ()])
    value = {"ordered": ordered, "space": argparse.Namespace(lr=5e-4, betas=None, names=["x"]), 3: "three",
             "size": torch.Size([1, 2]), "type": torch.bfloat16, "device": torch.device("cuda:1"), "bytes": b"ab\xff",
             "counter": collections.Counter("aab"), "infinite": float("inf"), "long": 2**70, "set": {7}}
    _, contents = read(tmp_path, value, protocol)
    assert contents["ordered"] == {"b": 1, "a": [None, True, -5, 2**40, 1.5, "h\u00e9", []]}
    assert list(contents["ordered"]) == ["b", "a"]
    assert contents["space"] == {"<class>": "argparse.Namespace", "lr": 5e-4, "betas": None, "names": ["x"]}
    assert contents["3"] == "three"
    assert contents["type"] == "<torch.bfloat16>"
    assert contents["bytes"] == "<3 bytes>" or contents["bytes"]["<class>"] == "_codecs.encode"
    assert contents["infinite"] == "inf"
    assert contents["long"] == "<long integer>"
    assert contents["set"] == [7] or contents["set"]["<arguments>"] == [[7]]


class Unknown:
    def __init__(self):
        self.inner = {"w": torch.ones(2)}


@protocols
def test_unknown_classes_are_records(tmp_path, protocol):
    tensors, contents = read(tmp_path, {"config": Unknown()}, protocol)
    expect_same(tensors["config.inner.w"], torch.ones(2))
    assert contents["config"]["<class>"].endswith(".Unknown")


def refused(tmp_path, data):
    path = tmp_path / "bad.pt"
    path.write_bytes(data)
    out = subprocess.run([PROBE, str(path)], capture_output=True, text=True)
    assert out.returncode == 1 and out.stdout == "", out
    assert out.stderr.count("\n") == 1
    return out.stderr


def test_scripted_programs_are_refused(tmp_path):
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), tmp_path / "s.pt")
    assert "torch.jit.save" in refused(tmp_path, (tmp_path / "s.pt").read_bytes())


def test_every_prefix_is_refused(tmp_path):
    torch.save({"w": torch.randn(50)}, tmp_path / "w.pt")
    data = (tmp_path / "w.pt").read_bytes()
    for size in list(range(0, len(data), 97)) + [len(data) - 1]:
        refused(tmp_path, data[:size])


def test_the_layout_before_torch_1_6_is_refused(tmp_path):
    torch.save({"w": torch.randn(5)}, tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    assert "the layout of torch before 1.6" in refused(tmp_path, (tmp_path / "w.pt").read_bytes())


def test_damaged_weights_are_refused(tmp_path):
    torch.save({"w": torch.randn(50)}, tmp_path / "w.pt")
    data = bytearray((tmp_path / "w.pt").read_bytes())
    at = data.index(b"data/0") + 200
    data[at] ^= 1
    assert "checksum" in refused(tmp_path, bytes(data))
