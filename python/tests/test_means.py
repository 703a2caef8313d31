"""Group means on the CPU: values, gradients, states and dtypes against the plain form in float64, and what is refused."""

import pytest
import torch
from torch.testing import assert_close

import tost
from tost import _library, models, ops, plain


def draw(tokens=150, heads=3, width=5, dtype=torch.float32, rates=True, batch=2):
    base, values = torch.randn(2, batch, tokens, heads * width).to(dtype)
    pi = torch.randn(batch, tokens, heads).softmax(2).to(dtype)
    leaves = [base, values, pi, torch.randn(heads * width), torch.linspace(-4, 0, heads) if rates else None]
    return [x if x is None else x.requires_grad_() for x in leaves]


def results(form, inputs, state, from_end):
    leaves = [x for x in inputs if x is not None]
    y, after = form(*inputs, state, from_end)
    weights = torch.linspace(-1, 1, y.numel()).view(y.shape).double()
    loss = (y.double() * weights).sum()
    return [y.detach(), after.detach(), *torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)]


CASES = {
    "usual": dict(),
    "no tokens": dict(tokens=0),
    "no samples": dict(batch=0),
    "one token": dict(tokens=1),
    "without rates": dict(rates=False),
    "one head": dict(heads=1),
    "heads of one": dict(width=1),
    "wide heads": dict(tokens=70, width=67),
    "long": dict(tokens=700),
}


@pytest.mark.parametrize("kind", ["causal", "state", "both ways"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 1e-3)])
def test_values_and_gradients(case, dtype, tolerance, kind):
    inputs = draw(dtype=dtype, **case)
    batch, heads = inputs[2].shape[0], inputs[2].shape[2]
    state = torch.rand(batch, heads, inputs[1].shape[2] // heads + 1) if kind == "state" else None
    from_end = (heads + 1) // 2 if kind == "both ways" else 0
    found = results(ops.group_means, inputs, state, from_end)
    doubles = [x if x is None else x.detach().double().requires_grad_() for x in inputs]
    exact = results(plain.group_means, doubles, state if state is None else state.double(), from_end)
    rounded = results(plain.group_means, inputs, state, from_end)
    for a, b, c in zip(found, exact, rounded):
        assert (a.shape, a.dtype) == (c.shape, c.dtype)
        if b.numel() > 0:
            bound = 4 * float((c.double() - b).abs().max()) + tolerance * float(b.abs().max())
            assert_close(a.double(), b, rtol=0, atol=bound)


def test_kernels_run():
    assert tost._C and _library.runs_on(torch.device("cpu"), "group_means")
    inputs = draw()
    with torch.no_grad():
        assert not torch.equal(ops.group_means(*inputs)[0], plain.group_means(*inputs)[0])


def test_mixed_types_and_strides():
    base, values, pi, scale, rates = (x.detach() for x in draw())
    wanted, last = ops.group_means(base, values, pi, scale, rates)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (base, values, pi)]
    assert torch.equal(ops.group_means(*turned, scale.double(), rates.half().float())[0], wanted)
    mixed, state = ops.group_means(base, values.bfloat16(), pi, scale, rates)
    assert mixed.dtype == state.dtype == torch.float32
    assert_close(mixed, wanted, rtol=0, atol=0.05)
    assert ops.group_means(base.bfloat16(), values, pi, scale, rates)[0].dtype == torch.bfloat16


def test_parts_continue_from_the_state():
    base, values, pi, scale, rates = (x.detach() for x in draw())
    wanted, last = ops.group_means(base, values, pi, scale, rates)
    state, out = None, []
    for part in zip(*(x.split([100, 1, 1, 3, 45], 1) for x in (base, values, pi))):
        y, state = ops.group_means(*part, scale, rates, state)
        out.append(y)
    assert_close(torch.cat(out, 1), wanted, rtol=0, atol=1e-5)
    assert_close(state, last, rtol=1e-5, atol=1e-5)


def test_no_token_sees_later_ones():
    inputs = [x.detach() for x in draw()]
    broken = [x.clone() for x in inputs]
    broken[1][:, 77] = float("nan")
    a, b = ops.group_means(*inputs)[0], ops.group_means(*broken)[0]
    assert torch.equal(a[:, :77], b[:, :77]) and b[:, 77:].isnan().all()


def test_gradients_are_differentiated_again():
    inputs = draw(tokens=30)

    def second(form):
        first = torch.autograd.grad(form(*inputs, None, 1)[0].pow(3).sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in first), inputs)

    for a, b in zip(second(ops.group_means), second(plain.group_means)):
        assert_close(a, b, rtol=0, atol=1e-4 * float(b.abs().max()))


def test_threads_change_no_bit():
    inputs, threads = draw(), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        wanted = results(ops.group_means, inputs, None, 1)
        torch.set_num_threads(3)
        assert all(map(torch.equal, results(ops.group_means, inputs, None, 1), wanted))
    finally:
        torch.set_num_threads(threads)


def test_compiled():
    def loss(*inputs):
        y, state = ops.group_means(*inputs, from_end=1)
        return y.square().sum()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=True)
    for tokens in (11, 7):
        inputs = draw(tokens=tokens)
        wanted = torch.autograd.grad(loss(*inputs), inputs)
        assert_close(torch.autograd.grad(compiled(*inputs), inputs), wanted)


def test_operators_are_registered_as_torch_asks():
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    base, values, pi, scale, rates = draw(tokens=70)
    for state, from_end in ((None, 2), (torch.rand(2, 3, 6), 0)):
        torch.library.opcheck(torch.ops.tost.means_forward.default, (base, values, pi, scale, rates, state, from_end),
                              test_utils=tests)


@pytest.mark.parametrize("make", [
    lambda: models.Means(24, 3, True),
    lambda: models.CausalMeans(dict(dim=24, heads=3, bias=True, conv=2, gate=True, decay="learned")),
])
def test_modules_with_kernels_and_without(make, monkeypatch):
    mixer, x, found = make(), torch.randn(2, 70, 24), []
    for kernels in ({"cpu"}, set()):
        monkeypatch.setattr(_library, "_means", kernels)
        y = mixer(x) if isinstance(mixer, models.Means) else mixer(x, {}, torch.arange(70))[0]
        found.append([y, *torch.autograd.grad(y.square().sum(), tuple(mixer.parameters()))])
    for a, b in zip(*found):
        assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.detach().abs().max()))


def test_wrong_inputs_are_refused():
    base, values, pi, scale, rates = draw()
    cases = ((ValueError, "values must be .* but has 2 dimensions", lambda: ops.group_means(base, values[0], pi, scale)),
             (ValueError, "the 15 channels of values cannot be split over the 2", lambda: ops.group_means(base, values, pi[..., :2], scale)),
             (ValueError, "scale must be", lambda: ops.group_means(base, values, pi, scale[1:])),
             (ValueError, "state must be", lambda: ops.group_means(base, values, pi, scale, rates, torch.rand(2, 3, 5))),
             (ValueError, "from_end is 4; it counts heads, of 3", lambda: ops.group_means(base, values, pi, scale, from_end=4)),
             (TypeError, "pi must be a tensor, but is NoneType", lambda: ops.group_means(base, values, None, scale)))
    for error, words, call in cases:
        with pytest.raises(error, match=f"^group_means: {words}"):
            call()


def test_operators_check_what_they_read():
    base, values, pi, scale, rates = draw()
    forward = torch.ops.tost.means_forward
    with pytest.raises(RuntimeError, match=r"tost: base must be \[2, 150, 15\] of Float on the CPU, but is \[2, 149, 15\]"):
        forward(base[:, 1:], values, pi, scale, rates, None, 0)
    with pytest.raises(RuntimeError, match="tost: state must be"):
        forward(base, values, pi, scale, rates, torch.rand(2, 3, 5), 0)
    with pytest.raises(RuntimeError, match="15 channels of 3 heads, 4 of them from the end"):
        forward(base, values, pi, scale, rates, None, 4)
    with pytest.raises(RuntimeError, match="values and pi must be"):
        forward(base, values[0], pi, scale, rates, None, 0)
    carry = forward(base, values, pi, scale, rates, None, 0)[2]
    with pytest.raises(RuntimeError, match="tost: carry must be"):
        torch.ops.tost.means_backward(base, values, pi, scale, rates, 0, carry[:, 1:])
