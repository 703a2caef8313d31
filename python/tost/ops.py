"""The operators of TSSA, bidirectional and causal, group means and the delta rule.

They run this package's kernels on the CPU in float32 and bfloat16 (float16 in float32), and the plain form
(tost.plain) in float64, on devices without kernels, while a model is exported, under torch.func and
forward-mode differentiation, and where the kernels are missing.
"""

import torch

from . import _inputs, _library, plain


def _never():
    return False


_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _never)  # from torch 2.3 on
_is_exporting = getattr(getattr(torch, "compiler", None), "is_exporting", _never)  # from torch 2.7 on


def _exporting():
    return _is_exporting() or torch.onnx.is_in_onnx_export() or torch.jit.is_tracing()


def _transformed():
    """Whether torch.func or forward-mode differentiation is at work, which do not know the operators."""
    return not _is_compiling() and (
        torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0
    )


def _plain(w, temp):
    without = w.dtype == torch.float64 or not _library.runs_on(w.device)
    return without or _exporting() or _transformed() or not _library.takes(w, temp)


def _run(operator, w, *more):
    """The operator, in float32 for float16 on the CPU."""
    y, *others = operator(w.float() if w.dtype == torch.float16 and w.device.type == "cpu" else w, *more)
    return (y.to(w.dtype), *others)


def tssa(w, temp, lengths=None):
    """Token statistics self-attention of projected tokens.

    w [B, N, C], any strides; temp [H, 1], H dividing C; lengths [B] int64, the valid length of each sample (None: N).
    Returns y [B, N, C] of w's dtype and the memberships pi [B, H, N] in float32 (float64 for float64), both 0 at padding.
    Differentiable in w and temp through both, twice and more. Raises TypeError or ValueError for other inputs.
    """
    if not torch.jit.is_tracing():  # to a tracer sizes are tensors
        _inputs.check(w, temp, lengths)
    if lengths is not None and not (_is_compiling() or _exporting() or _transformed()):
        _inputs.check_range(lengths, w.shape[1])
    if _plain(w, temp):
        return plain.tssa(w, temp, lengths)
    return _run(torch.ops.tost.tssa, w, temp, lengths)


def tssa_causal(w, temp, denom_bias, state=None, position=0):
    """Causal token statistics self-attention of whole sequences, chunks of them, or single tokens.

    w [B, T, C]; temp [H, 1]; denom_bias [H, L, 1], of which the token at position + t uses denom_bias[:, position + t],
    and 0 from L on. state [B, 2 C + H] float64: what the call for the tokens before returned (None: there are none).
    Returns y [B, T, C], the memberships pi [B, H, T] and the state after the last token. Differentiable in w, temp and
    denom_bias through y and pi; the state is a constant.
    """
    if not torch.jit.is_tracing():
        _inputs.check_causal(w, temp, denom_bias, state, position)
    if _plain(w, temp):
        return plain.tssa_causal(w, temp, denom_bias, state, position)
    return _run(torch.ops.tost.tssa_causal, w, temp, denom_bias, state, position)


def group_means(base, values, pi, scale, log_rates=None, state=None, from_end=0, positions=None):
    """base + scale M / sqrt(R + 1e-6): with M, the sums of pi v over earlier tokens and this one, a token reads its groups.

    base, values [B, T, C]; pi [B, T, H]; scale [C]. Of M and R, the sums of pi^2, exp(log_rates) [H] is left after a token
    (None: all). state [B, H, P + 1]: M and R before. The last `from_end` heads read from the last token back, without a
    state. positions [T]: consecutive numbers, for graphs that are exported. Returns y in base's dtype and the state after
    the last token, through which no gradient flows where kernels run. Differentiable twice and more.
    """
    inputs = (base, values, pi, scale, log_rates, state, from_end)
    if not torch.jit.is_tracing():
        _inputs.check_means(*inputs)
    without = torch.float64 in (base.dtype, values.dtype, pi.dtype) or not _library.runs_on(values.device, "group_means")
    if without or _exporting() or _transformed() or (state is not None and state.requires_grad):
        return plain.group_means(*inputs, positions)
    return torch.ops.tost.means_forward(*inputs)[:2]


def delta_rule(q, k, v, beta, g=None, initial_state=None, output_final_state=False, scale=None, use_qk_l2norm_in_kernel=False):
    """The gated delta rule (arXiv 2412.06464): a memory S [K, V] a head, in which a token replaces the value of its key.

    S_t = e^g_t S_(t-1) + k_t u_t^T with u_t = beta_t (v_t - e^g_t S_(t-1)^T k_t), o_t = scale S_t^T q_t. q, k [B, T, H, K];
    v [B, T, H', V], H' a multiple of H; beta, g [B, T, H'], g at most 0 (None: nothing is forgotten); initial_state
    [B, H', K, V] (None: zeros). scale is 1 / sqrt(K) unless given. With use_qk_l2norm_in_kernel q and k are divided by
    their norms. Returns o [B, T, H', V] of q's dtype and, if output_final_state, the state after the last token in float32
    (float64 for float64), else None. Differentiable in all tensors, twice and more. Kernels run on the CPU alone.
    """
    if not torch.jit.is_tracing():
        _inputs.check_delta(q, k, v, beta, g, initial_state)
    dtype, scale = q.dtype, q.shape[-1] ** -0.5 if scale is None else scale
    if use_qk_l2norm_in_kernel:
        q, k = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (plain.wide(q), plain.wide(k)))
    if q.shape[2] != v.shape[2]:
        q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    kernels = _library.runs_on(q.device, "delta_rule")
    if torch.float64 in (q.dtype, k.dtype, v.dtype) or not kernels or _is_compiling() or _exporting() or _transformed():
        o, state = plain.delta_rule(q, k, v, beta, g, initial_state, scale)
    else:
        if not q.dtype == k.dtype == v.dtype == torch.bfloat16:
            q, k, v = q.float(), k.float(), v.float()
        inputs = (q, k, v, beta, g, None if initial_state is None else initial_state.float())
        trained = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
        o, state, _ = torch.ops.tost.delta_forward(*inputs, scale, trained)
    return o.to(dtype), state if output_final_state else None
