"""What the operators demand of their inputs."""

import torch

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def _tensor(name, x, operator="tssa"):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{operator}: {name} must be a tensor, but is {type(x).__name__}.")
    if x.is_nested or x.layout != torch.strided:
        raise TypeError(f"{operator}: {name} must be a dense tensor, but is {'nested' if x.is_nested else x.layout}.")


def _beside(w, name, x, first="tssa: w"):
    if x.device != w.device:
        raise ValueError(f"{first} is on {w.device} but {name} on {x.device}; move one of them.")


def _parameter(name, x, operator="tssa", sizes=None):
    _tensor(name, x, operator)
    if sizes is not None and x.dim() != sizes.count(",") + 1:
        raise ValueError(f"{operator}: {name} must be [{sizes}], but has {x.dim()} dimensions.")
    if not x.is_floating_point():
        raise TypeError(f"{operator}: {name} must be of a floating-point dtype, but is {x.dtype}.")


def check(w, temp, lengths=None):
    _tensor("w", w)
    _parameter("temp", temp)
    if w.dim() != 3:
        raise ValueError(f"tssa: w must be [batch, tokens, channels], but has {w.dim()} dimensions.")
    if w.dtype not in _DTYPES:
        raise TypeError(f"tssa: w must be float32, bfloat16, float16 or float64, but is {w.dtype}.")
    if temp.dim() != 2 or temp.shape[1] != 1:
        raise ValueError(f"tssa: temp must be [heads, 1], but is {list(temp.shape)}.")
    _beside(w, "temp", temp)
    heads, channels = temp.shape[0], w.shape[2]
    if heads < 1 or channels < 1 or channels % heads != 0:
        raise ValueError(f"tssa: the {channels} channels of w cannot be split over {heads} heads; "
                         "choose a number of heads that divides the channels.")
    if lengths is not None:
        _tensor("lengths", lengths)
        if lengths.dim() != 1 or lengths.shape[0] != w.shape[0]:
            raise ValueError(f"tssa: lengths must be [batch] = [{w.shape[0]}], but is {list(lengths.shape)}.")
        if lengths.dtype != torch.int64:
            raise TypeError(f"tssa: lengths must be int64, but is {lengths.dtype}.")
        _beside(w, "lengths", lengths)


def check_kept(name, x, w, sizes, dtype):
    """That x, which a forward kept or a gradient, is as a kernel reads it."""
    if x.shape != sizes or x.dtype != dtype or x.device != w.device:
        raise ValueError(f"tssa: {name} must be {list(sizes)} of {dtype} on {w.device}, but is {list(x.shape)} of {x.dtype}.")


def kept(name, x, w, *sizes, dtype=torch.float32):
    check_kept(name, x, w, sizes, dtype)
    return x.contiguous()


def check_range(lengths, tokens):
    """That lengths on the CPU fit; on other devices the answer would have to be waited for, and tracers have none."""
    if type(lengths) is not torch.Tensor or lengths.device.type != "cpu":
        return
    for i, length in enumerate(lengths.tolist()):
        if not 0 <= length <= tokens:
            raise ValueError(f"tssa: lengths[{i}] is {length}; it must be from 0 to the {tokens} tokens of w.")


def check_causal(w, temp, denom_bias, state=None, position=0):
    check(w, temp)
    heads = temp.shape[0]
    _parameter("denom_bias", denom_bias)
    if denom_bias.dim() != 3 or denom_bias.shape[0] != heads or denom_bias.shape[2] != 1:
        raise ValueError(f"tssa: denom_bias must be [heads, positions, 1] with {heads} heads, but is {list(denom_bias.shape)}.")
    _beside(w, "denom_bias", denom_bias)
    if isinstance(position, bool) or not isinstance(position, (int, torch.SymInt)):
        raise TypeError(f"tssa: position must be an integer, but is {position!r:.60}.")
    if position < 0:
        raise ValueError(f"tssa: position is {position}; it counts the tokens before w.")
    _fit("tssa", "w", w, state=(state, w.shape[0], 2 * w.shape[2] + heads))
    if state is not None and state.dtype != torch.float64:
        raise TypeError(f"tssa: state must be float64, but is {state.dtype}.")


def _fit(operator, first_name, first, **given):
    """That tensors, each with its sizes, are of these and on the device of the first; some may be None."""
    for name, (x, *sizes) in given.items():
        if x is not None or name not in ("g", "initial_state", "log_rates", "state"):
            _parameter(name, x, operator)
            _beside(first, name, x, f"{operator}: {first_name}")
            if list(x.shape) != sizes:
                raise ValueError(f"{operator}: {name} must be {sizes}, but is {list(x.shape)}.")


def check_delta(q, k, v, beta, g, state):
    for name, x in (("q", q), ("v", v)):
        _parameter(name, x, "delta_rule", "batch, tokens, heads, width")
    (batch, tokens, heads, keys), (values, width) = q.shape, v.shape[2:]
    if heads < 1 or values % heads != 0:
        raise ValueError(f"delta_rule: the {values} heads of v must be a multiple of the {heads} heads of q and k.")
    a_head = (batch, tokens, values)
    _fit("delta_rule", "q", q, k=(k, *q.shape), v=(v, *a_head, width), beta=(beta, *a_head), g=(g, *a_head),
         initial_state=(state, batch, values, keys, width))


def check_means(base, values, pi, scale, log_rates, state, from_end):
    _parameter("values", values, "group_means", "batch, tokens, channels")
    _parameter("pi", pi, "group_means", "batch, tokens, heads")
    (batch, tokens, channels), heads = values.shape, pi.shape[2]
    if heads < 1 or channels < 1 or channels % heads != 0:
        raise ValueError(f"group_means: the {channels} channels of values cannot be split over the {heads} heads of pi.")
    _fit("group_means", "values", values, base=(base, *values.shape), pi=(pi, batch, tokens, heads), scale=(scale, channels),
         log_rates=(log_rates, heads), state=(state, batch, heads, channels // heads + 1))
    if not 0 <= from_end <= heads or (from_end and state is not None):
        raise ValueError(f"group_means: from_end is {from_end}; it counts heads, of {heads}, and is 0 where there is a state.")
