"""The operators: values, gradients, dtypes, lengths, states, and what they refuse."""

import threading

import pytest
import reference
import torch
from torch.library import opcheck
from torch.testing import assert_close

import tost
from tost import ops, plain


def inputs(shape=(2, 33, 48), heads=4, dtype=torch.float32):
    w = torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()
    temp = (torch.rand(heads, 1, dtype=torch.float64) + 0.5).to(torch.promote_types(dtype, torch.float32))
    return w, temp.requires_grad_()


def causal_inputs(shape=(2, 70, 24), heads=3, positions=50, dtype=torch.float32):
    w, temp = inputs(shape, heads, dtype)
    return w, temp, (0.1 * torch.randn(heads, positions, 1, dtype=temp.dtype)).requires_grad_()


def compare(found, expected, leaves, tolerance=1e-5):
    weights = [torch.randn_like(y) for y in expected]
    assert_close(found, expected, rtol=tolerance, atol=tolerance)
    for a, b in zip(torch.autograd.grad(found, leaves, weights), torch.autograd.grad(expected, leaves, weights)):
        assert_close(a, b, rtol=tolerance, atol=tolerance * float(b.abs().max()))


def test_the_wheel_has_kernels():
    assert tost._library.available()
    assert tost._C.isa()


@pytest.mark.parametrize("shape, heads", [((2, 33, 48), 4), ((1, 1, 8), 2), ((3, 200, 384), 8), ((2, 5, 13), 13)])
def test_values_and_gradients_are_the_official_ones(shape, heads):
    w, temp = inputs(shape, heads)
    compare(ops.tssa(w, temp), reference.operator(w, temp), (w, temp))


def test_causal_values_and_gradients_are_the_official_ones():
    w, temp, bias = causal_inputs(positions=80)
    exact = reference.causal_operator(*(x.double() for x in (w, temp, bias)))
    compare(ops.tssa_causal(w, temp, bias)[:2], [x.float() for x in exact], (w, temp, bias))


def test_plain_form_is_the_official_one():
    w, temp = inputs(dtype=torch.float64)
    compare(plain.tssa(w, temp), reference.operator(w, temp), (w, temp), 1e-12)
    w, temp, bias = causal_inputs(positions=80, dtype=torch.float64)
    compare(plain.tssa_causal(w, temp, bias)[:2], reference.causal_operator(w, temp, bias), (w, temp, bias), 1e-12)


def test_a_gradient_of_one_result_alone():
    w, temp = inputs()
    for i in (0, 1):
        found, expected = ops.tssa(w, temp)[i], reference.operator(w, temp)[i]
        compare([found], [expected], (w, temp))


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_half_precisions(dtype, tolerance):
    w, temp = inputs(dtype=dtype)
    y, pi = ops.tssa(w, temp)
    assert (y.dtype, pi.dtype) == (dtype, torch.float32)
    exact = w.detach().float().requires_grad_()
    expected = reference.operator(exact, temp)
    assert_close([y.float(), pi], list(expected), rtol=tolerance, atol=tolerance)
    (found,) = torch.autograd.grad(y.float().square().sum(), w)
    (grad,) = torch.autograd.grad(expected[0].square().sum(), exact)
    assert found.dtype == dtype
    assert_close(found.float(), grad, rtol=tolerance, atol=tolerance)
    lengths = torch.tensor([33, 4])
    assert_close(ops.tssa(w, temp, lengths)[1], plain.tssa(exact, temp, lengths)[1], rtol=tolerance, atol=tolerance)
    w, temp, bias = causal_inputs(dtype=dtype)
    y, pi, state = ops.tssa_causal(w, temp, bias)
    assert y.requires_grad and pi.requires_grad and not state.requires_grad
    assert (y.dtype, pi.dtype, state.dtype) == (dtype, torch.float32, torch.float64)
    assert_close(y.float(), plain.tssa_causal(w.float(), temp, bias)[0], rtol=tolerance, atol=tolerance)


def test_float16_does_not_overflow():
    w = torch.full((1, 4, 8), 300.0, dtype=torch.float16)
    y, _ = ops.tssa(w, torch.ones(2, 1))
    assert torch.isfinite(y).all() and (y != 0).all()


def test_any_strides():
    w, temp = inputs((2, 48, 33))
    for view in (w.transpose(1, 2), w[:, ::2, :24], w[:, :, :1].expand(2, 48, 4)):
        assert_close(ops.tssa(view, temp), ops.tssa(view.contiguous(), temp), rtol=0, atol=0)


def test_lengths_leave_out_padding():
    w, temp = inputs((3, 40, 24))
    lengths = torch.tensor([40, 7, 0])
    y, pi = ops.tssa(w, temp, lengths)
    compare((y, pi), plain.tssa(w, temp, lengths), (w, temp))
    assert_close(y[1:2, :7], ops.tssa(w[1:2, :7], temp)[0], rtol=0, atol=0)
    assert not y[1, 7:].any() and not pi[2].any()
    (grad,) = torch.autograd.grad(ops.tssa(w, temp, lengths)[0].sum(), w)
    assert grad[1, :7].any() and not grad[1, 7:].any()


@pytest.mark.parametrize("cuts", [(70,), (1,) * 70, (64, 6), (3, 50, 17)])
@pytest.mark.parametrize("form", [ops, plain])
def test_chunks_and_steps_give_the_whole(cuts, form):
    w, temp, bias = causal_inputs()
    whole, pi, last = ops.tssa_causal(w, temp, bias)
    state, position, parts = None, 0, []
    for tokens in cuts:
        y, _, state = form.tssa_causal(w[:, position : position + tokens], temp, bias, state, position)
        parts.append(y)
        position += tokens
    assert_close(torch.cat(parts, 1), whole, rtol=1e-5, atol=2e-5)
    assert_close(state, last, rtol=1e-5, atol=1e-5)


def test_no_token_sees_later_ones():
    w, temp, bias = causal_inputs()
    changed = w.detach().clone()
    changed[:, 30:] = 9
    a, b = (ops.tssa_causal(x, temp, bias)[0] for x in (w, changed))
    assert torch.equal(a[:, :30], b[:, :30]) and not torch.equal(a[:, 30], b[:, 30])


@pytest.mark.parametrize("shape", [(0, 5, 8), (2, 0, 8)])
def test_nothing_in_nothing_out(shape):
    w, temp, bias = causal_inputs(shape, 2)
    for y in (ops.tssa(w, temp)[0], ops.tssa_causal(w, temp, bias)[0]):
        y.sum().backward()
        assert y.shape == shape
    assert not temp.grad.any()


def test_large_results_are_whole_tensors():
    w, temp = inputs((2, 300, 192))  # beyond what the cache of blocks leaves to torch
    y, pi = ops.tssa(w, temp)
    copy = y.detach().clone()
    del pi
    for _ in range(4):  # may reuse memory of what is gone, never of y
        ops.tssa(2 * w, temp)
    assert torch.equal(y, copy) and y.is_contiguous()
    assert torch.equal(y.detach().share_memory_(), copy)


def test_opcheck():
    w, temp = inputs((2, 70, 24), 3)
    bias = causal_inputs()[2]
    lengths, state = torch.tensor([70, 9]), torch.rand(2, 51, dtype=torch.float64)
    calls = torch.ops.tost
    for extra in (None, lengths):
        opcheck(calls.tssa.default, (w, temp, extra))
        opcheck(calls.tssa_forward.default, (w, temp, extra))
        kept = [x.detach() for x in calls.tssa_forward(w, temp, extra)]
        arguments = (kept[0], kept[1], w.detach(), temp.detach(), *kept[1:], extra)
        opcheck(calls.tssa_backward.default, arguments)
    for before, position in ((None, 0), (state, 40)):
        opcheck(calls.tssa_causal.default, (w, temp, bias, before, position))
        opcheck(calls.tssa_causal_forward.default, (w, temp, bias, before, position))
        y, pi, _, *carries = (x.detach() for x in calls.tssa_causal_forward(w, temp, bias, before, position))
        arguments = (y, pi, w.detach(), temp.detach(), bias.detach(), position, pi, *carries)
        opcheck(calls.tssa_causal_backward.default, arguments)


def test_gradcheck_and_gradgradcheck():
    w, temp = inputs((2, 5, 6), 3, torch.float64)
    for lengths in (None, torch.tensor([5, 2])):
        assert torch.autograd.gradcheck(lambda w, t: ops.tssa(w, t, lengths), (w, temp))
        assert torch.autograd.gradgradcheck(lambda w, t: ops.tssa(w, t, lengths), (w, temp))
    w, temp, bias = causal_inputs((2, 4, 4), 2, 3, torch.float64)
    state = torch.rand(2, 10, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *x: ops.tssa_causal(*x, state, 1)[:2], (w, temp, bias))
    assert torch.autograd.gradgradcheck(lambda *x: ops.tssa_causal(*x, state, 1)[:2], (w, temp, bias))


def test_second_gradients_of_the_kernels():
    def second(tssa, *leaves):
        y, pi = tssa(*leaves)[:2]
        first = torch.autograd.grad(y.square().sum() + pi.pow(3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    leaves = inputs((2, 9, 12), 3)
    for a, b in zip(second(ops.tssa, *leaves), second(reference.operator, *leaves)):
        assert_close(a, b, rtol=1e-4, atol=1e-4)
    leaves = causal_inputs((2, 9, 12), 3, 9)
    for a, b in zip(second(ops.tssa_causal, *leaves), second(reference.causal_operator, *leaves)):
        assert_close(a, b, rtol=1e-3, atol=1e-3 * float(b.abs().max()))


def test_transforms_of_torch_func():
    w, temp = (x.detach() for x in inputs((2, 9, 12), 3))
    loss = lambda w: ops.tssa(w, temp)[0].square().sum()  # noqa: E731
    leaf = w.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    assert_close(torch.func.grad(loss)(w), expected, rtol=1e-4, atol=1e-5)
    _, tangent = torch.func.jvp(loss, (w,), (w,))
    assert_close(tangent, (expected * w).sum(), rtol=1e-4, atol=1e-4)
    with torch.autograd.forward_ad.dual_level():
        dual = loss(torch.autograd.forward_ad.make_dual(w, w))
        assert_close(torch.autograd.forward_ad.unpack_dual(dual).tangent, tangent)
    y = torch.vmap(lambda w: ops.tssa(w, temp)[0])(torch.stack([w, 2 * w]))
    assert_close(y, torch.stack([ops.tssa(w, temp)[0], ops.tssa(2 * w, temp)[0]]))


def test_two_threads_at_once():
    w, temp = (x.detach() for x in inputs((4, 300, 192)))
    expected, results = ops.tssa(w, temp)[0], [[], []]

    def work(found):
        for _ in range(10):
            leaf = w.clone().requires_grad_()
            y = ops.tssa(leaf, temp)[0]
            y.sum().backward()
            found.append((y.detach(), leaf.grad))

    threads = [threading.Thread(target=work, args=(found,)) for found in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(found) for found in results] == [10, 10]
    first = results[0][0][1]
    for y, grad in results[0] + results[1]:
        assert torch.equal(y, expected) and torch.equal(grad, first)


def test_threads_do_not_change_results():
    w, temp, bias = (x.detach() for x in causal_inputs((2, 500, 192)))
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append((ops.tssa(w, temp)[0], ops.tssa_causal(w, temp, bias)[0]))
    torch.set_num_threads(before)
    for other in found[1:]:
        assert torch.equal(found[0][0], other[0]) and torch.equal(found[0][1], other[1])


W, TEMP, BIAS = torch.ones(2, 3, 12), torch.ones(4, 1), torch.ones(4, 5, 1)


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ValueError, "has 2 dimensions", lambda: ops.tssa(W[0], TEMP)),
        (ValueError, "12 channels of w cannot be split over 5 heads", lambda: ops.tssa(W, torch.ones(5, 1))),
        (ValueError, "temp must be .heads, 1., but is .4.", lambda: ops.tssa(W, torch.ones(4))),
        (TypeError, "w must be a tensor, but is list", lambda: ops.tssa([1.0], TEMP)),
        (TypeError, "but is torch.int64", lambda: ops.tssa(W.long(), TEMP)),
        (TypeError, "temp must be of a floating-point dtype", lambda: ops.tssa(W, TEMP.long())),
        (ValueError, "but temp on meta; move one of them", lambda: ops.tssa(W, TEMP.to("meta"))),
        (ValueError, "lengths must be .batch. = .2., but is .3.", lambda: ops.tssa(W, TEMP, torch.ones(3).long())),
        (TypeError, "lengths must be int64", lambda: ops.tssa(W, TEMP, torch.ones(2))),
        (ValueError, "lengths.1. is 4; it must be from 0 to the 3", lambda: ops.tssa(W, TEMP, torch.tensor([1, 4]))),
        (ValueError, "lengths.0. is -1", lambda: ops.tssa(W.double(), TEMP.double(), torch.tensor([-1, 4]))),
        (TypeError, "w must be a dense tensor, but is torch.sparse_coo", lambda: ops.tssa(W.to_sparse(), TEMP)),
        (TypeError, "position must be an integer, but is 1.5", lambda: ops.tssa_causal(W, TEMP, BIAS, None, 1.5)),
        (ValueError, "denom_bias must be", lambda: ops.tssa_causal(W, TEMP, BIAS[:3])),
        (ValueError, "position is -1", lambda: ops.tssa_causal(W, TEMP, BIAS, None, -1)),
        (ValueError, "2, 28., but is .2, 27.", lambda: ops.tssa_causal(W, TEMP, BIAS, torch.ones(2, 27).double())),
        (TypeError, "state must be float64", lambda: ops.tssa_causal(W, TEMP, BIAS, torch.ones(2, 28))),
        # The operators themselves, which do not pass by the checks in Python.
        (RuntimeError, "lengths.1. is 4; it must", lambda: torch.ops.tost.tssa(W, TEMP, torch.tensor([1, 4]))),
        (RuntimeError, "float32 or bfloat16, but is Double", lambda: torch.ops.tost.tssa(W.double(), TEMP)),
        (RuntimeError, "temp must be .4, 1. of Float on the CPU, but is .4.", lambda: torch.ops.tost.tssa(W, TEMP[:, 0])),
        (RuntimeError, "denom_bias must be .4, 5, 1.", lambda: torch.ops.tost.tssa_causal(W, TEMP, torch.ones(3, 5, 1))),
        (RuntimeError, "energy must be .2, 12. of Float", lambda: backward(energy=torch.ones(2, 11))),
        (RuntimeError, "pi must be .2, 4, 3. of Float", lambda: backward(pi=torch.ones(2, 4, 3).double())),
        (RuntimeError, "carry must be", lambda: causal_backward(carry=torch.ones(2, 1, 23))),
    ],
)
def test_refusals(error, words, call):
    with pytest.raises(error, match=words) as caught:
        call()
    assert str(caught.value).strip().endswith(".") and "\n" not in str(caught.value).strip()


def backward(**changed):
    _, pi, energy, moment, pi_sum = torch.ops.tost.tssa_forward(W, TEMP)
    kept = dict(pi=pi, energy=energy, moment=moment, pi_sum=pi_sum) | changed
    return torch.ops.tost.tssa_backward(W, None, W, TEMP, *kept.values())


def causal_backward(**changed):
    _, pi, _, carry, pi_carry = torch.ops.tost.tssa_causal_forward(W, TEMP, BIAS, None, 0)
    kept = dict(pi=pi, carry=carry, pi_carry=pi_carry) | changed
    return torch.ops.tost.tssa_causal_backward(W, None, W, TEMP, BIAS, 0, *kept.values())
