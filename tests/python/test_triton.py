"""The Triton kernels in Triton's interpreter, on the CPU: values and gradients against the plain form in float64.

The cases are those of tost/ops/tssa_cases_test_util.h, cut to what the interpreter runs in a minute or two. Fresh memory
and padding are NaN, so that a result that depends on either fails. On a GPU the same tests run the compiled kernels:
TOST_TEST_DEVICE=cuda (scripts/gpu_session.py).
"""

import math
import os
import pathlib
import re
import sys

DEVICE = os.environ.get("TOST_TEST_DEVICE", "cpu")
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import pytest  # noqa: E402
import torch  # noqa: E402

from tost import _library, _triton, ops, plain  # noqa: E402

call = torch.ops.tost
FLOATS = (torch.float32, torch.bfloat16, torch.float16)

if DEVICE == "cpu":
    if _library.available():
        pytest.skip("the operators have other kernels for the CPU here", allow_module_level=True)
    _library.add_triton("CPU")
elif not _library._limits:
    _library.add_triton()


def mend_interpreter():
    """Rounds float32 to bfloat16 to nearest even, as GPUs do; the interpreter cuts."""
    import numpy
    import triton.language as tl
    from triton.runtime import interpreter

    cutting = interpreter._convert_float

    def nearest(x, source, target, mode):
        if source == tl.float32 and target == tl.bfloat16:
            values = torch.from_numpy(numpy.array(x, numpy.float32))
            return values.bfloat16().view(torch.int16).numpy().view(numpy.uint16)
        return cutting(x, source, target, mode)

    interpreter._convert_float = nearest


if DEVICE == "cpu":
    mend_interpreter()


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Seeds, and NaN in all memory that nothing has been written to."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=["whole", "cut"])
def schedule(request, monkeypatch):
    """One program for a sample, or several."""
    monkeypatch.setattr(_triton, "_multiprocessors", lambda device: 0 if request.param == "whole" else 64)
    return request.param


class Case:
    def __init__(self, name, batch, tokens, heads, width, scale=1.0, temp=1.0, zeros=0, layout="packed", lengths=None):
        self.name, self.shape, self.heads, self.width = name, (batch, tokens, heads * width), heads, width
        self.scale, self.temp, self.zeros, self.layout, self.lengths = scale, temp, zeros, layout, lengths

    def tokens(self, dtype, scale=None, poison=True):
        batch, tokens, channels = self.shape
        x = torch.randn(self.shape, dtype=torch.float64) * (self.scale if scale is None else scale)
        x[:, :, : self.zeros] = 0
        if poison:
            for sample, length in zip(x, self.lengths or ()):
                sample[length:] = math.nan
        x = x.to(DEVICE, dtype)
        if self.layout == "rows_apart":
            wide = torch.full((batch, tokens, channels + 5), 1e30, device=DEVICE).to(dtype)
            return wide[:, :, 2:-3].copy_(x)
        if self.layout == "batch_inner":
            return x.transpose(0, 1).contiguous().transpose(0, 1)
        if self.layout == "channels_apart":
            return x.transpose(1, 2).contiguous().transpose(1, 2)
        return x

    def temps(self):
        values = torch.linspace(0.5 * self.temp, 1.5 * self.temp, self.heads, device=DEVICE)
        return values.unsqueeze(1).requires_grad_()


CASES = [
    Case("vision", 2, 50, 6, 64),
    Case("width48", 1, 196, 8, 48),
    Case("one_token", 3, 1, 4, 16),
    Case("one_head", 2, 19, 1, 24),
    Case("many_heads", 1, 9, 300, 1),
    Case("long", 1, 700, 2, 8),
    Case("block_edge", 2, 65, 3, 16),
    Case("sharp", 2, 12, 4, 16, temp=40.0),
    Case("zero_temp", 2, 12, 4, 16, temp=0.0),
    Case("zero_input", 2, 20, 3, 8, scale=0.0),
    Case("zero_channels", 2, 20, 3, 8, zeros=10),
    Case("clamped", 2, 20, 3, 8, scale=1e-14),
    Case("tiny", 2, 20, 3, 8, scale=1e-6),
    Case("large", 2, 20, 3, 8, scale=1e4),
    Case("huge", 2, 20, 3, 8, scale=1e8),
    Case("rows_apart", 2, 21, 3, 7, layout="rows_apart"),
    Case("batch_inner", 3, 21, 2, 16, layout="batch_inner"),
    Case("channels_apart", 2, 21, 2, 16, layout="channels_apart"),
    Case("width128", 1, 21, 5, 128),
    Case("width256", 1, 9, 3, 256),
    Case("width200", 1, 9, 2, 200),
    Case("empty_batch", 0, 5, 4, 16),
    Case("no_tokens", 2, 0, 4, 16),
    *(Case(f"w{width}", 1, 7 + width % 4, 3, width) for width in (1, 2, 3, 5, 7, 9, 15, 17, 31, 33)),
    *(Case(f"n{tokens}", 1, tokens, 2, 6) for tokens in (2, 7, 8, 9, 15, 16, 17, 63, 64, 66, 129)),
]
RAGGED = [
    Case("ragged", 4, 21, 3, 8, lengths=[21, 1, 8, 13]),
    Case("ragged_blocks", 5, 200, 2, 5, temp=3.0, lengths=[65, 200, 64, 127, 2]),
    Case("ragged_none", 3, 70, 2, 6, lengths=[0, 70, 0]),
    Case("ragged_all_none", 2, 9, 2, 6, lengths=[0, 0]),
    Case("ragged_zero_channels", 2, 20, 3, 8, zeros=10, lengths=[20, 7]),
    Case("ragged_rows_apart", 3, 21, 3, 7, layout="rows_apart", lengths=[5, 21, 16]),
    Case("ragged_batch_inner", 3, 21, 2, 16, layout="batch_inner", lengths=[9, 20, 3]),
]


def named(cases):
    return [pytest.param(case, id=case.name) for case in cases]


def results(operator, leaves, grads, more):
    """y, pi, what follows them, and the gradients of the leaves; gradients flow through both y and pi."""
    y, pi, *rest = operator(*leaves, *more)
    found = torch.autograd.grad((y, pi), leaves, (grads[0].to(y.dtype), grads[1].to(pi.dtype)))
    return [x.detach() for x in (y, pi, *rest, *found)]


def leaves_of(*tensors):
    return [x.detach().requires_grad_() for x in tensors]


def compare(names, case, dtype, operator, definition, inputs, more):
    """Bounds are multiples of what the plain form itself errs by in this dtype."""
    batch, tokens, _ = case.shape
    grads = [case.tokens(dtype, 1.0, poison=False), torch.randn(batch, case.heads, tokens, device=DEVICE)]
    exact = results(definition, leaves_of(*(x.double() for x in inputs)), grads, more)
    rounded = results(definition, leaves_of(*inputs), grads, more)
    found = results(operator, leaves_of(*inputs), grads, more)
    again = results(operator, leaves_of(*inputs), grads, more)
    # Gradients of temp and of the bias are sums of terms that cancel, as large as these.
    terms = sum(float((g.double() * x).abs().sum()) for g, x in zip(grads, exact))
    for name, a, b, c, d in zip(names, found, exact, rounded, again):
        assert a.shape == b.shape and a.dtype == c.dtype
        assert torch.isfinite(a).all(), name
        assert torch.equal(a, d), f"{name} differs from run to run"
        if a.numel() == 0:
            continue
        error, plain_error = (float((x.double() - b).abs().max()) for x in (a, c))
        largest = float(b.abs().max())
        floor = 3e-7 * case.width * (1 + terms) if name in ("dtemp", "dbias") else 0.0
        allowed = 3 * plain_error + 1e-6 * largest + floor
        assert error <= allowed, f"{name}: {error:.2e} of {largest:.2e}, allowed {allowed:.2e}"


@pytest.mark.parametrize("case", named(CASES + RAGGED))
def test_values_and_gradients(case, schedule):
    lengths = None if case.lengths is None else torch.tensor(case.lengths, device=DEVICE)
    inputs = (case.tokens(torch.float32), case.temps())
    compare(("y", "pi", "dw", "dtemp"), case, torch.float32, call.tssa, plain.tssa, inputs, (lengths,))


HALVES = [case for case in CASES + RAGGED if case.name in ("width48", "ragged", "rows_apart", "w17", "one_token")]


@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.parametrize("case", named(HALVES))
def test_half_precision(case, dtype, schedule):
    lengths = None if case.lengths is None else torch.tensor(case.lengths, device=DEVICE)
    inputs = (case.tokens(dtype), case.temps())
    compare(("y", "pi", "dw", "dtemp"), case, dtype, call.tssa, plain.tssa, inputs, (lengths,))
