"""`python -m tost.selftest`: what the operators compute on this machine, against float64; ends with 1 where one deviates.

`tost.selftest()` calls this module. Each operator, dtype and path: values and gradients, and its time relative to the plain form in the same run.
"""

import argparse
import functools
import platform
import sys
import timeit

import torch

from . import _library, ops, plain

_SETS = {"avx512": "AVX-512", "avx2": "AVX2", "neon": "NEON"}
_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float64: 2.0**-53}


def info():
    """Versions, devices and the path of the operators on each, in a few lines."""
    from . import __version__

    why = _library.why_plain()
    lines = [f"tost {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {platform.platform()}"]
    lines.append(f"cpu: {path('cpu')}" + (f" ({why})" if why else f" kernels, {torch.get_num_threads()} threads"))
    if torch.cuda.is_available():
        why = f" ({_library.why_no_triton})" if path("cuda") == "plain form" else ""
        lines.append(f"cuda: {torch.cuda.get_device_name()}: {path('cuda')}{why}")
    return "\n".join(lines)


def path(device):
    """What runs on this type of device: Triton, kernels by their instruction set, "fused" of the C++ library, the plain form."""
    device = torch.device(device)
    if not _library.runs_on(device):
        return "plain form"
    isa = "Triton" if _library.runs_triton(device) else _library.instruction_set() if device.type == "cpu" else "fused"
    return _SETS.get(isa, isa)


def _cases(device, dtype):
    """Names, the operator, its plain form and the inputs."""
    generator = torch.Generator().manual_seed(0)

    def random(*sizes):
        return torch.randn(sizes, generator=generator).to(device, dtype)

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    w, temp = random(2, 67, 48), torch.linspace(0.5, 2, 4).unsqueeze(1).to(device, wide)
    lengths, bias = torch.tensor([67, 31], device=device), 0.1 * torch.randn(4, 40, 1, generator=generator).to(device, wide)
    state = plain.tssa_causal(w.double(), temp, bias)[2]
    yield "tssa", ops.tssa, plain.tssa, (w, temp), ()
    yield "tssa, padded", ops.tssa, plain.tssa, (w, temp), (lengths,)
    yield "tssa, large values", ops.tssa, plain.tssa, (w * 100, temp), ()
    yield "tssa_causal", ops.tssa_causal, plain.tssa_causal, (w, temp, bias), ()
    yield "tssa_causal, chunk", ops.tssa_causal, plain.tssa_causal, (w[:, :9], temp, bias), (state, 67)
    yield "tssa_causal, token", ops.tssa_causal, plain.tssa_causal, (w[:, :1], temp, bias), (state, 30)
    means = (w, random(2, 67, 48), random(2, 67, 4).float().softmax(2).to(dtype), random(48), -random(4).abs())
    yield "group_means", ops.group_means, plain.group_means, means, ()
    yield "group_means, from the end", ops.group_means, plain.group_means, means, (None, 2)
    q, k, v = torch.randn(3, 2, 67, 3, 24, generator=generator)
    q, k = (torch.nn.functional.normalize(x, dim=3) for x in (q, k))
    given = [x.to(device, dtype) for x in (q, k, v[..., :17], v[..., 17].sigmoid(), -v[..., 18].square())]
    rule, definition = (functools.partial(form, scale=0.2) for form in (ops.delta_rule, plain.delta_rule))
    yield "delta_rule", rule, definition, given, ()
    yield "delta_rule, token", rule, definition, [*(x[:, :1] for x in given), random(2, 3, 24, 17)], ()


def _results(function, inputs, more):
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y = function(*inputs, *more)[0]
    weights = torch.linspace(-1, 1, y.numel(), device=y.device).view(y.shape)
    return [y.detach(), *torch.autograd.grad((y.double() * weights).sum(), inputs)]


def _deviation(found, exact):
    worst = max(float((a.double() - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in zip(found, exact))
    return worst if worst == worst else float("inf")


def _seconds(function, inputs, more):  # reading a number waits for the device
    return min(timeit.repeat(lambda: float(_results(function, inputs, more)[0].flatten()[0]), repeat=5, number=1))


def selftest(device="cpu", out=sys.stdout):
    """Prints a row for each case; returns whether all are within a small multiple of the dtype's rounding."""
    print(info(), file=out)
    print(f"{'operator':25} {'dtype':9} {'path':14} {'deviation':>10} {'plain form':>10}   time / plain form", file=out)
    good = True
    for dtype in _DTYPES:
        for name, operator, definition, inputs, more in _cases(device, dtype):
            exact = _results(definition, [x.double() for x in inputs], more)
            reference = _deviation(_results(definition, inputs, more), exact)
            found = _deviation(_results(operator, inputs, more), exact)
            fits = found <= 4 * reference + 16 * _UNITS[dtype]
            good &= fits
            ratio = _seconds(operator, inputs, more) / _seconds(definition, inputs, more)
            kernels = _library.runs_on(torch.device(device), name.partition(",")[0])
            where = path(device) if kernels and dtype != torch.float64 else "plain form"
            row = f"{name:25} {str(dtype)[6:]:9} {where:14} {found:10.1e} {reference:10.1e}   {ratio:.2f}"
            print(row + ("" if fits else "   DEVIATES"), file=out)
    print("all within bounds" if good else "some deviate: do not trust the operators here", file=out)
    return good


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tost.selftest", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or another device of torch")
    options = parser.parse_args(arguments)
    try:
        torch.empty(0, device=options.device)
    except (RuntimeError, AssertionError) as error:
        print(f"tost.selftest: there is no device '{options.device}' here: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    return 0 if selftest(options.device) else 1


sys.modules[__name__].__class__ = type("Callable", (type(sys),), {"__call__": lambda _, *given, **named: selftest(*given, **named)})

if __name__ == "__main__":
    sys.exit(main())
