"""What a process as a whole does: without kernels, next to other libraries of the same name, while exporting."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

import tost


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_without_kernels_the_plain_form_runs():
    code = """
import sys
sys.modules["tost._C"] = None
import torch, tost
x = torch.randn(2, 9, 24, requires_grad=True)
layer, causal = tost.nn.TSSA(24, 4), tost.nn.CausalTSSA(24, 4)
(layer(x).sum() + causal(x, return_state=True)[0].sum()).backward()
with torch.autocast("cpu", torch.bfloat16):
    assert layer(x).dtype == torch.bfloat16
print(tost._library.available(), bool(x.grad.any()))
"""
    assert run(code) == (0, "False True", "")


def test_import_loads_nothing_but_torch_and_the_package():
    code = """
import sys, torch
before = set(sys.modules)
import tost
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
    assert run(code) == (0, "tost", "")


def test_commands_start_where_python_does_not_keep_its_own_arguments():
    """Python before 3.10, with more arguments than one."""
    code = """
import sys
sys.argv = ["-m", "file", "--out", "folder"]
del sys.orig_argv
import tost
print(tost.nn.TSSA.__name__)
"""
    assert run(code) == (0, "TSSA", "")


def test_an_old_torch_runs_the_plain_form_and_says_so():
    code = """
import torch
torch.__version__ = "2.10.1+cpu"
import tost
print(tost.nn.TSSA(24, 4)(torch.randn(2, 9, 24)).shape, tost._library.available())
print(tost.info().splitlines()[1])
"""
    status, out, text = run(code)
    sentence = "cpu: plain form (the kernels need torch 2.11 or newer, and this is torch 2.10.1+cpu)"
    assert (status, out.splitlines(), text) == (0, ["torch.Size([2, 9, 24]) False", sentence], "")


def test_broken_kernels_are_reported(tmp_path):
    shutil.copytree(pathlib.Path(tost.__file__).parent, tmp_path / "tost")
    next((tmp_path / "tost").glob("_C*.so")).write_bytes(b"not a library")
    status, out, text = run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import tost; print(tost._library.available())"
    )
    assert (status, out) == (0, "False") and "UserWarning: tost: the kernels cannot be loaded" in text


def test_a_foreign_namespace_leaves_the_plain_form():
    code = """
import torch
library = torch.library.Library("tost", "DEF")
library.define("tssa(Tensor w) -> Tensor")
import tost
print(tost._library.available(), tost.nn.TSSA(24, 4)(torch.randn(2, 9, 24)).shape)
"""
    status, out, text = run(code)
    assert (status, out) == (0, "False torch.Size([2, 9, 24])")
    assert "another library has registered torch.ops.tost without" in text


def test_operators_of_the_cpp_library_are_used():
    path = os.environ.get("TOST_LIBRARY")
    if not path:
        pytest.skip("needs the libtost_torch.so of this torch, built by `make`; name it in TOST_LIBRARY")
    code = f"""
import torch
torch.ops.load_library({path!r})
schemas = [str(getattr(torch.ops.tost, n).default._schema) for n in ("tssa", "tssa_causal", "tssa_backward")]
import tost, sys
assert tost._library._loaded is None and tost._library.available() and "tost._C" not in sys.modules
x = torch.randn(2, 9, 24, requires_grad=True)
layer = tost.nn.TSSA(24, 4)
y = layer(x)
y.sum().backward()
tost.nn.CausalTSSA(24, 4)(x).sum().backward()
print(*schemas, sep="\\n")
"""
    ours = [str(getattr(torch.ops.tost, n).default._schema) for n in ("tssa", "tssa_causal", "tssa_backward")]
    status, out, text = run(code)
    assert (status, out.splitlines()) == (0, ours), text


def test_the_extension_brings_no_other_runtime():
    if not shutil.which("readelf"):
        pytest.skip("needs readelf")
    listed = subprocess.run(["readelf", "-d", tost._C.__file__], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in listed.splitlines() if "NEEDED" in line]
    assert any(name.startswith("libtorch_cpu") for name in needed)
    assert not [name for name in needed if name.startswith(("libgomp", "libc10", "libtorch.", "libpython"))]


@pytest.mark.parametrize("channels_first", [False, True])
def test_exported_programs_hold_torchs_operators_alone(channels_first):
    layer = tost.nn.TSSA(24, 4).eval()
    x = torch.randn(2, 24, 6, 5) if channels_first else torch.randn(2, 30, 24)
    sizes = {0: torch.export.Dim("batch")} if channels_first else {1: torch.export.Dim("tokens", min=2)}
    program = torch.export.export(layer, (x,), dynamic_shapes=(sizes,))
    assert "aten.softmax" in str(program.graph) or "aten._softmax" in str(program.graph)
    assert "tost" not in str(program.graph)
    other = torch.randn(3, 24, 6, 5) if channels_first else torch.randn(2, 17, 24)
    torch.testing.assert_close(program.module()(other), layer(other))


def test_exported_causal_layer_keeps_its_state():
    layer = tost.nn.CausalTSSA(24, 4, 16).eval()

    class Step(torch.nn.Module):
        def forward(self, x, sums):
            return layer(x, tost.nn.CausalState(sums, 3), return_state=True)

    x, sums = torch.randn(2, 5, 24), torch.rand(2, 52, dtype=torch.float64)
    module = Step()
    module.layer = layer
    program = torch.export.export(module, (x, sums))
    assert "tost" not in str(program.graph)
    y, state = layer(x, tost.nn.CausalState(sums, 3), return_state=True)
    found, found_state = program.module()(x, sums)
    torch.testing.assert_close([found, found_state[0]], [y, state.sums], rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_compiled_packages_need_torch_alone(tmp_path):
    layer = tost.nn.TSSA(24, 4).eval()
    sizes = {1: torch.export.Dim("tokens", min=2, max=4096)}
    program = torch.export.export(layer, (torch.randn(2, 30, 24),), dynamic_shapes=(sizes,))
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "layer.pt2"))
    x = torch.randn(2, 170, 24)
    torch.save((x, layer(x).detach()), tmp_path / "case.pt")
    code = f"""
import sys, torch
model = torch._inductor.aoti_load_package({package!r})
x, wanted = torch.load({str(tmp_path / "case.pt")!r})
torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-5)
assert "tost" not in sys.modules
"""
    status, _, text = run(code)
    assert status == 0, text
