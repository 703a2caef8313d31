"""The operators written out in torch: what the kernels compute, differentiable any number of times, for every device.

Arithmetic is float32, float64 for float64. Under autocast it stays so: no operation here is one that autocast rounds.
"""

import torch


def wide(x):
    """x in the type of sums and guards: float32, where it has not more."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _split(x, heads):
    """[B, N, C] -> [B, H, N, P]"""
    if torch.jit.is_tracing():  # torch.onnx knows unflatten from torch 2.1 on
        return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def _merge(x):
    return x.transpose(1, 2).flatten(2)


def tssa(w, temp, lengths=None):
    """y [B, N, C] and the memberships [B, H, N]; tokens from lengths[b] on count nowhere, and are 0 in both."""
    heads = temp.shape[0]
    x = _split(wide(w), heads)
    padding = None
    if lengths is not None:
        padding = (torch.arange(w.shape[1], device=w.device) >= lengths.unsqueeze(1)).unsqueeze(1)  # [B, 1, N]
        x = x.masked_fill(padding.unsqueeze(-1), 0)
    squares = x * x
    energy = squares.sum(2, keepdim=True)  # of a feature, over the tokens
    # A feature that is 0 everywhere adds nothing to the logits, and nothing to their derivatives of any order.
    norm = energy.masked_fill(energy == 0, torch.inf).sqrt().clamp_min(1e-12)
    logits = (x / norm).square().sum(-1)
    pi = torch.softmax(logits * temp.to(x.dtype), 1)  # over the heads
    if padding is not None:
        pi = pi.masked_fill(padding, 0)
    weights = pi / (pi.sum(-1, keepdim=True) + 1e-8)
    moment = (weights.unsqueeze(-1) * squares).sum(2, keepdim=True)
    y = -(x * pi.unsqueeze(-1)) / (1 + moment)
    return _merge(y).to(w.dtype), pi


def tssa_causal(w, temp, denom_bias, state=None, position=0):
    """y, the memberships, and the sums after the last token, [B, 2 C + H] in float64, through which no gradient flows."""
    heads, channels, tokens = temp.shape[0], w.shape[2], w.shape[1]
    x = _split(wide(w), heads)
    if state is None:
        state = torch.zeros(w.shape[0], 2 * channels + heads, dtype=torch.float64, device=w.device)
    state = state.detach()
    energy_before, moment_before, pi_before = state.to(x.dtype).split([channels, channels, heads], 1)

    bias = torch.nn.functional.pad(denom_bias.to(x.dtype), (0, 0, 0, position + tokens))[:, position : position + tokens]
    squares = x * x
    energy = squares.cumsum(2) + _split(energy_before.unsqueeze(1), heads)
    logits = (squares / energy.clamp_min(1e-12) + bias).sum(-1)  # the bias acts once a feature
    pi = torch.softmax(logits * temp.to(x.dtype), 1)
    weighted = pi.unsqueeze(-1) * squares
    pi_sum = pi.cumsum(2) + pi_before.unsqueeze(-1)
    moment = (weighted.cumsum(2) + _split(moment_before.unsqueeze(1), heads)) / (pi_sum + 1e-8).unsqueeze(-1)
    y = -(x * pi.unsqueeze(-1)) / (1 + moment)

    terms = torch.cat([_merge(squares), _merge(weighted), pi.transpose(1, 2)], 2)
    return _merge(y).to(w.dtype), pi, state + terms.detach().sum(1, dtype=torch.float64)


def running_sums(x, before=None, log_rates=None, positions=None):
    """Sums over all earlier tokens and this one, x [B, T, H, P]; rates [H] say what is left of a token after one step.
    before [B, H, P]: the sums of what was read earlier; positions [T]: consecutive numbers of the tokens. With rates the
    work is quadratic in T: read long texts in pieces."""
    if log_rates is None:
        return x.cumsum(1) if before is None else x.cumsum(1) + before.unsqueeze(1)
    place, log_rates = (positions - positions[:1]).to(x.dtype), log_rates.to(x.dtype)
    ago = place.unsqueeze(1) - place
    left = (ago.clamp_min(0) * log_rates.view(-1, 1, 1)).exp() * (ago >= 0).to(x.dtype)  # [H, T, T]
    sums = torch.matmul(left, x.transpose(1, 2))
    if before is not None:
        sums = sums + ((place + 1).view(1, -1, 1) * log_rates.view(-1, 1, 1)).exp() * before.unsqueeze(2)
    return sums.transpose(1, 2)


def _reading_order(x, heads, from_end):
    """x [B, T, C or H] with the tokens of the last `from_end` heads reversed; twice changes nothing."""
    rest = x.shape[2] // heads * (heads - from_end)
    return torch.cat([x[..., :rest], x[..., rest:].flip(1)], 2) if from_end else x


def group_means(base, values, pi, scale, log_rates=None, state=None, from_end=0, positions=None):
    """y [B, T, C] in base's dtype and the sums after the last token [B, H, P + 1]."""
    heads, tokens = pi.shape[2], values.shape[1]
    values, share = (_reading_order(x, heads, from_end) for x in (wide(values), wide(pi)))
    positions = torch.arange(tokens, device=values.device) if positions is None else positions
    split, share = values.unflatten(2, (heads, values.shape[2] // heads)), share.unsqueeze(3)
    sums = running_sums(torch.cat([split * share, share * share], 3), state, log_rates, positions)
    means = _reading_order((sums[..., :-1] / (sums[..., -1:] + 1e-6).sqrt()).flatten(2), heads, from_end)
    last = sums[:, -1] if tokens > 0 else sums.sum(1) if state is None else wide(state)
    return (base + means * scale).to(base.dtype), last


def delta_rule(q, k, v, beta, g=None, state=None, scale=1.0):
    """o [B, T, H, V] and the state after the last token, by chunks of tokens whose updates solve one triangular system."""
    q, k, v, beta, g = (x.to(wide(q).dtype).transpose(1, 2) for x in (q, k, v, beta, 0 * beta if g is None else g))
    state = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state.to(v.dtype)
    out = []
    with torch.autocast(q.device.type, enabled=False):
        parts = (x.split(64, 2) for x in (q * scale, k, v, beta.unsqueeze(3), g.unsqueeze(3)))
        for q, k, v, beta, g in zip(*parts):
            total = g.cumsum(2)
            last, remaining, keys = total[:, :, -1:], total.exp(), k.transpose(2, 3)
            decay = (total - total.transpose(2, 3)).tril().exp().tril()
            system, stored = k @ keys * decay * beta, k @ state * remaining
            u = torch.linalg.solve_triangular(system.tril(-1), beta * (v - stored), upper=False, unitriangular=True)
            out.append(q @ state * remaining + q @ keys * decay @ u)
            state = state * last.exp() + (k * (last - total).exp()).transpose(2, 3) @ u
    return torch.cat(out, 2).transpose(1, 2), state
