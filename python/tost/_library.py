"""Finds the operators torch.ops.tost, or registers those of tost._C: shapes, gradients, second gradients.

A process has them once. Where libtost_torch.so, the library of the C++ build, was loaded first, its operators are used.
"""

import importlib
import importlib.util
import os
import re
import sys
import warnings

import torch

from . import _inputs, plain

_CHUNK = 64  # tokens between two sums that the causal backward starts from

# Those of tost/ops/schemas.h, for a package without its extension.
_SCHEMAS = (
    "tssa(Tensor w, Tensor temp, Tensor? lengths=None) -> (Tensor y, Tensor pi)",
    "tssa_forward(Tensor w, Tensor temp, Tensor? lengths=None) -> "
    "(Tensor y, Tensor pi, Tensor energy, Tensor moment, Tensor pi_sum)",
    "tssa_backward(Tensor? grad_y, Tensor? grad_pi, Tensor w, Tensor temp, Tensor pi, Tensor energy, Tensor moment, "
    "Tensor pi_sum, Tensor? lengths=None) -> (Tensor grad_w, Tensor grad_temp)",
    "tssa_causal(Tensor w, Tensor temp, Tensor denom_bias, Tensor? state=None, SymInt position=0) "
    "-> (Tensor y, Tensor pi, Tensor state)",
    "tssa_causal_forward(Tensor w, Tensor temp, Tensor denom_bias, Tensor? state, SymInt position) "
    "-> (Tensor y, Tensor pi, Tensor state, Tensor carry, Tensor pi_carry)",
    "tssa_causal_backward(Tensor? grad_y, Tensor? grad_pi, Tensor w, Tensor temp, Tensor denom_bias, SymInt position, "
    "Tensor pi, Tensor carry, Tensor pi_carry) -> (Tensor grad_w, Tensor grad_temp, Tensor grad_denom_bias)",
)
_NAMES = [schema.partition("(")[0] for schema in _SCHEMAS]


def _like(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _floats(w, *sizes):
    return w.new_empty(sizes, dtype=torch.float32)


def _fake_forward(w, temp, lengths=None):
    _inputs.check(w, temp, lengths)
    batch, tokens, channels = w.shape
    heads = temp.shape[0]
    return (_like(w), _floats(w, batch, heads, tokens), _floats(w, batch, channels), _floats(w, batch, channels),
            _floats(w, batch, heads))


def _fake_backward(grad_y, grad_pi, w, temp, pi, energy, moment, pi_sum, lengths=None):
    return _like(w), _like(temp)


def _fake_causal_forward(w, temp, denom_bias, state, position):
    _inputs.check_causal(w, temp, denom_bias, state, position)
    batch, tokens, channels = w.shape
    heads = temp.shape[0]
    chunks = (tokens + _CHUNK - 1) // _CHUNK
    return (_like(w), _floats(w, batch, heads, tokens), w.new_empty((batch, 2 * channels + heads), dtype=torch.float64),
            _floats(w, batch, chunks, 2 * channels), w.new_empty((batch, chunks, heads), dtype=torch.float64))


def _fake_causal_backward(grad_y, grad_pi, w, temp, denom_bias, position, pi, carry, pi_carry):
    return _like(w), _like(temp), _like(denom_bias)


def differentiable(outputs, grads, inputs):
    """Gradients of the plain form that can be differentiated again."""
    used = [(y, g) for y, g in zip(outputs, grads) if g is not None]
    wanted = [x for x in inputs if x is not None and x.requires_grad]
    ys, gs = zip(*used)
    found = iter(torch.autograd.grad(ys, wanted, gs, create_graph=True, allow_unused=True))
    return [next(found) if x is not None and x.requires_grad else None for x in inputs]


def _setup(ctx, inputs, output):
    w, temp, lengths = inputs
    _, pi, *statistics = output
    ctx.mark_non_differentiable(*statistics)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(w, temp, lengths, pi, *statistics)


def _backward(ctx, grad_y, grad_pi, *_):
    w, temp, lengths, *kept = ctx.saved_tensors
    if grad_y is None and grad_pi is None:
        return None, None, None
    if torch.is_grad_enabled():
        return (*differentiable(plain.tssa(w, temp, lengths), (grad_y, grad_pi), (w, temp)), None)
    return (*torch.ops.tost.tssa_backward(grad_y, grad_pi, w, temp, *kept, lengths), None)


def _causal_setup(ctx, inputs, output):
    w, temp, denom_bias, state, ctx.position = inputs
    _, pi, after, *carries = output
    ctx.mark_non_differentiable(after, *carries)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(w, temp, denom_bias, state, pi, *carries)


def _causal_backward(ctx, grad_y, grad_pi, *_):
    w, temp, denom_bias, state, *kept = ctx.saved_tensors
    if grad_y is None and grad_pi is None:
        return (None,) * 5
    if torch.is_grad_enabled():
        outputs = plain.tssa_causal(w, temp, denom_bias, state, ctx.position)
        return (*differentiable(outputs[:2], (grad_y, grad_pi), (w, temp, denom_bias)), None, None)
    found = torch.ops.tost.tssa_causal_backward(grad_y, grad_pi, w, temp, denom_bias, ctx.position, *kept)
    return (*found, None, None)


def _tssa(w, temp, lengths=None):
    return torch.ops.tost.tssa_forward(w, temp, lengths)[:2]


def _tssa_causal(w, temp, denom_bias, state=None, position=0):
    return torch.ops.tost.tssa_causal_forward(w, temp, denom_bias, state, position)[:3]


def _register():
    library = torch.library.Library("tost", "FRAGMENT")
    for name, fake in (("tssa_forward", _fake_forward), ("tssa_backward", _fake_backward),
                       ("tssa_causal_forward", _fake_causal_forward), ("tssa_causal_backward", _fake_causal_backward)):
        torch.library.register_fake(f"tost::{name}", fake, lib=library)
    torch.library.register_autograd("tost::tssa_forward", _backward, setup_context=_setup, lib=library)
    torch.library.register_autograd("tost::tssa_causal_forward", _causal_backward, setup_context=_causal_setup, lib=library)
    library.impl("tssa", _tssa, "CompositeImplicitAutograd")
    library.impl("tssa_causal", _tssa_causal, "CompositeImplicitAutograd")
    return library


def _load():
    """What keeps the registrations alive, or why there are no operators, or None where they were there before."""
    version = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if version and tuple(map(int, version.groups())) < (2, 11):
        return ImportError(f"the kernels need torch 2.11 or newer, and this is torch {torch.__version__}")
    present = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("tost::")}
    missing = [name for name in _NAMES if f"tost::{name}" not in present]
    if present and not missing:
        return None
    if importlib.util.find_spec("tost._C") is None:
        return ImportError("this installation has no kernels")
    try:
        if present:
            raise ImportError(f"another library has registered torch.ops.tost without the operator {missing[0]}; "
                              "load this package and that library in different processes")
        importlib.import_module("tost._C")
        return _register()
    except Exception as error:  # whatever it is, the plain form runs
        warnings.warn(f"tost: the kernels cannot be loaded, so torch's own operators run, which is slower: {error}")
        return error


_loaded = _load()


def available():
    """Whether there are kernels; otherwise everything runs in the plain form."""
    return not isinstance(_loaded, Exception)


# Asked once: compilers cannot follow the question.
_devices = {"cpu", "meta"} if available() else set()
_limits = {}  # by type of device: whether the kernels take these inputs
_kept = []  # registrations, which last as long as these objects


def add_triton(key="CUDA"):
    """Registers the Triton kernels (tost._triton) for a dispatch key."""
    import triton

    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 6):
        raise ImportError(f"they need Triton 3.6 or newer, and this is {triton.__version__}")
    from . import _triton

    library = torch.library.Library("tost", "FRAGMENT")
    _kept.append(library)
    if not available():
        for schema in _SCHEMAS:
            library.define(schema)
        _kept.append(_register())
    for name, kernel in _triton.KERNELS.items():
        library.impl(name, kernel, key)
    for name, composite in (("tssa", _tssa), ("tssa_causal", _tssa_causal)):  # those of the C++ library are not
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"tost::{name}", "CompositeImplicitAutograd"):
            library.impl(name, composite, key)
    _devices.update((key.lower(), "meta"))
    _limits[key.lower()] = _triton.takes


def _try_triton():
    """Why the Triton kernels do not run on a GPU, or None where they do."""
    if not torch.cuda.is_available() or runs_on(torch.device("cuda")):
        return "no GPU needs them"
    if os.environ.get("TOST_TRITON") != "1":
        return "TOST_TRITON=1 would use the Triton kernels, which no GPU has run yet"
    try:
        add_triton()
    except Exception as error:  # whatever it is, the plain form runs
        warnings.warn(f"tost: the Triton kernels cannot be loaded, so torch's own operators run on GPUs: {error}")
        return f"the Triton kernels cannot be loaded: {error}"
    return None


def takes(w, temp):
    """Whether the kernels of w's device, if there are any, take these inputs."""
    limit = _limits.get(w.device.type)
    if limit is None or limit(w, temp):
        return True
    if not torch.compiler.is_compiling():
        warnings.warn(f"tost: the plain form runs for {temp.shape[0]} heads of {w.shape[2]} channels, which is slower")
    return False


def why_plain():
    """Why everything runs in the plain form, or None where there are kernels."""
    return None if available() else str(_loaded)


def instruction_set():
    """What the CPU's kernels use."""
    kernels = sys.modules.get("tost._C")
    return kernels.isa() if kernels else "fused"  # of the C++ library


def runs_triton(device):
    """Whether they are those of Triton."""
    return device.type in _limits


def runs_on(device):
    """Whether the operators have a kernel for this device."""
    return device.type in _devices


def runs_delta(device):
    """The same of the delta rule, which the C++ library does not register."""
    return device.type == "cpu" and hasattr(torch.ops.tost, "delta_forward")


why_no_triton = _try_triton()
