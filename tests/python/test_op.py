"""torch.ops.tost.tssa and tssa_causal as Python sees them: gradients, compilation, symbolic shapes, autocast.

usage: test_op.py LIBTOST_TORCH.SO; exits with 77, naming the reason, where something it needs is missing.
"""

import os
import sys

try:
    import expecttest  # noqa: F401  opcheck needs it
    import numpy  # noqa: F401
    import pytest
    import torch
    from torch.library import opcheck
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

if __name__ == "__main__":
    os.environ["TOST_LIBRARY"] = sys.argv[1]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__]))

torch.ops.load_library(os.environ["TOST_LIBRARY"])
tssa = torch.ops.tost.tssa
causal = torch.ops.tost.tssa_causal


def plain(w, temp, lengths=None):
    """The operator as the official code has it, in float32 at least; samples of other lengths one by one."""
    if lengths is not None:
        parts = [plain(w[i : i + 1, :n], temp) for i, n in enumerate(lengths.tolist())]
        missing = [w.shape[1] - n for n in lengths.tolist()]
        y = [torch.nn.functional.pad(y, (0, 0, 0, m)) for (y, _), m in zip(parts, missing)]
        pi = [torch.nn.functional.pad(pi, (0, m)) for (_, pi), m in zip(parts, missing)]
        return torch.cat(y), torch.cat(pi)
    batch, tokens, channels = w.shape
    x = w.to(torch.promote_types(w.dtype, torch.float32))
    x = x.view(batch, tokens, len(temp), -1).transpose(1, 2)
    unit = torch.nn.functional.normalize(x, dim=-2)
    pi = torch.softmax((unit**2).sum(-1) * temp.to(x.dtype), dim=1)
    moment = (pi / (pi.sum(-1, keepdim=True) + 1e-8)).unsqueeze(-2) @ x**2
    y = -(x * pi.unsqueeze(-1)) / (1 + moment)
    return y.transpose(1, 2).reshape(batch, tokens, channels).to(w.dtype), pi


def inputs(dtype=torch.float32, shape=(2, 11, 12), heads=3, grad=True):
    torch.manual_seed(0)
    w = torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_(grad)
    temp_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    return w, (torch.rand(heads, 1, dtype=temp_dtype) + 0.5).requires_grad_(grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_values_and_gradients(dtype):
    w, temp = inputs(dtype)
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    found, expected = tssa(w, temp), plain(w, temp)
    weights = [torch.randn_like(x) for x in found]
    grads = torch.autograd.grad(found, (w, temp), weights)
    expected_grads = torch.autograd.grad(expected, (w, temp), weights)
    for a, b in zip((*found, *grads), (*expected, *expected_grads)):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_lengths(dtype):
    w, temp = inputs(dtype, (3, 11, 12))
    lengths = torch.tensor([11, 1, 6])
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    found, expected = tssa(w, temp, lengths), plain(w, temp, lengths)
    weights = [torch.randn_like(x) for x in found]
    grads = torch.autograd.grad(found, (w, temp), weights)
    expected_grads = torch.autograd.grad(expected, (w, temp), weights)
    for a, b in zip((*found, *grads), (*expected, *expected_grads)):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    opcheck(tssa.default, (w, temp, lengths))
    opcheck(tssa.default, (w.detach(), temp.detach(), lengths))
    with pytest.raises(RuntimeError, match="lengths\\[2\\] is 12"):
        tssa(w, temp, torch.tensor([11, 1, 12]))


def test_gradcheck_with_lengths():
    w, temp = inputs(torch.float64, (2, 5, 6))
    op = lambda w, temp: tssa(w, temp, torch.tensor([5, 3]))  # noqa: E731
    assert torch.autograd.gradcheck(op, (w, temp))
    assert torch.autograd.gradgradcheck(op, (w, temp))


def test_gradcheck():
    w, temp = inputs(torch.float64, (2, 5, 6))
    assert torch.autograd.gradcheck(tssa, (w, temp))
    assert torch.autograd.gradgradcheck(tssa, (w, temp))
    with_zeros = w.detach().clone()
    with_zeros[:, :, 0] = 0  # the clamp binds: the energy of this channel is a constant
    assert torch.autograd.gradcheck(lambda t: tssa(with_zeros, t), (temp,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("grad", [True, False])
def test_opcheck(dtype, grad):
    opcheck(tssa.default, inputs(dtype, grad=grad))


def test_opcheck_of_the_inner_operators():
    w, temp = inputs(grad=False)
    tests = ("test_schema", "test_faketensor")
    opcheck(torch.ops.tost.tssa_forward.default, (w, temp), test_utils=tests)
    y, *kept = torch.ops.tost.tssa_forward(w, temp)
    for grads in ((torch.ones_like(y), None), (None, torch.ones_like(kept[0]))):
        opcheck(torch.ops.tost.tssa_backward.default, (*grads, w, temp, *kept), test_utils=tests)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(backend, dynamic):
    def layer(x, temp):
        y, pi = tssa(x * 2, temp)
        return (y + 1).sum() + (pi * pi).sum()

    compiled = torch.compile(layer, backend=backend, fullgraph=True, dynamic=dynamic)
    for shape in ((2, 11, 12), (3, 7, 12)) if dynamic else ((2, 11, 12),):
        w, temp = inputs(shape=shape)
        torch.testing.assert_close(compiled(w, temp), layer(w, temp))
        found = torch.autograd.grad(compiled(w, temp), (w, temp))
        torch.testing.assert_close(found, torch.autograd.grad(layer(w, temp), (w, temp)))


def test_autocast_keeps_the_dtype_of_w():
    w, temp = inputs()
    linear = torch.nn.Linear(12, 12)
    with torch.autocast("cpu", torch.bfloat16):
        y, pi = tssa(linear(w), temp)
    assert (y.dtype, pi.dtype) == (torch.bfloat16, torch.float32)
    (y.float().sum() + pi[:, 0].sum()).backward()
    assert linear.weight.grad.dtype == torch.float32 and temp.grad.dtype == torch.float32


def test_meta_and_layouts():
    y, pi = tssa(torch.empty(2, 5, 12, device="meta"), torch.empty(3, 1, device="meta"))
    assert y.shape == (2, 5, 12) and pi.shape == (2, 3, 5)
    w, temp = inputs(grad=False)
    for other in (w.transpose(1, 2).contiguous().transpose(1, 2), w.expand(4, *w.shape)[1]):
        torch.testing.assert_close(tssa(other, temp), tssa(w, temp), rtol=0, atol=0)


def test_errors_are_sentences():
    with pytest.raises(RuntimeError, match="13 channels of w cannot be split over 3 heads"):
        tssa(torch.ones(1, 2, 13), torch.ones(3, 1))


@pytest.mark.parametrize("tokens", [5 << 44, 1 << 50])
def test_sizes_beyond_any_memory_end_in_an_exception(tokens):
    tssa(torch.ones(1, 4096, 64), torch.ones(4, 1))  # leaves blocks in the cache
    for operator, more in ((tssa, ()), (causal, (torch.zeros(4, 1, 1),))):
        with pytest.raises((MemoryError, RuntimeError), match="Not enough memory for [0-9]+ bytes|overflow"):
            operator(torch.ones(1, 1, 64).expand(1, tokens, 64), torch.ones(4, 1), *more)


def plain_causal(w, temp, bias, state=None, position=0):
    """The operator as the official code has it, in float32 at least, and the sums before as its start."""
    batch, tokens, channels = w.shape
    heads = len(temp)
    x = w.to(torch.promote_types(w.dtype, torch.float32))
    x = x.view(batch, tokens, heads, -1).transpose(1, 2)
    if state is None:
        state = torch.zeros(batch, 2 * channels + heads, dtype=torch.float64)
    energy, moment, pi_sum = state.to(x.dtype).split([channels, channels, heads], dim=1)
    per_feature = (batch, heads, 1, channels // heads)
    biases = torch.zeros(heads, tokens, 1, dtype=x.dtype)
    found = bias[:, position : position + tokens].to(x.dtype)
    biases[:, : found.shape[1]] = found
    q = x**2
    e = (q.cumsum(2) + energy.view(per_feature)).clamp_min(1e-12)
    pi = torch.softmax((q / e + biases).sum(-1) * temp.to(x.dtype), dim=1)
    weighted = (pi.unsqueeze(-1) * q).cumsum(2) + moment.view(per_feature)
    s = weighted / (pi.cumsum(2) + pi_sum.unsqueeze(-1) + 1e-8).unsqueeze(-1)
    y = -(x * pi.unsqueeze(-1)) / (1 + s)
    return y.transpose(1, 2).reshape(batch, tokens, channels).to(w.dtype), pi


def causal_inputs(dtype=torch.float32, shape=(2, 11, 12), heads=3, positions=8, grad=True):
    w, temp = inputs(dtype, shape, heads, grad)
    bias = (torch.randn(heads, positions, 1, dtype=temp.dtype) * 0.1).requires_grad_(grad)
    state = torch.rand(shape[0], 2 * shape[2] + heads, dtype=torch.float64)
    return w, temp, bias, state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("position", [0, 3, 50])
def test_causal_values_and_gradients(dtype, position):
    w, temp, bias, state = causal_inputs(dtype)
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    for before in (None, state):
        found = causal(w, temp, bias, before, position)[:2]
        expected = plain_causal(w, temp, bias, before, position)
        weights = [torch.randn_like(x) for x in found]
        # From position 50 on there is no bias.
        grads = torch.autograd.grad(found, (w, temp, bias), weights)
        expected_grads = torch.autograd.grad(expected, (w, temp, bias), weights, materialize_grads=True)
        for a, b in zip((*found, *grads), (*expected, *expected_grads)):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_causal_gradcheck():
    w, temp, bias, state = causal_inputs(torch.float64, (2, 5, 6), positions=4)
    for before in (None, state):
        op = lambda w, temp, bias: causal(w, temp, bias, before, 1)[:2]  # noqa: E731
        assert torch.autograd.gradcheck(op, (w, temp, bias))
        assert torch.autograd.gradgradcheck(op, (w, temp, bias))
    with_zeros = w.detach().clone()
    with_zeros[:, :, 0] = 0  # the clamp binds: the energy of this channel is a constant
    assert torch.autograd.gradcheck(lambda t, b: causal(with_zeros, t, b)[:2], (temp, bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("grad", [True, False])
def test_causal_opcheck(dtype, grad):
    w, temp, bias, state = causal_inputs(dtype, grad=grad)
    opcheck(causal.default, (w, temp, bias))
    opcheck(causal.default, (w, temp, bias, state, 3))


def test_opcheck_of_the_inner_causal_operators():
    w, temp, bias, state = causal_inputs(shape=(2, 70, 12), grad=False)
    tests = ("test_schema", "test_faketensor")
    opcheck(torch.ops.tost.tssa_causal_forward.default, (w, temp, bias, state, 3), test_utils=tests)
    y, pi, _, carry, pi_carry = torch.ops.tost.tssa_causal_forward(w, temp, bias, state, 3)
    for grads in ((torch.ones_like(y), None), (None, torch.ones_like(pi))):
        opcheck(
            torch.ops.tost.tssa_causal_backward.default,
            (*grads, w, temp, bias, 3, pi, carry, pi_carry),
            test_utils=tests,
        )


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_causal_compile(backend, dynamic):
    def layer(x, temp, bias, state, position):
        y, pi, after = causal(x * 2, temp, bias, state, position)
        return (y + 1).sum() + (pi * pi).sum(), after + 1

    compiled = torch.compile(layer, backend=backend, fullgraph=True, dynamic=dynamic)
    for position, shape in ((2, (2, 11, 12)), (3, (3, 7, 12))) if dynamic else ((2, (2, 11, 12)),):
        w, temp, bias, state = causal_inputs(shape=shape)
        arguments = (w, temp, bias, state, position)
        torch.testing.assert_close(compiled(*arguments), layer(*arguments))
        found = torch.autograd.grad(compiled(*arguments)[0], (w, temp, bias))
        torch.testing.assert_close(found, torch.autograd.grad(layer(*arguments)[0], (w, temp, bias)))


def test_causal_meta_steps_and_errors():
    meta = lambda *shape: torch.empty(shape, device="meta")  # noqa: E731
    y, pi, state = causal(meta(2, 5, 12), meta(3, 1), meta(3, 8, 1))
    assert y.shape == (2, 5, 12) and pi.shape == (2, 3, 5)
    assert state.shape == (2, 27) and state.dtype == torch.float64
    w, temp, bias, _ = causal_inputs(grad=False)
    whole, _, last = causal(w, temp, bias)
    state, steps = None, []
    for t in range(w.shape[1]):
        step, _, state = causal(w[:, t : t + 1], temp, bias, state, t)
        steps.append(step)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, last, rtol=1e-6, atol=0)
    with pytest.raises(RuntimeError, match="state must be float64"):
        causal(w, temp, bias, state.float())
