"""The delta rule: values, gradients, states and dtypes against the recurrence, and what it refuses."""

import pytest
import torch
from torch.testing import assert_close

import tost
from tost import ops, plain


def draw(tokens=150, heads=3, values=3, dtype=torch.float32, gated=True, state=True):
    unit = torch.nn.functional.normalize
    q, k = (unit(torch.randn(2, tokens, heads, 24), dim=-1).to(dtype).requires_grad_() for _ in range(2))
    v = torch.randn(2, tokens, values, 17).to(dtype).requires_grad_()
    beta = (2 * torch.rand(2, tokens, values)).to(dtype).requires_grad_()
    g = -torch.rand(2, tokens, values).div(2).requires_grad_() if gated else None
    before = torch.randn(2, values, 24, 17).requires_grad_() if state else None
    return q, k, v, beta, g, before


def by_tokens(q, k, v, beta, g=None, state=None, scale=None):
    """In float64, one token after the other."""
    group = v.shape[2] // q.shape[2]
    scale = q.shape[3] ** -0.5 if scale is None else scale
    q, k = (x.double().repeat_interleave(group, 2) for x in (q, k))
    state = torch.zeros(*v.shape[::2], q.shape[3], v.shape[3]).double() if state is None else state.double()
    out = []
    for t in range(q.shape[1]):
        if g is not None:
            state = state * g[:, t].double().exp()[..., None, None]
        change = beta[:, t, :, None].double() * (v[:, t].double() - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t].unsqueeze(-1) * change.unsqueeze(-2)
        out.append(scale * torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(out, 1), state


def compare(found, wanted, inputs, tolerance):
    weights = [torch.randn_like(x) for x in wanted]
    leaves = [x for x in inputs if x is not None]
    for a, b in zip(found, wanted):
        assert_close(a.double(), b, rtol=0, atol=tolerance * b.abs().max().item())
    grads = torch.autograd.grad(found, leaves, [w.to(x.dtype) for w, x in zip(weights, found)], retain_graph=True)
    for a, b in zip(grads, torch.autograd.grad(wanted, leaves, weights, retain_graph=True)):
        assert a.dtype == b.dtype
        assert_close(a, b, rtol=0, atol=tolerance * b.abs().max().item())


@pytest.mark.parametrize("settings", [{}, {"gated": False, "state": False}, {"heads": 2, "values": 4}, {"tokens": 2}])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float64, 1e-9)])
def test_values_and_gradients_are_those_of_the_recurrence(settings, dtype, tolerance):
    inputs = draw(dtype=dtype, **settings)
    found = ops.delta_rule(*inputs, output_final_state=True)
    assert found[0].dtype == dtype
    compare(found, by_tokens(*inputs), inputs, tolerance)


@pytest.mark.parametrize("rule", [ops.delta_rule, plain.delta_rule])
def test_gradient_where_nothing_is_forgotten(rule):
    """At g = 0, the end of its range, it is the derivative to the left, which is the recurrence's."""
    q, k, v, beta, g, state = draw()
    g = g.detach().masked_fill(torch.rand_like(g) < 0.3, 0).requires_grad_()
    inputs = (q, k, v, beta, g, state)
    scale = q.shape[3] ** -0.5
    compare(rule(*inputs, scale=scale)[:1], by_tokens(*inputs, scale=scale)[:1], inputs, 1e-5)


def test_kernels_run():
    assert tost._C
    inputs = draw()
    with torch.no_grad():
        assert not torch.equal(ops.delta_rule(*inputs)[0], plain.delta_rule(*inputs)[0])


def test_gradients_are_differentiated_again():
    inputs = draw(tokens=70)

    def second(rule):
        o, state = rule(*inputs)
        (first,) = torch.autograd.grad(o.square().sum() + state.square().sum(), inputs[1], create_graph=True)
        return torch.autograd.grad(first.square().sum(), inputs[2])[0]

    found, wanted = second(lambda *x: ops.delta_rule(*x, output_final_state=True)), second(by_tokens)
    assert_close(found, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))


def test_parts_continue_from_the_state_and_strides_do_not_matter():
    q, k, v, beta, g, _ = (x if x is None else x.detach() for x in draw(state=False))
    wanted, last = ops.delta_rule(q, k, v, beta, g, output_final_state=True)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v, beta, g)]
    assert torch.equal(ops.delta_rule(*turned)[0], wanted)
    state, out = None, []
    for part in zip(*(x.split([100, 1, 1, 3, 45], 1) for x in turned)):
        o, state = ops.delta_rule(*part, initial_state=state, output_final_state=True)
        out.append(o)
    assert_close(torch.cat(out, 1), wanted, rtol=0, atol=1e-5)
    assert_close(state, last, rtol=0, atol=1e-5)


def test_norms_and_scale():
    q, k, v, beta, g, _ = draw(state=False)
    unit = [x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (3 * q, 5 * k)]
    found = ops.delta_rule(3 * q, 5 * k, v, beta, g, scale=0.5, use_qk_l2norm_in_kernel=True)[0]
    assert_close(found, ops.delta_rule(*unit, v, beta, g, scale=0.5)[0])
    assert_close(found.double(), by_tokens(*unit, v, beta, g, scale=0.5)[0], rtol=0, atol=1e-5)


def test_threads_change_no_bit():
    inputs, threads = draw(), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        wanted = ops.delta_rule(*inputs)[0]
        torch.set_num_threads(3)
        assert torch.equal(ops.delta_rule(*inputs)[0], wanted)
    finally:
        torch.set_num_threads(threads)


def test_wrong_inputs_are_refused():
    q, k, v, beta, g, state = draw()
    cases = ((ValueError, r"beta must be \[2, 150, 3\], but is \[2, 150\]", lambda: ops.delta_rule(q, k, v, beta[:, :, 0], g)),
             (ValueError, "initial_state must be", lambda: ops.delta_rule(q, k, v, beta, g, state[:1])),
             (ValueError, "q must be .* but has 3 dimensions", lambda: ops.delta_rule(q[0], k, v, beta)),
             (ValueError, "k must be", lambda: ops.delta_rule(q, k[:, :9], v, beta)),
             (ValueError, "the 3 heads of v must be a multiple of the 2 heads", lambda: ops.delta_rule(q[:, :, :2], k[:, :, :2], v, beta)),
             (ValueError, "q is on cpu but v on meta", lambda: ops.delta_rule(q, k, v.to("meta"), beta)),
             (TypeError, "v must be a tensor, but is list", lambda: ops.delta_rule(q, k, [1.0], beta)),
             (TypeError, "beta must be a tensor, but is NoneType", lambda: ops.delta_rule(q, k, v, None)),
             (TypeError, "g must be of a floating-point dtype", lambda: ops.delta_rule(q, k, v, beta, beta.long())))
    for error, words, call in cases:
        with pytest.raises(error, match=f"^delta_rule: {words}"):
            call()


def test_operators_check_what_they_read():
    q, k, v, beta, g, state = draw()
    with pytest.raises(RuntimeError, match=r"tost: beta must be \[2, 150, 3\] of Float on the CPU, but is \[2, 150\]"):
        torch.ops.tost.delta_forward(q, k, v, beta[:, :, 0], g, None, 1.0, False)
    with pytest.raises(RuntimeError, match="tost: initial_state must be"):
        torch.ops.tost.delta_forward(q, k, v, beta, g, state[:1], 1.0, False)
    with pytest.raises(RuntimeError, match="q and v must be"):
        torch.ops.tost.delta_forward(q[0], k, v, beta, g, None, 1.0, False)
