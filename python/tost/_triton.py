"""Token statistics self-attention as Triton kernels: what torch.ops.tost does for tensors on a GPU.

Formulas: tost/kernels/tssa.h and tssa_causal.h. Storage is float32, bfloat16 or float16, arithmetic float32. A tile is
[T tokens, H2 heads, P2 features]: Triton's sizes are powers of two, so masks leave out what H heads of P do not have.
Sums leave a program as a row of a table, and tables are added in a fixed order: results repeat, and there are no
atomic operations. A pass that needs a sum over all tokens is another launch; where the batch is as large as the GPU, one
program takes a sample through all passes (PASS 0), and reads its tokens again from the L2 cache.

Rules that Triton's interpreter, in which the tests run, does not enforce:
- It rounds float32 to bfloat16 towards zero; the tests mend that. It adds bfloat16 as bit patterns: _load() converts.
- Masked lanes of a load are 0 there and undefined on a GPU: every load names `other`.
- A name that changes its shape in a loop passes there: scripts/triton_report.py compiles every kernel.
- It has no threads: a barrier separates what one thread writes to memory from reads by others of its program.
- Roots and quotients are exact there; on a GPU those without _rn differ by some 1e-7.

Times in ms (scripts/gpu_session.py prints this table; no GPU has run the kernels yet):

                                 forward   plain   backward   plain   copy of w
bfloat16    256 x   196 x  384         -       -          -       -           -
bfloat16      4 x 16384 x  768         -       -          -       -           -
causal bf16  16 x  1024 x  768         -       -          -       -           -
"""

import torch
import triton
import triton.language as tl

from . import _inputs

_TILE = 4096  # elements of a bidirectional tile: 16 a thread
_WIDEST = 8192  # elements of the widest token, padded
_CHUNK = 64  # tokens between two of the sums that a causal backward starts from
_LONGEST = 64  # tiles that one float32 sum takes
_OPTIONS = dict(enable_fp_fusion=True)  # named, because its default changes with Triton's version


@triton.jit
def _load(at, mask):
    return tl.load(at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _places(H: tl.constexpr, P: tl.constexpr, H2: tl.constexpr, P2: tl.constexpr):
    """Heads [1, H2] and channels [1, H2, P2] of a token, each with which of them exist."""
    k = tl.arange(0, H2)[None, :]
    i = tl.arange(0, P2)[None, None, :]
    return k, k < H, k[:, :, None] * P + i, (k[:, :, None] < H) & (i < P)


@triton.jit
def _tile(x, stride, t, end, c, exists):
    """[T, H2, P2] of the tokens t [T, 1], 0 from token `end` on."""
    return _load(x + t[:, :, None].to(tl.int64) * stride + c, (t[:, :, None] < end) & exists)


@triton.jit
def _store_tile(x, value, t, end, c, exists, C: tl.constexpr):
    at = x + t[:, :, None].to(tl.int64) * C + c
    tl.store(at, value.to(x.dtype.element_ty), mask=(t[:, :, None] < end) & exists)


@triton.jit
def _softmax(logit, head):
    """Over the heads [T, H2]; those that do not exist get 0."""
    logit = tl.where(head, logit, float("-inf"))
    share = tl.exp(logit - tl.max(logit, 1, keep_dims=True))
    return share / tl.sum(share, 1, keep_dims=True)


@triton.jit
def _inverse_norm(energy):
    return tl.div_rn(1.0, tl.maximum(tl.sqrt_rn(energy), 1e-12, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def _span(N, span, splits, lengths):
    """Sample, row of the table of sums, first token, and the ends of this program's tokens and of the valid ones."""
    row = tl.program_id(0).to(tl.int64)
    b = row // splits
    begin = (tl.program_id(0) % splits) * span
    end = tl.minimum(begin + span, N)
    valid = end
    if lengths is not None:
        valid = tl.minimum(tl.load(lengths + b), end).to(tl.int32)
    return b, row, begin, end, valid


@triton.jit(do_not_specialize=["N", "span", "splits"])
def _forward(w, wb, wt, temp, lengths, y, pi, moment, pi_sum, energy, sums, part_e, part_m, N, span, splits,
             H: tl.constexpr, P: tl.constexpr, T: tl.constexpr, H2: tl.constexpr, P2: tl.constexpr,
             PASS: tl.constexpr):
    """PASS 1: sums of w^2. PASS 2: Pi, sums of Pi w^2 and Pi. PASS 3: y. PASS 0: all of it, splits being 1."""
    C: tl.constexpr = H * P
    b, row, begin, end, valid = _span(N, span, splits, lengths)
    k, head, c, exists = _places(H, P, H2, P2)
    w += b * wb
    shares = pi + (b * H + k) * N

    if PASS == 0 or PASS == 1:
        total = tl.zeros([T, H2, P2], tl.float32)
        for first in range(begin, valid, T):
            x = _tile(w, wt, first + tl.arange(0, T)[:, None], valid, c, exists)
            total += x * x
        e = tl.sum(total, 0, keep_dims=True)
        tl.store((energy if PASS == 0 else part_e) + row * C + c, e, mask=exists)

    if PASS == 0 or PASS == 2:
        if PASS == 2:
            e = _load(energy + b * C + c, exists)
        inverse = _inverse_norm(e)
        scale = _load(temp + k, head)
        weighted = tl.zeros([T, H2, P2], tl.float32)
        members = tl.zeros([T, H2], tl.float32)
        for first in range(begin, valid, T):
            t = first + tl.arange(0, T)[:, None]
            x = _tile(w, wt, t, valid, c, exists)
            unit = x * inverse
            share = _softmax(tl.sum(unit * unit, 2) * scale, head)
            share = tl.where(t < valid, share, 0.0)
            tl.store(shares + t, share, mask=head & (t < valid))
            weighted += share[:, :, None] * (x * x)
            members += share
        m = tl.sum(weighted, 0, keep_dims=True)
        n = tl.sum(members, 0, keep_dims=True)
        if PASS == 2:
            tl.store(part_m + row * (C + H) + c, m, mask=exists)
            tl.store(part_m + row * (C + H) + C + k, n, mask=head)
        else:
            tl.debug_barrier()  # PASS 3 reads Pi, which other threads have written

    if PASS == 0 or PASS == 3:
        if PASS == 3:
            m = _load(sums + b * (C + H) + c, exists)
            n = _load(sums + b * (C + H) + C + k, head)
        s = tl.div_rn(m, n[:, :, None] + 1e-8)
        if begin == 0:
            tl.store(moment + b * C + c, s, mask=exists)
            tl.store(pi_sum + b * H + k, n, mask=head)
        damping = tl.div_rn(-1.0, 1.0 + s)
        for first in range(begin, end, T):
            t = first + tl.arange(0, T)[:, None]
            x = _tile(w, wt, t, valid, c, exists)
            share = _load(shares + t, head & (t < valid))
            value = x * share[:, :, None] * damping
            if lengths is not None:  # padding is 0 even where a statistic is NaN
                value = tl.where(t[:, :, None] < valid, value, 0.0)
                tl.store(shares + t, share, mask=head & (t >= valid) & (t < end))
            _store_tile(y + b * N * C, value, t, end, c, exists, C)


@triton.jit(do_not_specialize=["N", "span", "splits"])
def _backward(w, wb, wt, g, gb, gt, grad_pi, temp, lengths, pi, energy, moment, pi_sum, da, dw, pulls, logits, part_g,
              part_l, N, span, splits, H: tl.constexpr, P: tl.constexpr, T: tl.constexpr, H2: tl.constexpr,
              P2: tl.constexpr, PASS: tl.constexpr):
    """PASS 1: G. PASS 2: da, sums of dlogit v^2. PASS 3: dw. PASS 0: all of it. With e = D G / N', dS / N' is D e; the
    product is never formed, because it is too small for float32 where w is large."""
    C: tl.constexpr = H * P
    b, row, begin, end, valid = _span(N, span, splits, lengths)
    k, head, c, exists = _places(H, P, H2, P2)
    w += b * wb
    g += b * gb
    per_head = (b * H + k) * N

    if PASS == 0 or PASS == 1:
        total = tl.zeros([T, H2, P2], tl.float32)
        for first in range(begin, valid, T):
            t = first + tl.arange(0, T)[:, None]
            share = _load(pi + per_head + t, head & (t < valid))
            total += _tile(g, gt, t, valid, c, exists) * _tile(w, wt, t, valid, c, exists) * share[:, :, None]
        pull = tl.sum(total, 0, keep_dims=True)
        if PASS == 1:
            tl.store(part_g + row * C + c, pull, mask=exists)

    if PASS != 1:
        s = _load(moment + b * C + c, exists)
        norm = _load(pi_sum + b * H + k, head)[:, :, None] + 1e-8
        inverse = _inverse_norm(_load(energy + b * C + c, exists))
        scale = _load(temp + k, head)
        if PASS != 0:
            pull = _load(pulls + b * C + c, exists)
        damping = tl.div_rn(1.0, 1.0 + s)
        e = tl.div_rn(damping * pull, norm)

    if PASS == 0 or PASS == 2:
        spread = tl.sum(damping * s * e, 2)
        total = tl.zeros([T, H2, P2], tl.float32)
        for first in range(begin, valid, T):
            t = first + tl.arange(0, T)[:, None]
            x = _tile(w, wt, t, valid, c, exists)
            grad = _tile(g, gt, t, valid, c, exists)
            share = _load(pi + per_head + t, head & (t < valid))
            dpi = tl.sum(x * damping * (x * e - grad), 2) - spread
            if grad_pi is not None:
                dpi += _load(grad_pi + per_head + t, head & (t < valid))
            dlogit = share * (dpi - tl.sum(share * dpi, 1, keep_dims=True))
            tl.store(da + per_head + t, dlogit * scale, mask=head & (t < valid))
            unit = x * inverse
            total += dlogit[:, :, None] * (unit * unit)
        logit = tl.sum(total, 0, keep_dims=True)
        tl.store((logits if PASS == 0 else part_l) + row * C + c, logit, mask=exists)
        if PASS == 0:
            tl.debug_barrier()  # PASS 3 reads da, which other threads have written

    if PASS == 0 or PASS == 3:
        if PASS == 3:
            logit = _load(logits + b * C + c, exists)
        # A clamped norm is a constant, so that nothing flows into it.
        mean = tl.where(inverse < 1e12, logit * scale[:, :, None], 0.0)
        for first in range(begin, end, T):
            t = first + tl.arange(0, T)[:, None]
            x = _tile(w, wt, t, valid, c, exists)
            grad = _tile(g, gt, t, valid, c, exists)
            share = _load(pi + per_head + t, head & (t < valid))[:, :, None]
            inner = _load(da + per_head + t, head & (t < valid))[:, :, None] - mean
            value = share * damping * (2.0 * x * e - grad) + 2.0 * (x * inverse) * inverse * inner
            if lengths is not None:
                value = tl.where(t[:, :, None] < valid, value, 0.0)
            _store_tile(dw + b * N * C, value, t, end, c, exists, C)


# Causal. A chunk is what the operators' schema keeps sums for; a state is E [C], M [C] and N [H] of a sample.


@triton.jit
def _bias(bias, t, k, head, L, position, P: tl.constexpr):
    """Of the tokens t [T, 1], P times because it acts once a feature; 0 past its last entry."""
    return P * _load(bias + k * L + position + t, (position + t < L) & head)


@triton.jit
def _inverse_root(energy):
    return tl.rsqrt(tl.maximum(energy, 1e-12, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def _inverse(x):
    """1 / x of x >= 1e-8. A quotient would check its range, which costs two more instructions."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit(do_not_specialize=["N", "chunks", "L", "position"])
def _causal_forward(w, wb, wt, temp, bias, state, y, pi, after, carry, pi_carry, part, N, chunks, L, position,
                    H: tl.constexpr, P: tl.constexpr, T: tl.constexpr, H2: tl.constexpr, P2: tl.constexpr,
                    CHUNK: tl.constexpr, PASS: tl.constexpr):
    """Programs of a chunk: PASS 2: Pi, sums of Pi w^2 and Pi. PASS 3: y. Of a sample: PASS 0: all, and the state."""
    C: tl.constexpr = H * P
    k, head, c, exists = _places(H, P, H2, P2)
    if PASS == 0:
        b = tl.program_id(0).to(tl.int64)
        first_chunk, last_chunk = 0, chunks
        e_total, m_total = tl.zeros([1, H2, P2], tl.float64), tl.zeros([1, H2, P2], tl.float64)
        n_total = tl.zeros([1, H2], tl.float64)
        if state is not None:
            e_total += tl.load(state + b * (2 * C + H) + c, mask=exists, other=0.0)
            m_total += tl.load(state + b * (2 * C + H) + C + c, mask=exists, other=0.0)
            n_total += tl.load(state + b * (2 * C + H) + 2 * C + k, mask=head, other=0.0)
    else:
        b = tl.program_id(0).to(tl.int64) // chunks
        first_chunk = tl.program_id(0) % chunks
        last_chunk = first_chunk + 1
    scale = _load(temp + k, head)
    shares = pi + (b * H + k) * N

    for chunk in range(first_chunk, last_chunk):
        row = b * chunks + chunk
        if PASS == 0:
            e, m, n = e_total.to(tl.float32), m_total.to(tl.float32), n_total.to(tl.float32)
            tl.store(carry + row * 2 * C + c, e, mask=exists)
            tl.store(carry + row * 2 * C + C + c, m, mask=exists)
            tl.store(pi_carry + row * H + k, n_total, mask=head)
        else:
            e, m = _load(carry + row * 2 * C + c, exists), _load(carry + row * 2 * C + C + c, exists)
            n = _load(pi_carry + row * H + k, head)
        e_rest, m_rest = tl.zeros([1, H2, P2], tl.float32), tl.zeros([1, H2, P2], tl.float32)
        n_rest = tl.zeros([1, H2], tl.float32)
        end = tl.minimum(chunk * CHUNK + CHUNK, N)
        for first in range(chunk * CHUNK, end, T):
            t = first + tl.arange(0, T)[:, None]
            x = _tile(w + b * wb, wt, t, end, c, exists)
            q = x * x
            if PASS == 3:
                share = _load(shares + t, head & (t < end))
            else:
                unit = x * _inverse_root(e + (e_rest + tl.cumsum(q, 0)))
                share = _softmax((tl.sum(unit * unit, 2) + _bias(bias, t, k, head, L, position, P)) * scale, head)
                share = tl.where(t < end, share, 0.0)
                tl.store(shares + t, share, mask=head & (t < end))
                e_rest += tl.sum(q, 0, keep_dims=True)
            weighted = share[:, :, None] * q
            if PASS != 2:  # D = N' / (N' + M)
                norm = n + (n_rest + tl.cumsum(share, 0)) + 1e-8
                moment = m + (m_rest + tl.cumsum(weighted, 0))
                value = x * (-share * norm)[:, :, None] * _inverse(norm[:, :, None] + moment)
                _store_tile(y + b * N * C, value, t, end, c, exists, C)
            m_rest += tl.sum(weighted, 0, keep_dims=True)
            n_rest += tl.sum(share, 0, keep_dims=True)
        if PASS == 0:
            e_total += e_rest.to(tl.float64)
            m_total += m_rest.to(tl.float64)
            n_total += n_rest.to(tl.float64)
        if PASS == 2:
            tl.store(part + row * (C + H) + c, m_rest, mask=exists)
            tl.store(part + row * (C + H) + C + k, n_rest, mask=head)
    if PASS == 0:
        tl.store(after + b * (2 * C + H) + c, e_total, mask=exists)
        tl.store(after + b * (2 * C + H) + C + c, m_total, mask=exists)
        tl.store(after + b * (2 * C + H) + 2 * C + k, n_total, mask=head)


@triton.jit(do_not_specialize=["chunks", "column"])
def _scan(part, state, after, carry, pi_carry, chunks, column, W, C, H, R: tl.constexpr, K: tl.constexpr):
    """The sums before each chunk and after the last, of part [B, chunks, W]: columns of a state, from `column` on."""
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * K + tl.arange(0, K)[None, :]
    to = column + c
    r = tl.arange(0, R)[:, None]
    total = tl.zeros([1, K], tl.float64)
    if state is not None:
        total += tl.load(state + b * (2 * C + H) + to, mask=c < W, other=0.0)
    for first in range(0, chunks + 1, R):
        i = first + r  # sums of i chunks; not those of i + 1 less one, in which a small chunk is lost in a large one
        x = tl.load(part + (b * chunks + i - 1) * W + c, mask=(i > 0) & (i <= chunks) & (c < W), other=0.0)
        sums = total + tl.cumsum(x.to(tl.float64), 0)
        before = (i < chunks) & (c < W)
        tl.store(carry + (b * chunks + i) * 2 * C + to, sums.to(tl.float32), mask=before & (to < 2 * C))
        tl.store(pi_carry + (b * chunks + i) * H + to - 2 * C, sums, mask=before & (to >= 2 * C))
        if after is not None:
            tl.store(after + b * (2 * C + H) + to + 0 * i, sums, mask=(i == chunks) & (c < W))
        total += tl.sum(x.to(tl.float64), 0, keep_dims=True)


@triton.jit(do_not_specialize=["N", "chunks", "L", "position"])
def _causal_backward(w, wb, wt, g, gb, gt, grad_pi, temp, bias, pi, carry, pi_carry, later, z_later, dpi, da, logits,
                     dw, part, N, chunks, L, position, H: tl.constexpr, P: tl.constexpr, H2: tl.constexpr,
                     F: tl.constexpr, CHUNK: tl.constexpr, PASS: tl.constexpr):
    """A program is a chunk of one head, F features at a time. With r = dS / N', z = sum_i r S and f = da q / E^2:
    PASS 1: sums of r and z. PASS 2: dPi. PASS 3: da, sums of dlogit a and f. PASS 4: dw. Sums over later chunks are
    scanned like those over earlier ones, the chunks in opposite order; `later` holds those of f [C] and r [C]."""
    C: tl.constexpr = H * P
    row = tl.program_id(0).to(tl.int64) // H
    h = tl.program_id(0) % H
    b = row // chunks
    chunk = (row % chunks).to(tl.int32)
    turned = b * chunks + chunks - 1 - chunk
    t = chunk * CHUNK + tl.arange(0, CHUNK)[:, None]
    there = t < N
    at = (b * H + h) * N + t
    share = _load(pi + at, there)
    if PASS == 3:
        k = tl.arange(0, H2)[None, :]
        each, all_there = (b * H + k) * N + t, there & (k < H)
        mean = tl.sum(_load(pi + each, all_there) * _load(dpi + each, all_there), 1, keep_dims=True)
        dlogit = share * (_load(dpi + at, there) - mean)
        d = dlogit * tl.load(temp + h)
        tl.store(da + at, d, mask=there)
    else:
        before = tl.load(pi_carry + row * H + h).to(tl.float32)
        norm = (before + tl.cumsum(tl.sum(share, 1), 0) + 1e-8)[:, None]  # Triton 3.6 fails at scans of columns
    if PASS == 4:
        d = _load(da + at, there)
    per_token = tl.zeros([CHUNK, 1], tl.float32)  # sums over features: PASS 2: dPi, PASS 3: a
    z = tl.zeros([CHUNK], tl.float32)

    for start in range(0, P, F):
        i = start + tl.arange(0, F)[None, :]
        c, exists = h * P + i, i < P
        x = _load(w + b * wb + t.to(tl.int64) * wt + c, there & exists)
        if PASS != 3:
            grad = _load(g + b * gb + t.to(tl.int64) * gt + c, there & exists)
            moment = _load(carry + row * 2 * C + C + c, exists) + tl.cumsum(share * (x * x), 0)
            inverse = _inverse(norm + moment)  # D = N' / (N' + M)
            damping = norm * inverse
            pull = grad * x * share * inverse
            r = damping * pull
            if PASS == 1:
                tl.store(part + turned * (C + H) + c, tl.sum(r, 0, keep_dims=True), mask=exists)
            else:
                rs = _load(later + turned * 2 * C + C + c, exists) + tl.cumsum(r, 0, reverse=True)
            if PASS != 4:
                z += tl.sum(pull * (moment * inverse), 1)
            if PASS == 2:
                per_token += tl.sum(x * (x * rs - grad * damping), 1, keep_dims=True)
        if PASS >= 3:
            energy = _load(carry + row * 2 * C + c, exists) + tl.cumsum(x * x, 0)
            root = _inverse_root(energy)
            unit = x * root
            f = tl.where(energy < 1e-12, 0.0, d * (unit * root) * (unit * root))  # a clamped energy is a constant
        if PASS == 3:
            per_token += tl.sum(unit * unit, 1, keep_dims=True)
            tl.store(part + turned * C + c, tl.sum(f, 0, keep_dims=True), mask=exists)
        if PASS == 4:
            fs = _load(later + turned * 2 * C + c, exists) + tl.cumsum(f, 0, reverse=True)
            value = share * (2.0 * x * rs - grad * damping) + 2.0 * (unit * root * d - x * fs)
            tl.store(dw + (b * N + t) * C + c, value.to(dw.dtype.element_ty), mask=there & exists)

    if PASS == 1:
        tl.store(part + turned * (C + H) + C + h, tl.sum(z, 0))
    if PASS == 2:
        z_sum = tl.load(z_later + turned * H + h).to(tl.float32) + tl.cumsum(z, 0, reverse=True)
        value = per_token - z_sum[:, None]
        if grad_pi is not None:
            value += _load(grad_pi + at, there)
        tl.store(dpi + at, value, mask=there)
    if PASS == 3:
        logit = per_token + _bias(bias, t, h, there, L, position, P)
        tl.store(logits + row * H + h, tl.sum(tl.sum(dlogit * logit, 1), 0))


# Arguments and launches.


def _power(n):
    """The least power of two from n on, by steps that torch.compile follows for symbolic sizes."""
    power = 1
    while power < n:
        power *= 2
    return power


def takes(w, temp):
    """Whether the kernels take inputs of this dtype and shape; the others are for the plain form."""
    token = _power(temp.shape[0]) * _power(w.shape[2] // temp.shape[0])
    return w.dtype in (torch.float32, torch.bfloat16, torch.float16) and token <= _WIDEST


def _sizes(w, temp):
    """The constants of a token: heads, their width, and both padded."""
    heads, width = temp.shape[0], w.shape[2] // temp.shape[0]
    if not takes(w, temp):
        raise ValueError(
            f"tssa: the Triton kernels do not take {heads} heads of {width} features of {w.dtype}; "
            "tost.ops.tssa runs the plain form for them."
        )
    return dict(H=heads, P=width, H2=_power(heads), P2=_power(width))


def _multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


def _check(name, x, w, shape, dtype):
    if x.shape != shape or x.dtype != dtype or x.device != w.device:
        raise ValueError(
            f"tssa: {name} must be {list(shape)} of {dtype} on {w.device}, but is {list(x.shape)} of {x.dtype}."
        )


def _kept(name, w, shape, *tensors, dtype=torch.float32):
    """What a forward kept, contiguous; kernels read it by this shape."""
    for x in tensors:
        _check(name, x, w, shape, dtype)
    return [x.contiguous() for x in tensors]


def _rows(x):
    """The tokens with adjacent channels, and their strides."""
    x = x if x.shape[2] == 1 or x.stride(2) == 1 else x.contiguous()
    return x, x.stride(0), x.stride(1)


def _gradients(grad_y, grad_pi, w, pi):
    """As the kernels take them: rows of grad_y, of zeros if there is none, and grad_pi or None."""
    grad_y = w.new_zeros(1, 1, w.shape[2]).expand(w.shape) if grad_y is None else grad_y
    _check("grad_y", grad_y, w, w.shape, w.dtype)
    return *_rows(grad_y), None if grad_pi is None else _kept("grad_pi", w, pi.shape, grad_pi)[0]


def _passes(kernel, w, sizes, totals, *arguments):
    """Runs a kernel's passes over the tokens; totals are the sums that the first and the second of them make."""
    batch, tokens, _ = w.shape
    token = sizes["H2"] * sizes["P2"]
    tile = max(1, min(_TILE // token, _power(tokens)))
    tiles, multiprocessors = triton.cdiv(tokens, tile), _multiprocessors(w.device)
    programs = 1 if batch >= multiprocessors else triton.cdiv(4 * multiprocessors, batch)  # of a sample
    span = min(triton.cdiv(tiles, programs), _LONGEST)
    splits = triton.cdiv(tiles, span)
    parts = [total.new_empty(batch, splits, total.shape[1]) if splits > 1 else None for total in totals]
    for index in (0,) if splits == 1 else (1, 2, 3):
        kernel[(batch * splits,)](*arguments, *totals, *parts, tokens, span * tile, splits, **sizes, T=tile, PASS=index,
                                  num_warps=max(1, min(16, tile * token // 512)), **_OPTIONS)
        if index in (1, 2):
            torch.sum(parts[index - 1], 1, out=totals[index - 1])


def forward(w, temp, lengths=None):
    _inputs.check(w, temp, lengths)
    lengths = None if lengths is None else lengths.contiguous()
    sizes, (batch, tokens, channels) = _sizes(w, temp), w.shape
    pi = w.new_empty(batch, sizes["H"], tokens, dtype=torch.float32)
    y, pi_sum = w.new_empty(w.shape), pi.new_empty(batch, sizes["H"])
    energy, moment = pi.new_empty(batch, channels), pi.new_empty(batch, channels)
    if w.numel() == 0:
        return y, pi, energy.zero_(), moment.zero_(), pi_sum.zero_()
    with torch.cuda.device_of(w):
        _passes(_forward, w, sizes, (energy, pi.new_empty(batch, channels + sizes["H"])), *_rows(w),
                temp.float().contiguous(), lengths, y, pi, moment, pi_sum)
    return y, pi, energy, moment, pi_sum


def backward(grad_y, grad_pi, w, temp, pi, energy, moment, pi_sum, lengths=None):
    _inputs.check(w, temp, lengths)
    lengths = None if lengths is None else lengths.contiguous()
    sizes, (batch, tokens, channels) = _sizes(w, temp), w.shape
    (pi,) = _kept("pi", w, (batch, sizes["H"], tokens), pi)
    energy, moment = _kept("energy", w, (batch, channels), energy, moment)
    (pi_sum,) = _kept("pi_sum", w, (batch, sizes["H"]), pi_sum)
    dw, logits = w.new_empty(w.shape), torch.empty_like(energy)
    if w.numel() == 0:
        return dw, torch.zeros_like(temp)
    with torch.cuda.device_of(w):
        _passes(_backward, w, sizes, (torch.empty_like(energy), logits), *_rows(w), *_gradients(grad_y, grad_pi, w, pi),
                temp.float().contiguous(), lengths, pi, energy, moment, pi_sum, torch.empty_like(pi), dw)
        dtemp = logits.view(-1, sizes["H"], sizes["P"]).sum((0, 2)).unsqueeze(1)
    return dw, dtemp.to(temp.dtype)


def _causal_sizes(w, temp, whole):
    """A token is one row of all threads where that is possible, so that a thread adds up its tokens by itself."""
    sizes = _sizes(w, temp)
    token = sizes["H2"] * sizes["P2"]
    warps = max(1, min(16, token // 256))
    elements = min(512 * warps, _TILE) if whole else 1024 * warps  # of a tile; `whole` also keeps float64 sums
    tile = max(1, min(elements // token, _power(w.shape[1]), _CHUNK))
    return dict(sizes, T=tile, num_warps=warps, **_OPTIONS)


def _scanned(part, column, state, after, carry, pi_carry):
    batch, chunks, width = part.shape
    channels, heads = carry.shape[2] // 2, pi_carry.shape[2]
    _scan[(batch, triton.cdiv(width, 32))](part, state, after, carry, pi_carry, chunks, column, width, channels, heads,
                                           R=32, K=32, **_OPTIONS)


def causal_forward(w, temp, denom_bias, state, position):
    _inputs.check_causal(w, temp, denom_bias, state, position)
    batch, tokens, channels = w.shape
    heads, chunks = temp.shape[0], triton.cdiv(tokens, _CHUNK)
    y, pi = w.new_empty(w.shape), w.new_empty(batch, heads, tokens, dtype=torch.float32)
    after = w.new_empty(batch, 2 * channels + heads, dtype=torch.float64)
    carry, pi_carry = pi.new_empty(batch, chunks, 2 * channels), after.new_empty(batch, chunks, heads)
    if w.numel() == 0:
        return y, pi, after.zero_() if state is None else after.copy_(state), carry, pi_carry
    state = None if state is None else state.contiguous()
    bias, row = denom_bias.float().contiguous(), (*_rows(w), temp.float().contiguous())
    whole = chunks == 1 or batch >= 8 * _multiprocessors(w.device)
    grid, sizes = (batch if whole else batch * chunks,), _causal_sizes(w, temp, whole)

    def run(index, part=None):
        _causal_forward[grid](*row, bias, state, y, pi, after, carry, pi_carry, part, tokens, chunks, bias.shape[1],
                              position, **sizes, CHUNK=_CHUNK, PASS=index)

    with torch.cuda.device_of(w):
        if whole:
            run(0)
        else:
            part = pi.new_empty(batch, chunks, channels)
            _forward[grid](*row, None, y, pi, *[None] * 4, part, None, tokens, _CHUNK, chunks, **sizes, PASS=1)
            _scanned(part, 0, state, after, carry, pi_carry)
            part = pi.new_empty(batch, chunks, channels + heads)
            run(2, part)
            _scanned(part, channels, state, after, carry, pi_carry)
            run(3)
    return y, pi, after, carry, pi_carry


def causal_backward(grad_y, grad_pi, w, temp, denom_bias, position, pi, carry, pi_carry):
    _inputs.check_causal(w, temp, denom_bias, None, position)
    sizes, (batch, tokens, channels) = _sizes(w, temp), w.shape
    heads, width, chunks = sizes["H"], sizes["P"], triton.cdiv(tokens, _CHUNK)
    (pi,) = _kept("pi", w, (batch, heads, tokens), pi)
    (carry,) = _kept("carry", w, (batch, chunks, 2 * channels), carry)
    (pi_carry,) = _kept("pi_carry", w, (batch, chunks, heads), pi_carry, dtype=torch.float64)
    dw, dbias = w.new_empty(w.shape), torch.zeros_like(denom_bias, memory_format=torch.contiguous_format)
    if w.numel() == 0:
        return dw, torch.zeros_like(temp), dbias
    bias = denom_bias.float().contiguous()
    dpi, da = torch.empty_like(pi), torch.empty_like(pi)
    logits = pi.new_empty(batch, chunks, heads)
    later, z_later = torch.empty_like(carry), torch.empty_like(pi_carry)
    features = 16 // w.element_size() if width % 8 == 0 else 4  # what a thread loads at once
    arguments = (*_rows(w), *_gradients(grad_y, grad_pi, w, pi), temp.float().contiguous(), bias, pi, carry, pi_carry,
                 later, z_later, dpi, da, logits, dw)
    with torch.cuda.device_of(w):
        for index, columns, column in ((1, channels + heads, channels), (2, 0, None), (3, channels, 0), (4, 0, None)):
            part = pi.new_empty(batch, chunks, columns)
            _causal_backward[(batch * chunks * heads,)](
                *arguments, part, tokens, chunks, bias.shape[1], position, heads, width, sizes["H2"], features, _CHUNK,
                PASS=index, num_warps=1, **_OPTIONS)
            if columns:
                _scanned(part, column, None, None, later, z_later)
        covered = max(0, min(tokens, bias.shape[1] - position))
        dbias[:, position : position + covered, 0] = (width * da[:, :, :covered].sum(0)).to(dbias.dtype)
        dtemp = logits.sum((0, 1)).unsqueeze(1)
    return dw, dtemp.to(temp.dtype), dbias


KERNELS = dict(tssa_forward=forward, tssa_backward=backward, tssa_causal_forward=causal_forward,
               tssa_causal_backward=causal_backward)
