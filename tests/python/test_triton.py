"""The Triton kernels in Triton's interpreter, on the CPU: values and gradients against the plain form in float64.

The cases are those of tost/ops/tssa_cases_test_util.h, cut to what the interpreter runs in some minutes. Fresh memory
and padding are NaN, so that a result that depends on either fails. On a GPU the same tests run the compiled kernels:
TOST_TEST_DEVICE=cuda (scripts/gpu_session.py). `python test_triton.py` prints a table of deviations.
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

from tost import _library, _triton, models, ops, plain  # noqa: E402

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
def poisoned_memory(monkeypatch):
    """Seeds, and NaN in all memory that nothing has been written to."""
    torch.manual_seed(0)
    if DEVICE == "cpu":
        monkeypatch.setattr(_triton, "_multiprocessors", lambda device: 4)
    torch.use_deterministic_algorithms(True, warn_only=DEVICE != "cpu")  # the plain form's cumsum is not, on a GPU
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
    """Outputs, and the gradients of the leaves, which flow through as many outputs as there are grads."""
    outputs = operator(*leaves, *more)
    given = [g.to(y.dtype) for y, g in zip(outputs, grads)]
    return [x.detach() for x in (*outputs, *torch.autograd.grad(outputs[: len(grads)], leaves, given))]


def leaves_of(*tensors):
    return [x.detach().requires_grad_() for x in tensors]


NAMES = ("y", "pi", "dw", "dtemp")
CAUSAL_NAMES = ("y", "pi", "state", "dw", "dtemp", "dbias")
MEANS_NAMES = ("y", "state", "dbase", "dvalues", "dpi", "dscale", "drates")


def deviations(names, case, dtype, operator, definition, inputs, more):
    """(name, error, the plain form's error in this dtype, largest value, size of the terms) of every result."""
    batch, tokens, _ = case.shape
    grads = [case.tokens(dtype, 1.0, poison=False)]
    if names is not MEANS_NAMES:
        grads.append(torch.randn(batch, case.heads, tokens, device=DEVICE))
    exact = results(definition, leaves_of(*(x.double() for x in inputs)), grads, more)
    rounded = results(definition, leaves_of(*inputs), grads, more)
    found = results(operator, leaves_of(*inputs), grads, more)
    again = results(operator, leaves_of(*inputs), grads, more)
    # Gradients of temp, the bias, scale and rates are sums of terms that cancel, as large as these.
    terms = sum(float((g.double() * x).abs().sum()) for g, x in zip(grads, exact))
    for name, a, b, c, d in zip(names, found, exact, rounded, again):
        assert a.shape == b.shape and a.dtype == c.dtype
        assert torch.isfinite(a).all(), name
        assert torch.equal(a, d), f"{name} differs from run to run"
        if a.numel() != 0:
            errors = (float((x.double() - b).abs().max()) for x in (a, c))
            yield name, *errors, float(b.abs().max()), terms


def compare(names, case, *rest):
    """Bounds are multiples of what the plain form itself errs by in this dtype."""
    for name, error, plain_error, largest, terms in deviations(names, case, *rest):
        floor = 3e-7 * case.width * (1 + terms) if name in ("dtemp", "dbias", "dscale", "drates") else 0.0
        unit = 1e-6 if DEVICE == "cpu" else 4e-6  # a GPU's roots, quotients and exponentials are approximations
        unit = 4e-6 if names is MEANS_NAMES else unit  # a rounded rate is taken to the power of up to 64
        allowed = 3 * plain_error + unit * largest + floor
        assert error <= allowed, f"{name}: {error:.2e} of {largest:.2e}, allowed {allowed:.2e}"


@pytest.mark.parametrize("case", named(CASES + RAGGED))
def test_values_and_gradients(case, schedule):
    lengths = None if case.lengths is None else torch.tensor(case.lengths, device=DEVICE)
    inputs = (case.tokens(torch.float32), case.temps())
    compare(NAMES, case, torch.float32, call.tssa, plain.tssa, inputs, (lengths,))


HALVES = [case for case in CASES + RAGGED if case.name in ("width48", "ragged", "rows_apart", "w17", "one_token")]


@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.parametrize("case", named(HALVES))
def test_half_precision(case, dtype, schedule):
    lengths = None if case.lengths is None else torch.tensor(case.lengths, device=DEVICE)
    inputs = (case.tokens(dtype), case.temps())
    compare(NAMES, case, dtype, call.tssa, plain.tssa, inputs, (lengths,))


def state_before(case):
    """Of twenty tokens of the case's size."""
    before = Case("before", case.shape[0], 20, case.heads, case.width, case.scale)
    bias = torch.zeros(case.heads, 1, 1, dtype=torch.float64, device=DEVICE)
    return plain.tssa_causal(before.tokens(torch.float64), case.temps().double(), bias)[2].detach()


# A program is a head there: fewer of them, and of the widths.
SLOW = ("many_heads", "vision", "width48", "long", "width128", "channels_apart", "w2", "w9", "w31", "w33", "n8", "n16")
CAUSAL = [case for case in CASES if case.name not in SLOW]
CAUSAL += [Case("heads33", 1, 9, 33, 1), Case("width48", 1, 100, 4, 48)]


def causal_call(case, dtype, state):
    """The operator, its plain form and the inputs."""
    bias = torch.linspace(-0.1, 0.2, case.heads * 9, device=DEVICE).view(case.heads, 9, 1)
    more = (state_before(case), 4) if state else (None, 0)
    return call.tssa_causal, plain.tssa_causal, (case.tokens(dtype), case.temps(), bias), more


def check_causal(case, dtype, state):
    compare(CAUSAL_NAMES, case, dtype, *causal_call(case, dtype, state))


@pytest.mark.parametrize("state", [False, True], ids=["start", "state"])
@pytest.mark.parametrize("case", named(CAUSAL))
def test_causal_values_and_gradients(case, state, schedule):
    check_causal(case, torch.float32, state)


@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.parametrize("case", named(case for case in CAUSAL if case.name in ("width48", "rows_apart", "w17")))
def test_causal_half_precision(case, dtype, schedule):
    check_causal(case, dtype, True)


MEANS = {case.name: case for case in CASES + CAUSAL}
MEANS.update(width48=Case("width48", 1, 20, 2, 48), n64=Case("n64", 2, 64, 2, 4), width100=Case("width100", 1, 9, 2, 100))
MEANS = [MEANS[name] for name in (
    "width48", "one_token", "one_head", "heads33", "n64", "n129", "zero_input", "large", "rows_apart", "batch_inner",
    "channels_apart", "width100", "empty_batch", "w2", "w3", "w5", "w17", "w33")]
KINDS = dict(forget=(True, False, 0), keep=(False, False, 0), state=(True, True, 0), turned=(True, False, 1))


def means_call(case, dtype, forget, state, from_end):
    """The operator, its plain form, the inputs, and nothing more: rates from a thirtieth a token to almost one."""
    batch, tokens, channels = case.shape
    inputs = [case.tokens(dtype), case.tokens(dtype), torch.randn(batch, tokens, case.heads, device=DEVICE).softmax(2)]
    inputs.append(torch.linspace(-1, 1, channels, device=DEVICE))
    if forget:
        inputs.append(-torch.logspace(0.53, -4, case.heads, device=DEVICE))
    before = torch.rand(batch, case.heads, case.width + 1, device=DEVICE) if state else None

    def bound(function):
        def run(base, values, pi, scale, rates=None):
            return function(base, values, pi, scale, rates, before, from_end)

        return run

    return bound(ops.group_means), bound(plain.group_means), inputs, ()


@pytest.mark.parametrize(
    "case, kind",
    [
        pytest.param(case, kind, id=f"{case.name}-{kind}")
        for i, case in enumerate(MEANS)
        for j, kind in enumerate(KINDS)
        if i % 4 == j or case.name in ("n129", "w5")
    ],
)
def test_means_values_and_gradients(case, kind):
    compare(MEANS_NAMES, case, torch.float32, *means_call(case, torch.float32, *KINDS[kind]))


@pytest.mark.parametrize("dtype", FLOATS[1:])
@pytest.mark.parametrize("case", named(case for case in MEANS if case.name in ("width48", "rows_apart", "w17")))
def test_means_half_precision(case, dtype):
    compare(MEANS_NAMES, case, dtype, *means_call(case, dtype, True, False, 1))


def means_inputs(tokens=140, heads=3, width=5):
    base, values = torch.randn(2, 2, tokens, heads * width, device=DEVICE)
    pi = torch.randn(2, tokens, heads, device=DEVICE).softmax(2)
    scale, rates = torch.randn(heads * width, device=DEVICE), torch.tensor([-4.0, -0.1, 0.0], device=DEVICE)
    return base, values, pi, scale, rates


@pytest.mark.parametrize("from_end", [0, 1, 3])
def test_plain_means_are_the_definition(from_end):
    """Token by token, which is how tost/kernels/means.h defines them."""
    base, values, pi, scale, rates = (x.double() for x in means_inputs(9))
    keep, before = rates.exp().view(3, 1), torch.rand(2, 3, 6, dtype=torch.float64, device=DEVICE)
    before = None if from_end else before
    y, state = plain.group_means(base, values, pi, scale, rates, before, from_end)
    for head in range(3):
        channels, turned = slice(5 * head, 5 * head + 5), head >= 3 - from_end
        sums = torch.zeros_like(state[:, head]) if before is None else before[:, head]
        for t in range(8, -1, -1) if turned else range(9):
            share = pi[:, t, head : head + 1]
            sums = keep[head] * sums + share * torch.cat([values[:, t, channels], share], 1)
            found = base[:, t, channels] + scale[channels] * sums[:, :5] / (sums[:, 5:] + 1e-6).sqrt()
            torch.testing.assert_close(y[:, t, channels], found)
        torch.testing.assert_close(state[:, head], sums)


@pytest.mark.parametrize("cuts", [(1,) * 5 + (135,), (64, 76), (3, 50, 87)])
def test_pieces_and_steps_of_means_are_the_whole(cuts):
    *inputs, scale, rates = means_inputs()
    whole, last = ops.group_means(*inputs, scale, rates)
    state, position, pieces = None, 0, []
    for tokens in cuts:
        piece = [x[:, position : position + tokens] for x in inputs]
        y, state = ops.group_means(*piece, scale, rates, state)
        pieces.append(y)
        position += tokens
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, last, rtol=1e-5, atol=1e-6)


def test_no_token_sees_means_of_later_ones():
    base, values, pi, scale, rates = means_inputs()
    broken = values.clone()
    broken[:, 77] = math.nan
    a, b = (ops.group_means(base, x, pi, scale, rates, from_end=1)[0] for x in (values, broken))
    assert torch.equal(a[:, :77, :10], b[:, :77, :10]) and b[:, 77:, :10].isnan().all()
    assert torch.equal(a[:, 78:, 10:], b[:, 78:, 10:]) and b[:, :78, 10:].isnan().all()


def test_second_gradients_of_means():
    def second(function, leaves):
        leaves = leaves_of(*leaves)
        first = torch.autograd.grad(function(*leaves)[0].pow(3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    leaves = means_inputs(9)
    for a, b in zip(second(ops.group_means, leaves), second(plain.group_means, leaves)):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * float(b.abs().max()))


def test_opcheck_of_means():
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    leaves = leaves_of(*means_inputs(70))
    for rates, state, from_end in ((leaves[4], None, 2), (None, torch.rand(2, 3, 6, device=DEVICE), 0)):
        arguments = (*leaves[:4], rates, state, from_end)
        torch.library.opcheck(call.means_forward.default, arguments, test_utils=tests)
        base, *given = (x.detach() for x in leaves[:4])
        y, _, carry = call.means_forward(base, *given, rates if rates is None else rates.detach(), state, from_end)
        rates = None if rates is None else rates.detach()
        torch.library.opcheck(call.means_backward.default, (y, *given, rates, from_end, carry), test_utils=tests)


def test_compiled_means():
    def layer(*inputs):
        y, state = ops.group_means(*inputs, from_end=1)
        return y.square().sum() + state.sum()

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    for tokens in (11, 7):
        leaves = leaves_of(*means_inputs(tokens))
        expected = torch.autograd.grad(layer(*leaves), leaves)
        torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), expected)


@pytest.mark.parametrize("kind", ["language", "vision"])
def test_mixers_of_means(kind, monkeypatch):
    """With the kernels and without them, tokens and states of the module `means` agree."""
    settings = dict(dim=24, heads=3, bias=True, conv=2, gate=True, decay="learned")
    mixer = models.CausalMeans(settings) if kind == "language" else models.Means(24, 3, True)
    x, places = torch.randn(2, 70, 24, device=DEVICE), torch.arange(70, device=DEVICE)
    mixer, found = mixer.to(DEVICE), []
    for kernels in (True, False):
        monkeypatch.setattr(_library, "_means", {DEVICE} if kernels else set())
        if kind == "language":
            y, state = mixer(x[:, :60], {}, places[:60])
            last, state = mixer(x[:, 60:], {name: sums.detach() for name, sums in state.items()}, places[60:])
            found.append([torch.cat([y, last], 1), state["means"]])
        else:
            found.append([mixer(x)])
        found[-1] += torch.autograd.grad(found[-1][0].square().sum(), tuple(mixer.parameters()))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.detach().abs().max()))


def causal_inputs(tokens=140, channels=48, heads=3, positions=90):
    w = torch.randn(2, tokens, channels, device=DEVICE)
    temp = torch.linspace(0.5, 1.5, heads, device=DEVICE).unsqueeze(1)
    return w, temp, 0.1 * torch.randn(heads, positions, 1, device=DEVICE)


@pytest.mark.parametrize("cuts", [(1,) * 5 + (135,), (64, 76), (3, 50, 87)])
def test_pieces_and_steps_are_the_whole(cuts, schedule):
    w, temp, bias = causal_inputs()
    whole, _, last = call.tssa_causal(w, temp, bias)
    state, position, pieces = None, 0, []
    for tokens in cuts:
        y, _, state = call.tssa_causal(w[:, position : position + tokens], temp, bias, state, position)
        pieces.append(y)
        position += tokens
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, last, rtol=1e-6, atol=0)


def test_no_token_sees_later_ones(schedule):
    """A NaN leaves the tokens before it the same, bit for bit, and reaches all after it."""
    w, temp, bias = causal_inputs()
    broken = w.clone()
    broken[:, 77] = math.nan
    a, b = (call.tssa_causal(x, temp, bias)[0] for x in (w, broken))
    assert torch.equal(a[:, :77], b[:, :77]) and b[:, 77:].isnan().all()


def test_nan_is_not_lost(schedule):
    w = torch.randn(2, 30, 24, device=DEVICE)
    temp = torch.ones(3, 1, device=DEVICE)
    w[1, 29, 20] = math.nan
    y, pi = call.tssa(w, temp)
    assert y[0].isfinite().all() and pi[1].isnan().all() and y[1].isnan().all()


def test_values_whose_squares_overflow_give_what_the_plain_form_gives(schedule):
    w, temp = torch.randn(2, 30, 24, device=DEVICE) * 1e25, torch.ones(3, 1, device=DEVICE)
    y, pi = call.tssa(w, temp)
    torch.testing.assert_close(pi, torch.full_like(pi, 1 / 3))
    assert not y.any()


@pytest.mark.parametrize("output", [0, 1])
def test_a_gradient_of_one_result_alone(output, schedule):
    w, temp, bias = causal_inputs(70)
    for operator, definition, leaves in (
        (call.tssa, plain.tssa, (w, temp)),
        (call.tssa_causal, plain.tssa_causal, (w, temp, bias)),
    ):
        weights = torch.randn_like(definition(*leaves)[output])
        gradients = []
        for function in (operator, definition):
            inputs = leaves_of(*leaves)
            gradients.append(torch.autograd.grad(function(*inputs)[output], inputs, weights))
        for a, b in zip(*gradients):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.abs().max()))


def test_expanded_inputs_and_other_dtypes_of_parameters():
    w, temp = torch.randn(1, 30, 24, device=DEVICE).expand(3, -1, -1), torch.ones(3, 1, device=DEVICE)
    torch.testing.assert_close(call.tssa(w, temp.double())[0], call.tssa(w.contiguous(), temp)[0], rtol=0, atol=0)
    inputs = leaves_of(w, temp.half())
    y, pi = call.tssa(*inputs)
    for g in torch.autograd.grad(y.sum() + pi[:, 0].sum(), inputs):
        assert g.isfinite().all()
    assert torch.autograd.grad(call.tssa(*inputs)[1][:, 0].sum(), inputs[1])[0].dtype == torch.float16


def test_second_gradients():
    def second(tssa, *leaves):
        y, pi = tssa(*leaves)[:2]
        first = torch.autograd.grad(y.square().sum() + pi.pow(3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    w, temp, bias = causal_inputs(9, 12, 3, 9)
    for operator, definition, leaves in (
        (call.tssa, plain.tssa, (w, temp)),
        (call.tssa_causal, plain.tssa_causal, (w, temp, bias)),
    ):
        leaves = leaves_of(*leaves)
        for a, b in zip(second(operator, *leaves), second(definition, *leaves)):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * float(b.abs().max()))


def test_opcheck():
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    w, temp, bias = causal_inputs(70, 24)
    w, temp, bias = leaves_of(w, temp, bias)
    lengths, state = torch.tensor([70, 9], device=DEVICE), torch.rand(2, 51, dtype=torch.float64, device=DEVICE)
    for extra in (None, lengths):
        torch.library.opcheck(call.tssa_forward.default, (w, temp, extra), test_utils=tests)
        y, *kept = (x.detach() for x in call.tssa_forward(w, temp, extra))
        arguments = (y, kept[0], w.detach(), temp.detach(), *kept, extra)
        torch.library.opcheck(call.tssa_backward.default, arguments, test_utils=tests)
    for before, position in ((None, 0), (state, 40)):
        torch.library.opcheck(call.tssa_causal_forward.default, (w, temp, bias, before, position), test_utils=tests)
        y, pi, _, *kept = (x.detach() for x in call.tssa_causal_forward(w, temp, bias, before, position))
        arguments = (y, pi, *(x.detach() for x in (w, temp, bias)), position, pi, *kept)
        torch.library.opcheck(call.tssa_causal_backward.default, arguments, test_utils=tests)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    def layer(x, temp, bias):
        y, pi = ops.tssa(x * 2, temp)
        z, _, state = ops.tssa_causal(y, temp, bias)
        return (z + 1).sum() + (pi * pi).sum() + state.sum()

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for tokens in (11, 7) if dynamic else (11,):
        leaves = leaves_of(*causal_inputs(tokens, 12))
        expected = torch.autograd.grad(layer(*leaves), leaves)
        torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), expected)


def test_the_widest_token(schedule):
    """1, 2 and 8 thousand channels, and one beyond what the kernels take, which the plain form computes."""
    for heads, width in ((4, 256), (32, 64), (33, 65)):
        w, temp = torch.randn(1, 3, heads * width, device=DEVICE), torch.ones(heads, 1, device=DEVICE)
        assert _triton.takes(w, temp)
        torch.testing.assert_close(call.tssa(w, temp), plain.tssa(w, temp), rtol=1e-5, atol=1e-6)
    w, temp = torch.randn(1, 3, 33 * 129, device=DEVICE), torch.ones(33, 1, device=DEVICE)
    with pytest.warns(UserWarning, match="the plain form runs for 33 heads of 4257 channels"):
        assert torch.equal(ops.tssa(w, temp)[0], plain.tssa(w, temp)[0])


W, TEMP, BIAS = (torch.ones(shape, device=DEVICE) for shape in ((2, 3, 12), (4, 1), (4, 5, 1)))


def backward(**changed):
    _, pi, energy, moment, pi_sum = call.tssa_forward(W, TEMP)
    kept = dict(pi=pi, energy=energy, moment=moment, pi_sum=pi_sum) | changed
    return call.tssa_backward(W, None, W, TEMP, *kept.values())


def causal_backward(**changed):
    _, pi, _, carry, pi_carry = call.tssa_causal_forward(W, TEMP, BIAS, None, 0)
    kept = dict(pi=pi, carry=carry, pi_carry=pi_carry) | changed
    return call.tssa_causal_backward(W, None, W, TEMP, BIAS, 0, *kept.values())


@pytest.mark.parametrize(
    "words, run",
    [
        ("12 channels of w cannot be split over 5 heads", lambda: call.tssa(W, W.new_ones(5, 1))),
        ("do not take 4 heads of 3 features of torch.float64", lambda: call.tssa(W.double(), TEMP)),
        ("do not take 64 heads of 129 features", lambda: call.tssa(W.new_ones(1, 1, 64 * 129), W.new_ones(64, 1))),
        ("energy must be .2, 12. of torch.float32", lambda: backward(energy=W.new_ones(2, 11))),
        ("pi must be .2, 4, 3. of torch.float32", lambda: backward(pi=W.new_ones(2, 4, 3).double())),
        ("carry must be .2, 1, 24.", lambda: causal_backward(carry=W.new_ones(2, 1, 23))),
        ("denom_bias must be .heads, positions, 1.", lambda: call.tssa_causal(W, TEMP, BIAS[:3])),
    ],
)
def test_refusals(words, run):
    with pytest.raises(ValueError, match=words):
        run()


def test_lengths_beyond_the_tokens_are_cut():
    """The operators cannot read lengths on a GPU without waiting for it; they must not leave the tensors."""
    w, temp = torch.randn(2, 9, 12, device=DEVICE), torch.ones(3, 1, device=DEVICE)
    y, pi = call.tssa(w, temp, torch.tensor([1 << 40, -5], device=DEVICE))
    torch.testing.assert_close(y[0], call.tssa(w, temp)[0][0])
    assert not y[1].any() and not pi[1].any()


def test_schemas_are_those_of_the_library():
    text = (ROOT / "tost/ops/schemas.h").read_text()
    entries = text[text.index("{", text.index("kTssaSchemas")) :].replace('"\n', '" ')
    schemas = [re.sub(r'"\s+"', "", entry).strip(' \n{"') for entry in entries.split('",')[:-1]]
    assert tuple(schemas) == _library._SCHEMAS


def print_deviations():
    """The largest error over some cases, and that of the plain form in brackets: relative to the largest value, for
    dtemp and dbias, which are sums of terms that cancel, to the sum of these."""
    torch.use_deterministic_algorithms(True, warn_only=DEVICE != "cpu")
    shown = ("width48", "w17", "rows_apart", "n66", "width256", "tiny", "large")
    cases = [case for case in CAUSAL if case.name in shown]
    print("| | dtype | " + " | ".join(CAUSAL_NAMES) + " |\n|" + "---|" * (2 + len(CAUSAL_NAMES)))
    for causal, dtype in ((causal, dtype) for causal in (False, True) for dtype in FLOATS):
        worst = {name: (0.0, 0.0) for name in (CAUSAL_NAMES if causal else NAMES)}
        for case in cases:
            if dtype == torch.float16 and case.name in ("tiny", "large"):
                continue  # beyond what it holds
            for multiprocessors in (0, 64):
                _triton._multiprocessors = lambda device: multiprocessors
                torch.manual_seed(0)
                rest = (call.tssa, plain.tssa, (case.tokens(dtype), case.temps()), ())
                rest = causal_call(case, dtype, True) if causal else rest
                for name, error, plain_error, largest, terms in deviations(tuple(worst), case, dtype, *rest):
                    largest = terms if name in ("dtemp", "dbias") else largest
                    worst[name] = tuple(max(a, b / largest) for a, b in zip(worst[name], (error, plain_error)))
        cells = ("{:.0e} ({:.0e})".format(*worst[name]) if name in worst else "" for name in CAUSAL_NAMES)
        row = ("causal" if causal else "both directions", str(dtype)[6:], *cells)
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    print_deviations()
