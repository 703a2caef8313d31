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
# Of this package alone: the C++ library does not register them.
_MEANS = (
    "means_forward(Tensor base, Tensor values, Tensor pi, Tensor scale, Tensor? log_rates, Tensor? state, int from_end) "
    "-> (Tensor y, Tensor state, Tensor carry)",
    "means_backward(Tensor grad_y, Tensor values, Tensor pi, Tensor scale, Tensor? log_rates, int from_end, Tensor carry) "
    "-> (Tensor grad_values, Tensor grad_pi, Tensor grad_scale, Tensor grad_log_rates)",
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


def _fake_causal_forward(w, temp, denom_bias, state, position):
    _inputs.check_causal(w, temp, denom_bias, state, position)
    batch, tokens, channels = w.shape
    heads = temp.shape[0]
    chunks = (tokens + _CHUNK - 1) // _CHUNK
    return (_like(w), _floats(w, batch, heads, tokens), w.new_empty((batch, 2 * channels + heads), dtype=torch.float64),
            _floats(w, batch, chunks, 2 * channels), w.new_empty((batch, chunks, heads), dtype=torch.float64))


def _fake_means_forward(base, values, pi, scale, log_rates, state, from_end):
    _inputs.check_means(base, values, pi, scale, log_rates, state, from_end)
    (batch, tokens, channels), heads = values.shape, pi.shape[2]
    sizes = (heads, channels // heads + 1)
    return _like(base), _floats(values, batch, *sizes), _floats(values, batch, (tokens + _CHUNK - 1) // _CHUNK, *sizes)


def differentiable(outputs, grads, inputs):
    """Gradients of the plain form that can be differentiated again."""
    used = [(y, g) for y, g in zip(outputs, grads) if g is not None]
    wanted = [x for x in inputs if x is not None and x.requires_grad]
    ys, gs = zip(*used)
    found = iter(torch.autograd.grad(ys, wanted, gs, create_graph=True, allow_unused=True))
    return [next(found) if x is not None and x.requires_grad else None for x in inputs]


def _derive(library, name, definition, tensors, leaves, results, gradients):
    """Registers gradients of an operator, of the first of its inputs, the tensors before numbers, through its first results:
    those of the plain form where they are to be differentiated again, else gradients(grads, inputs, other outputs)."""

    def setup(ctx, inputs, output):
        ctx.mark_non_differentiable(*output[results:])
        ctx.set_materialize_grads(False)
        ctx.numbers = inputs[tensors:]
        ctx.save_for_backward(*inputs[:tensors], *output[1:])

    def backward(ctx, *grads):
        saved, grads = ctx.saved_tensors, grads[:results]
        inputs = (*saved[:tensors], *ctx.numbers)
        if all(g is None for g in grads):
            return (None,) * len(inputs)
        again = torch.is_grad_enabled()
        found = differentiable(definition(*inputs), grads, inputs[:leaves]) if again else gradients(grads, inputs, saved[tensors:])
        return (*found, *(None,) * (len(inputs) - leaves))

    torch.library.register_autograd(f"tost::{name}", backward, setup_context=setup, lib=library)


def _gradients(grads, inputs, kept):
    w, temp, lengths = inputs
    return torch.ops.tost.tssa_backward(*grads, w, temp, *kept, lengths)


def _causal_gradients(grads, inputs, kept):
    w, temp, denom_bias, _, position = inputs
    pi, _, *carries = kept
    return torch.ops.tost.tssa_causal_backward(*grads, w, temp, denom_bias, position, pi, *carries)


def _means_gradients(grads, inputs, kept):
    _, *given, rates, _, from_end = inputs
    *found, of_rates = torch.ops.tost.means_backward(*grads, *given, rates, from_end, kept[1])
    return *grads, *found, None if rates is None else of_rates.to(rates.dtype)


def _delta_gradients(grads, inputs, kept):
    *given, _, scale, _ = inputs
    grad_o = torch.zeros_like(given[2]) if grads[0] is None else grads[0]
    found = torch.ops.tost.delta_backward(grad_o, grads[1], *given, scale, kept[1])
    return (None if x is None else grad.to(x.dtype) for x, grad in zip(inputs, found))


_COMPOSITES = dict(
    tssa=lambda w, temp, lengths=None: torch.ops.tost.tssa_forward(w, temp, lengths)[:2],
    tssa_causal=lambda w, temp, denom_bias, state=None, position=0:
        torch.ops.tost.tssa_causal_forward(w, temp, denom_bias, state, position)[:3])


def _register():
    library = torch.library.Library("tost", "FRAGMENT")
    for name, fake in dict(tssa_forward=_fake_forward, tssa_causal_forward=_fake_causal_forward,
                           tssa_backward=lambda grad_y, grad_pi, *given: tuple(map(_like, given[:2])),
                           tssa_causal_backward=lambda grad_y, grad_pi, *given: tuple(map(_like, given[:3]))).items():
        torch.library.register_fake(f"tost::{name}", fake, lib=library)
    _derive(library, "tssa_forward", plain.tssa, 3, 2, 2, _gradients)
    _derive(library, "tssa_causal_forward", plain.tssa_causal, 4, 3, 2, _causal_gradients)
    for name, composite in _COMPOSITES.items():
        library.impl(name, composite, "CompositeImplicitAutograd")
    return _register_means(library)


def _register_means(library):
    torch.library.register_fake("tost::means_forward", _fake_means_forward, lib=library)
    torch.library.register_fake("tost::means_backward", lambda grad_y, *given: (
        *map(_like, given[:3]), _floats(given[0], given[1].shape[2])), lib=library)
    _derive(library, "means_forward", plain.group_means, 6, 5, 1, _means_gradients)
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
        library = _register()
        _derive(library, "delta_forward", lambda *inputs: plain.delta_rule(*inputs[:-1]), 6, 6, 2, _delta_gradients)
        return library
    except Exception as error:  # whatever it is, the plain form runs
        warnings.warn(f"tost: the kernels cannot be loaded, so torch's own operators run, which is slower: {error}")
        return error


_loaded = _load()


def available():
    """Whether there are kernels; otherwise everything runs in the plain form."""
    return not isinstance(_loaded, Exception)


# Asked once: compilers cannot follow the question.
_devices = {"cpu", "meta"} if available() else set()
_means = {"cpu"} if available() and "tost._C" in sys.modules else set()
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
    if not _means:
        for schema in _MEANS if available() else _SCHEMAS + _MEANS:
            library.define(schema)
        _kept.append(_register_means(library) if available() else _register())
    for name, kernel in _triton.KERNELS.items():
        library.impl(name, kernel, key)
    for name, composite in _COMPOSITES.items():  # those of the C++ library are not
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"tost::{name}", "CompositeImplicitAutograd"):
            library.impl(name, composite, key)
    _means.add(key.lower())
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


def runs_on(device, operator="tssa"):
    """Whether an operator has a kernel for this device. The C++ library has none for the last two."""
    if operator == "delta_rule":
        return device.type == "cpu" and hasattr(torch.ops.tost, "delta_forward")
    return device.type in (_means if operator == "group_means" else _devices)


why_no_triton = _try_triton()
