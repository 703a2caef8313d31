"""Token statistics self-attention as Triton kernels: what torch.ops.tost does for tensors on a GPU.

Formulas: tost/kernels/tssa.h, tssa_causal.h, means.h. Storage is float32, bfloat16 or float16, arithmetic float32. A tile is
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
def _softmax(logit, head):
    """Over the heads [T, H2]; those that do not exist get 0."""
    logit = tl.where(head, logit, float("-inf"))
    share = tl.exp(logit - tl.max(logit, 1, keep_dims=True))
    return share / tl.sum(share, 1, keep_dims=True)


@triton.jit
def _inverse_norm(energy):
    return tl.div_rn(1.0, tl.maximum(tl.sqrt_rn(energy), 1e-12, propagate_nan=tl.PropagateNan.ALL))


@triton.jit
def _program(N, span, splits, lengths, H: tl.constexpr, P: tl.constexpr, H2: tl.constexpr, P2: tl.constexpr):
    """Sample, row of the table of sums, first token, and the ends of this program's tokens and of the valid ones; then
    heads [1, H2] and channels [1, H2, P2] of a token, each with which of them exist."""
    row = tl.program_id(0).to(tl.int64)
    b = row // splits
    begin = (tl.program_id(0) % splits) * span
    end = tl.minimum(begin + span, N)
    valid = end
    if lengths is not None:
        valid = tl.minimum(tl.load(lengths + b), end).to(tl.int32)
    k = tl.arange(0, H2)[None, :]
    i = tl.arange(0, P2)[None, None, :]
    return b, row, begin, end, valid, k, k < H, k[:, :, None] * P + i, (k[:, :, None] < H) & (i < P)


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


@triton.jit(do_not_specialize=["N", "span", "splits", "L", "position"])
def _forward(w, wb, wt, temp, lengths, bias, L, position, state, y, pi, moment, pi_sum, after, energy, sums, part, N, span,
             splits, H: tl.constexpr, P: tl.constexpr, T: tl.constexpr, H2: tl.constexpr, P2: tl.constexpr,
             PASS: tl.constexpr, CAUSAL: tl.constexpr):
    """PASS 1: sums of w^2. PASS 2: Pi, sums of Pi w^2 and Pi. PASS 3: y. PASS 0: all of it, splits being 1.
    CAUSAL, a span is a chunk, and `energy` and `sums` hold, for each, the sums of the tokens before it: E, M and N."""
    C: tl.constexpr = H * P
    R: tl.constexpr = 1 if CAUSAL and PASS != 1 else T  # rows of sums: the next tile needs them, or the span's end
    b, row, begin, end, valid, k, head, c, exists = _program(N, span, splits, lengths, H, P, H2, P2)
    w += b * wb
    shares = pi + (b * H + k) * N
    scale = _load(temp + k, head)
    e_at = energy + (row * 2 * C if CAUSAL else b * C) + c
    m_at = e_at + C if CAUSAL else sums + b * (C + H) + c
    n_at = sums + (row * H if CAUSAL else b * (C + H) + C) + k
    if PASS == 2:
        e = _load(e_at, exists)
    if PASS == 3:
        m, n = _load(m_at, exists), _load(n_at, head)
    if PASS == 0 and CAUSAL:
        e_first = tl.load(state + b * (2 * C + H) + c, mask=exists, other=0.0)
        m_first = tl.load(state + b * (2 * C + H) + C + c, mask=exists, other=0.0)
        n_first = tl.load(state + b * (2 * C + H) + 2 * C + k, mask=head, other=0.0)
        e, m, n = e_first.to(tl.float32), m_first.to(tl.float32), n_first.to(tl.float32)
        tl.store(e_at, e, mask=exists)
        tl.store(m_at, m, mask=exists)
        tl.store(n_at, n_first, mask=head)

    for step in tl.static_range(1, 4):
        if PASS == step or (PASS == 0 and (step == 2 or not CAUSAL)):
            if step == 2 and not CAUSAL:
                inverse = _inverse_norm(e)
            if step == 3 and not CAUSAL:
                s = tl.div_rn(m, n[:, :, None] + 1e-8)
                if begin == 0:
                    tl.store(moment + b * C + c, s, mask=exists)
                    tl.store(pi_sum + b * H + k, n, mask=head)
                damping = tl.div_rn(-1.0, 1.0 + s)
            total, members = tl.zeros([R, H2, P2], tl.float32), tl.zeros([R, H2], tl.float32)
            energies = tl.zeros([1, H2, P2], tl.float32)
            for first in range(begin, end if step == 3 else valid, T):
                t = first + tl.arange(0, T)[:, None]
                at = t[:, :, None].to(tl.int64)
                there = (t[:, :, None] < valid) & exists
                x = _load(w + at * wt + c, there)
                q = x * x
                if step == 2:
                    if CAUSAL:
                        unit = x * _inverse_root(e + (energies + tl.cumsum(q, 0)))
                        logit = tl.sum(unit * unit, 2) + _bias(bias, t, k, head, L, position, P)
                        energies += tl.sum(q, 0, keep_dims=True)
                    else:
                        unit = x * inverse
                        logit = tl.sum(unit * unit, 2)
                    share = tl.where(t < valid, _softmax(logit * scale, head), 0.0)
                    tl.store(shares + t, share, mask=head & (t < valid))
                if step == 3:
                    share = _load(shares + t, head & (t < valid))
                if step > 1:
                    q = share[:, :, None] * q
                if step == 3 or (CAUSAL and PASS == 0):
                    if CAUSAL:  # D = N' / (N' + M)
                        norm = n + (members + tl.cumsum(share, 0)) + 1e-8
                        sums_here = m + (total + tl.cumsum(q, 0))
                        value = x * (-share * norm)[:, :, None] * _inverse(norm[:, :, None] + sums_here)
                    else:
                        value = x * share[:, :, None] * damping
                    if lengths is not None:  # padding is 0 even where a statistic is NaN
                        value = tl.where(t[:, :, None] < valid, value, 0.0)
                        tl.store(shares + t, share, mask=head & (t >= valid) & (t < end))
                    tl.store(y + (b * N + at) * C + c, value.to(y.dtype.element_ty),
                             mask=(t[:, :, None] < end) & exists)
                if CAUSAL and step > 1:
                    total += tl.sum(q, 0, keep_dims=True)
                    members += tl.sum(share, 0, keep_dims=True)
                elif step < 3:
                    total += q
                    if step == 2:
                        members += share
            if step == 1:
                e = tl.sum(total, 0, keep_dims=True)
                tl.store((energy if PASS == 0 else part) + row * C + c, e, mask=exists)
            if step == 2:
                m, n = tl.sum(total, 0, keep_dims=True), tl.sum(members, 0, keep_dims=True)
                if PASS == 2:
                    tl.store(part + row * (C + H) + c, m, mask=exists)
                    tl.store(part + row * (C + H) + C + k, n, mask=head)
                elif CAUSAL:
                    tl.store(after + b * (2 * C + H) + c, e_first + energies, mask=exists)
                    tl.store(after + b * (2 * C + H) + C + c, m_first + m, mask=exists)
                    tl.store(after + b * (2 * C + H) + 2 * C + k, n_first + n, mask=head)
                else:
                    tl.debug_barrier()  # step 3 reads Pi, which other threads have written


@triton.jit(do_not_specialize=["N", "span", "splits"])
def _backward(w, wb, wt, temp, lengths, g, gb, gt, grad_pi, pi, energy, moment, pi_sum, da, dw, pulls, logits, part, N,
              span, splits, H: tl.constexpr, P: tl.constexpr, T: tl.constexpr, H2: tl.constexpr, P2: tl.constexpr,
              PASS: tl.constexpr):
    """PASS 1: G. PASS 2: da, sums of dlogit v^2. PASS 3: dw. PASS 0: all of it. With e = D G / N', dS / N' is D e; the
    product is never formed, because it is too small for float32 where w is large."""
    C: tl.constexpr = H * P
    b, row, begin, end, valid, k, head, c, exists = _program(N, span, splits, lengths, H, P, H2, P2)
    w += b * wb
    g += b * gb
    per_head = (b * H + k) * N
    s = _load(moment + b * C + c, exists)
    norm = _load(pi_sum + b * H + k, head)[:, :, None] + 1e-8
    inverse = _inverse_norm(_load(energy + b * C + c, exists))
    scale = _load(temp + k, head)
    damping = tl.div_rn(1.0, 1.0 + s)
    if PASS > 1:
        pull = _load(pulls + b * C + c, exists)
    if PASS == 3:
        logit = _load(logits + b * C + c, exists)

    for step in tl.static_range(1, 4):
        if PASS == 0 or PASS == step:
            if step > 1:
                e = tl.div_rn(damping * pull, norm)
                spread = tl.sum(damping * s * e, 2)
            if step == 3:  # A clamped norm is a constant, so that nothing flows into it.
                mean = tl.where(inverse < 1e12, logit * scale[:, :, None], 0.0)
            total = tl.zeros([T, H2, P2], tl.float32)
            for first in range(begin, end if step == 3 else valid, T):
                t = first + tl.arange(0, T)[:, None]
                here = head & (t < valid)
                at = t[:, :, None].to(tl.int64)
                there = (t[:, :, None] < valid) & exists
                x, grad = _load(w + at * wt + c, there), _load(g + at * gt + c, there)
                share = _load(pi + per_head + t, here)
                if step == 1:
                    total += grad * x * share[:, :, None]
                if step == 2:
                    dpi = tl.sum(x * damping * (x * e - grad), 2) - spread
                    if grad_pi is not None:
                        dpi += _load(grad_pi + per_head + t, here)
                    dlogit = share * (dpi - tl.sum(share * dpi, 1, keep_dims=True))
                    tl.store(da + per_head + t, dlogit * scale, mask=here)
                    unit = x * inverse
                    total += dlogit[:, :, None] * (unit * unit)
                if step == 3:
                    inner = _load(da + per_head + t, here)[:, :, None] - mean
                    value = share[:, :, None] * damping * (2.0 * x * e - grad) + 2.0 * (x * inverse) * inverse * inner
                    if lengths is not None:
                        value = tl.where(t[:, :, None] < valid, value, 0.0)
                    tl.store(dw + (b * N + at) * C + c, value.to(dw.dtype.element_ty),
                             mask=(t[:, :, None] < end) & exists)
            if step == 1:
                pull = tl.sum(total, 0, keep_dims=True)
                if PASS == 1:
                    tl.store(part + row * C + c, pull, mask=exists)
            if step == 2:
                logit = tl.sum(total, 0, keep_dims=True)
                tl.store((logits if PASS == 0 else part) + row * C + c, logit, mask=exists)
                if PASS == 0:
                    tl.debug_barrier()  # step 3 reads da, which other threads have written


# Causal. A chunk is what the operators' schema keeps sums for; a state is E [C], M [C] and N [H] of a sample.


@triton.jit(do_not_specialize=["chunks", "column"])
def _scan(part, state, after, carry, pi_carry, chunks, column, W, C, H, R: tl.constexpr, K: tl.constexpr):
    """The sums before each chunk and after the last, of part [B, chunks, W]: columns of a state, from `column` on."""
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * K + tl.arange(0, K)[None, :]
    to = column + c
    r = tl.arange(0, R)[:, None]
    total = tl.load(state + b * (2 * C + H) + to, mask=c < W, other=0.0)
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
def _causal_backward(w, wb, wt, temp, g, gb, gt, grad_pi, bias, pi, carry, pi_carry, later, z_later, dpi, da, logits,
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


# Group means. A program takes F features of a head through the tokens, a chunk after another.


@triton.jit
def _join(left, x, u, more, y, v):
    return left * more, x * more + y, u * more + v


@triton.jit(do_not_specialize=["N", "chunks", "ahead"])
def _means(v, vb, vt, pi, scale, rates, x, xb, xt, carry, state, y, after, dpi, grads, N, chunks, ahead, H: tl.constexpr,
           P: tl.constexpr, F: tl.constexpr, CHUNK: tl.constexpr, BACK: tl.constexpr):
    """y = x + scale M r with r = (R + 1e-6)^-1/2. BACK, x is dy and y is dv = pi A, and dpi = A v + 2 pi B: A and B are the
    sums over later tokens of dy scale r and, for each feature, of -dy scale M r^3 / 2, which forget as M and R do."""
    C: tl.constexpr = H * P
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i = tl.program_id(2) * F + tl.arange(0, F)[None, :]
    c, exists = h * P + i, i < P
    r = tl.arange(0, CHUNK)[:, None]
    weight, rate = _load(scale + c, exists), tl.load(rates + h)
    left = tl.zeros([CHUNK, F], tl.float32) + tl.exp(rate)
    m, n = tl.zeros([1, F], tl.float64), tl.zeros([1, F], tl.float64)  # M and R of earlier chunks; BACK: A and B of later
    dscale, drate = tl.zeros([1, F], tl.float64), tl.zeros([1, F], tl.float64)
    if not BACK:
        m += _load(state + (b * H + h) * (P + 1) + i, exists)
        n += tl.load(state + (b * H + h) * (P + 1) + P)

    for step in range(chunks):
        chunk = chunks - 1 - step if BACK else step
        before = carry + ((b * chunks + chunk) * H + h) * (P + 1)
        place = chunk * CHUNK + r
        there = place < N
        t = tl.where(h < ahead, place, N - 1 - place).to(tl.int64)  # the other heads read from the end
        share = _load(pi + (b * N + t) * H + h, there)
        value = _load(v + b * vb + t * vt + c, there & exists)
        given = _load(x + b * xb + t * xt + c, there & exists)
        p, q = share * value, tl.where(exists, share * share, 0.0)
        if BACK:
            m_before, n_before = _load(before + i, exists), tl.load(before + P)
        else:
            m_before, n_before = m.to(tl.float32), n.to(tl.float32)
            tl.store(before + i, m_before, mask=exists)
            tl.store(before + P + 0 * i, n_before, mask=i == 0)
        remains, sums, mass = tl.associative_scan((left, p, q), 0, _join)
        sums += remains * m_before
        mass += remains * n_before
        root = tl.div_rn(1.0, tl.sqrt_rn(mass + 1e-6))
        result = given + weight * sums * root
        if BACK:
            dscale += tl.sum(given * sums * root, 0, keep_dims=True)
            dsums = given * weight * root
            dmass = -0.5 * dsums * sums * root * root
            remains, later, mass_later = tl.associative_scan((left, dsums, dmass), 0, _join, reverse=True)
            later += remains * m.to(tl.float32)
            mass_later += remains * n.to(tl.float32)
            drate += tl.sum(later * (sums - p) + mass_later * (mass - q), 0, keep_dims=True)
            result = share * later
            value = tl.sum(later * value + 2.0 * share * mass_later, 1, keep_dims=True)
            tl.store(dpi + ((b * tl.num_programs(2) + tl.program_id(2)) * N + t) * H + h, value, mask=there)
            p, q = dsums, dmass
        tl.store(y + (b * N + t) * C + c, result.to(y.dtype.element_ty), mask=there & exists)
        tokens = tl.minimum(CHUNK, N - chunk * CHUNK)
        remains = tl.where(there, tl.exp(rate * (r if BACK else tl.maximum(tokens - 1 - r, 0))), 0.0)
        m = m * tl.exp(rate * tokens) + tl.sum(p * remains, 0, keep_dims=True)
        n = n * tl.exp(rate * tokens) + tl.sum(q * remains, 0, keep_dims=True)

    if BACK:
        tl.store(grads + b * C + c, dscale, mask=exists)
        tl.store(grads + (tl.num_programs(0) + b) * C + c, drate, mask=exists)
    else:
        tl.store(after + (b * H + h) * (P + 1) + i, m, mask=exists)
        tl.store(after + (b * H + h) * (P + 1) + P + 0 * i, n, mask=i == 0)


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


def _multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


def _rows(x):
    """The tokens with adjacent channels, and their strides."""
    x = x if x.shape[2] == 1 or x.stride(2) == 1 else x.contiguous()
    return x, x.stride(0), x.stride(1)


def _tokens(w, temp, lengths=None):
    """The constants of a token: heads, their width, both padded; and what all kernels take first."""
    _inputs.check(w, temp, lengths)
    heads, width = temp.shape[0], w.shape[2] // temp.shape[0]
    if not takes(w, temp):
        raise ValueError(
            f"tssa: the Triton kernels do not take {heads} heads of {width} features of {w.dtype}; "
            "tost.ops.tssa runs the plain form for them."
        )
    sizes = dict(H=heads, P=width, H2=_power(heads), P2=_power(width))
    return sizes, (*_rows(w), temp.float().contiguous(), None if lengths is None else lengths.contiguous())


def _gradients(grad_y, grad_pi, w, pi):
    """As the kernels take them: rows of grad_y, of zeros if there is none, and grad_pi or None."""
    grad_y = w.new_zeros(1, 1, w.shape[2]).expand(w.shape) if grad_y is None else grad_y
    _inputs.check_kept("grad_y", grad_y, w, w.shape, w.dtype)
    return *_rows(grad_y), None if grad_pi is None else _inputs.kept("grad_pi", grad_pi, w, *pi.shape)


def _passes(kernel, w, sizes, totals, *arguments):
    """Runs a kernel's passes over the tokens; totals are the sums that the first and the second of them make."""
    batch, tokens, _ = w.shape
    token = sizes["H2"] * sizes["P2"]
    tile = max(1, min(_TILE // token, _power(tokens)))
    tiles, multiprocessors = max(1, triton.cdiv(tokens, tile)), _multiprocessors(w.device)
    programs = 1 if batch >= multiprocessors else triton.cdiv(4 * multiprocessors, max(1, batch))  # of a sample
    span = min(triton.cdiv(tiles, programs), _LONGEST)
    splits = triton.cdiv(tiles, span)
    for index, total in ((0, None),) if splits == 1 else enumerate((*totals, None), 1):
        part = None if total is None else total.new_empty(batch, splits, total.shape[1])
        kernel[(batch * splits,)](*arguments, *totals, part, tokens, span * tile, splits, **sizes, T=tile, PASS=index,
                                  num_warps=max(1, min(16, tile * token // 512)), **_OPTIONS)
        if total is not None:
            torch.sum(part, 1, out=total)


def forward(w, temp, lengths=None):
    (sizes, row), (batch, tokens, channels) = _tokens(w, temp, lengths), w.shape
    pi = w.new_empty(batch, sizes["H"], tokens, dtype=torch.float32)
    y, pi_sum = w.new_empty(w.shape), pi.new_empty(batch, sizes["H"])
    energy, moment = pi.new_empty(batch, channels), pi.new_empty(batch, channels)
    with torch.cuda.device_of(w):
        _passes(_forward, w, dict(sizes, CAUSAL=False), (energy, pi.new_empty(batch, channels + sizes["H"])), *row, None, 0,
                0, None, y, pi, moment, pi_sum, None)
    return y, pi, energy, moment, pi_sum


def backward(grad_y, grad_pi, w, temp, pi, energy, moment, pi_sum, lengths=None):
    (sizes, row), (batch, tokens, channels) = _tokens(w, temp, lengths), w.shape
    pi = _inputs.kept("pi", pi, w, batch, sizes["H"], tokens)
    energy, moment = (_inputs.kept(name, x, w, batch, channels) for name, x in (("energy", energy), ("moment", moment)))
    pi_sum = _inputs.kept("pi_sum", pi_sum, w, batch, sizes["H"])
    dw, logits = w.new_empty(w.shape), torch.empty_like(energy)
    with torch.cuda.device_of(w):
        _passes(_backward, w, sizes, (torch.empty_like(energy), logits), *row, *_gradients(grad_y, grad_pi, w, pi), pi,
                energy, moment, pi_sum, torch.empty_like(pi), dw)
        dtemp = logits.view(-1, sizes["H"], sizes["P"]).sum((0, 2)).unsqueeze(1)
    return dw, dtemp.to(temp.dtype)


def _chunks(kernel, programs, passes, sums, *arguments, **constants):
    """Runs a kernel's passes over chunks: after each that makes sums, which are columns of a state, adds up the chunks'."""
    carry, pi_carry = sums[2:]
    batch, chunks, channels, heads = *carry.shape[:2], carry.shape[2] // 2, pi_carry.shape[2]
    for index, column, width in passes:
        part = carry.new_empty(batch, chunks, width)
        kernel[(programs,)](*arguments, part, **constants, PASS=index, **_OPTIONS)
        if width:
            _scan[(batch, triton.cdiv(width, 32))](part, *sums, chunks, column, width, channels, heads, R=32, K=32, **_OPTIONS)


def causal_forward(w, temp, denom_bias, state, position):
    _inputs.check_causal(w, temp, denom_bias, state, position)
    (sizes, row), (batch, tokens, channels), heads = _tokens(w, temp), w.shape, temp.shape[0]
    chunks = triton.cdiv(tokens, _CHUNK)
    y, pi = w.new_empty(w.shape), w.new_empty(batch, heads, tokens, dtype=torch.float32)
    after = w.new_empty(batch, 2 * channels + heads, dtype=torch.float64)
    state = torch.zeros_like(after) if state is None else state.contiguous()
    carry, pi_carry = pi.new_empty(batch, chunks, 2 * channels), after.new_empty(batch, chunks, heads)
    bias = denom_bias.float().contiguous()
    # A token is one row of all threads where that is possible, so that a thread adds up its tokens by itself.
    token = sizes["H2"] * sizes["P2"]
    warps = max(1, min(16, token // 256))
    elements = min(512 * warps, _TILE) if chunks == 1 else 1024 * warps  # of a tile; a single chunk keeps float64 sums too
    tile = max(1, min(elements // token, _power(tokens), _CHUNK))
    passes = ((0, None, 0),) if chunks == 1 else ((1, 0, channels), (2, channels, channels + heads), (3, None, 0))
    with torch.cuda.device_of(w):
        _chunks(_forward, batch * chunks, passes, (state, after, carry, pi_carry), *row, bias, bias.shape[1], position, state,
                y, pi, None, None, after, carry, pi_carry, N=tokens, span=_CHUNK, splits=chunks, **sizes, T=tile,
                CAUSAL=True, num_warps=warps)
    return y, pi, after, carry, pi_carry


def causal_backward(grad_y, grad_pi, w, temp, denom_bias, position, pi, carry, pi_carry):
    _inputs.check_causal(w, temp, denom_bias, None, position)
    (sizes, (*row, _)), (batch, tokens, channels) = _tokens(w, temp), w.shape
    heads, width, chunks = sizes["H"], sizes["P"], triton.cdiv(tokens, _CHUNK)
    pi = _inputs.kept("pi", pi, w, batch, heads, tokens)
    carry = _inputs.kept("carry", carry, w, batch, chunks, 2 * channels)
    pi_carry = _inputs.kept("pi_carry", pi_carry, w, batch, chunks, heads, dtype=torch.float64)
    dw, dbias = w.new_empty(w.shape), torch.zeros_like(denom_bias, memory_format=torch.contiguous_format)
    bias = denom_bias.float().contiguous()
    logits = pi.new_empty(batch, chunks, heads)
    later, z_later, dpi, da = map(torch.empty_like, (carry, pi_carry, pi, pi))
    features = 16 // w.element_size() if width % 8 == 0 else 4  # what a thread loads at once
    with torch.cuda.device_of(w):
        _chunks(_causal_backward, batch * chunks * heads,
                ((1, channels, channels + heads), (2, None, 0), (3, 0, channels), (4, None, 0)),
                (pi_carry.new_zeros(batch, 2 * channels + heads), None, later, z_later), *row,
                *_gradients(grad_y, grad_pi, w, pi), bias, pi, carry, pi_carry, later, z_later, dpi, da, logits, dw,
                N=tokens, chunks=chunks, L=bias.shape[1], position=position, H=heads, P=width, H2=sizes["H2"], F=features,
                CHUNK=_CHUNK, num_warps=1)
        covered = max(0, min(tokens, bias.shape[1] - position))
        dbias[:, position : position + covered, 0] = (width * da[:, :, :covered].sum(0)).to(dbias.dtype)
        dtemp = logits.sum((0, 1)).unsqueeze(1)
    return dw, dtemp.to(temp.dtype), dbias


def _run_means(x, values, pi, scale, log_rates, from_end, state=None, carry=None):
    """What either direction makes; with the sums `carry` of a forward it is backward, and x the gradient of y."""
    _inputs.check_means(x, values, pi, scale, log_rates, state, from_end)
    (batch, tokens, channels), heads, back = values.shape, pi.shape[2], carry is not None
    width, chunks = channels // heads, triton.cdiv(tokens, _CHUNK)
    features, size = max(4, min(32, _power(width))), min(_CHUNK, max(16, _power(tokens)))
    blocks = triton.cdiv(width, features)
    after = pi.new_empty(batch, heads, width + 1, dtype=torch.float32)
    state = torch.zeros_like(after) if state is None else state.contiguous()
    sizes = batch, chunks, heads, width + 1
    carry = _inputs.kept("carry", carry, values, *sizes) if back else after.new_empty(sizes)
    y = (values if back else x).new_empty(values.shape)
    dpi, grads = after.new_empty(batch, blocks if back else 0, tokens, heads), after.new_empty(2, batch, channels)
    rates = after.new_zeros(heads) if log_rates is None else log_rates.float()
    with torch.cuda.device_of(values):
        _means[(batch, heads, blocks)](
            *_rows(values), pi.contiguous(), scale.float().contiguous(), rates.contiguous(), *_rows(x), carry, state, y,
            after, dpi, grads, tokens, chunks, heads - from_end, heads, width, features, size, BACK=back,
            num_warps=max(1, size * features // 256), **_OPTIONS)
    return y, after, carry, dpi, grads


def means_forward(base, values, pi, scale, log_rates, state, from_end):
    return _run_means(base, values, pi, scale, log_rates, from_end, state)[:3]


def means_backward(grad_y, values, pi, scale, log_rates, from_end, carry):
    dv, _, _, dpi, grads = _run_means(grad_y, values, pi, scale, log_rates, from_end, carry=carry)
    dscale, drates = grads.sum(1)
    return dv, dpi.sum(1).to(pi.dtype), dscale.to(scale.dtype), drates.unflatten(0, (pi.shape[2], -1)).sum(1)


KERNELS = dict(tssa_forward=forward, tssa_backward=backward, tssa_causal_forward=causal_forward,
               tssa_causal_backward=causal_backward, means_forward=means_forward, means_backward=means_backward)
