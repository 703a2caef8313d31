"""`python -m tost.export MODEL OUT.onnx`: a model as ONNX (opset 17), for runtimes without torch.

Pictures: `images` [batch, channels, side, side] -> `logits`, and with --memberships Π of every layer. Texts: `ids`
[batch, tokens], `position` (tokens read before) and the state of every layer, zeros at first -> `logits` and the new
state, which the next call takes; its size does not depend on the number of tokens. No custom operator. Guards are chosen
so that a graph converted to float16 does not divide by zero.
"""

import argparse
import inspect
import pathlib
import sys
import warnings

import torch

from . import models
from ._files import need, text
from .convert import UsageError, check_new, run_command, written_whole
from .nn import TSSA

OPSET = 17


class _Memberships(torch.nn.Module):
    """Logits and the memberships of every layer."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        found = []
        x, (rows, columns) = self.model.embed(images)
        for block in self.model.blocks:
            y, pi = block.attn(block.norm1(x), return_memberships=True)
            found.append(pi)
            x = x + block.gamma1 * y
            x = x + block.gamma2 * block.mlp(block.norm2(x))
        cls = self.model.attend_class(x[:, : rows * columns])[:, 0]
        return (self.model.head(self.model.norm(cls)), *found)


class _Stream(torch.nn.Module):
    """A language model whose states are single inputs and outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.names = [[*state] for state in model.empty_state()]

    def forward(self, ids, position, *flat):
        values = iter(flat)
        states = [{name: next(values) for name in names} for names in self.names]
        logits, after = self.model(ids, states, position)
        return (logits, *(new[name] for new, names in zip(after, self.names) for name in names))


def _make_traceable(model):
    """Replaces what a trace would get wrong: the loop over tokens of the delta rule, and QR, which ONNX lacks."""
    models.delta_rule = torch.jit.script(models.delta_rule)
    for module in model.modules():
        if isinstance(module, models.TiedTssa):
            module.register_buffer("fixed", module.subspaces().transpose(0, 1).flatten(1).detach(), persistent=False)


def _picture_graph(model, memberships):
    c = model.config
    outputs = ["logits"]
    module = model
    if memberships:
        need(all(isinstance(block.attn, TSSA) for block in model.blocks),
             f"Memberships are those of the mixer tssa, and this model has '{c['mixer']}'.", UsageError)
        module = _Memberships(model)
        outputs += [f"membership_{i}" for i in range(1, c["depth"] + 1)]
    example = (torch.zeros(2, c["in_channels"], c["image_size"], c["image_size"]),)
    return module, example, ["images"], outputs, {name: {0: "batch"} for name in ("images", *outputs)}


def _text_graph(model):
    module = _Stream(model)
    state = model.empty_state(2)
    names = [f"{i}_{name}" for i, part in enumerate(state, 1) for name in part]
    example = (torch.zeros(2, 3, dtype=torch.int64), torch.tensor(0), *(t for part in state for t in part.values()))
    inputs = ["ids", "position", *(f"state_{name}" for name in names)]
    outputs = ["logits", *(f"new_state_{name}" for name in names)]
    axes = {name: {0: "batch"} for name in (*inputs, *outputs) if name != "position"}
    for name in ("ids", "logits"):
        axes[name] = {0: "batch", 1: "tokens"}
    return module, example, inputs, outputs, axes


def export(source, out, ema=False, memberships=False):
    """Writes the model `source` as the ONNX file `out`, whole or not at all; returns a report as a dictionary."""
    import onnx

    out = pathlib.Path(out)
    need(out.suffix.lower() == ".onnx", f"'{out}' does not end in .onnx, as ONNX files do.", UsageError)
    check_new(out)
    model = models.load(source, ema)
    kind = "vision" if isinstance(model, models.PictureModel) else "language"
    need(not memberships or kind == "vision", "--memberships is for image models, and this is a language model.", UsageError)
    module, example, inputs, outputs, axes = _picture_graph(model, memberships) if kind == "vision" else _text_graph(model)
    dynamo = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    with written_whole(out) as part:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tracer: the tests check the sizes that it takes as constants
            _make_traceable(model)
            torch.onnx.export(module.eval(), example, str(part), input_names=inputs, output_names=outputs,
                              dynamic_axes=axes, opset_version=OPSET, **dynamo)
        graph = onnx.load(part)
        if kind == "language" and all(value.name != "position" for value in graph.graph.input):  # models that ignore it
            graph.graph.input.insert(1, onnx.helper.make_tensor_value_info("position", onnx.TensorProto.INT64, []))
        for key, value in model.description.items():
            entry = graph.metadata_props.add()
            entry.key, entry.value = f"tost.{key}", text(value)
        onnx.save(graph, part)
    return {"kind": kind, "file": str(out), "format": "onnx", "opset": OPSET, "nodes": len(graph.graph.node),
            "bytes": out.stat().st_size}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m tost.export", formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument("source", metavar="MODEL", help="run folder, checkpoint or model file")
    parser.add_argument("out", metavar="OUT", help="ONNX file to write; must not exist")
    parser.add_argument("--memberships", action="store_true", help="of image models: also the memberships of each layer")
    parser.add_argument("--ema", action="store_true", help="the averaged weights")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return run_command("tost.export", export, vars(parser.parse_args(arguments)), "ONNX opset {opset}, {nodes} nodes")


if __name__ == "__main__":
    sys.exit(main())
