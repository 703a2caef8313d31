"""`python -m tost.convert IN OUT`: a model in another checkpoint layout, there and back bit for bit.

Weights are moved as they are unless a smaller type, another size or folded scales are asked for. What a layout has no
place for (classes, preprocessing, tokenizer, training) is written as a text that other readers ignore. Files of
torch.save() are read with weights_only, so nothing in them is run.

layouts  tost      one safetensors file that describes itself
         official  .pth or .pt of the official training scripts; nanoGPT reads the language one without LayerScale
         hub       folder: README.md, config.json, model.safetensors, and the tokenizer's or preprocessor's files
         timm      folder: config.json with architecture and pretrained_cfg, model.safetensors; image models
         nanogpt   .pt for nanoGPT: softmax language models, LayerScale folded into the projections
         gpt2      folder for transformers' GPT2LMHeadModel: the same models, with biases
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import pickle
import re
import shutil
import sys

import torch

from . import _files, _tokens
from ._files import need

LAYOUTS = ("tost", "official", "hub", "timm", "nanogpt", "gpt2")
_FOLDERS = ("hub", "timm", "gpt2")
_DTYPES = ("float32", "bfloat16", "float16")
_HUB_SETTINGS = ("mixer", "dim", "depth", "heads", "mlp_ratio", "image_size", "patch", "in_channels", "class_blocks", "qkv_bias",
                 "vocab", "block", "classes")
# By kind of model: the class for transformers, the hub's name of the task, what is scored, what the model reads.
_HUB = {
    "vision": ("TostForImageClassification", "image-classification", "accuracy", "pictures of {image_size} pixels, {classes} classes"),
    "language": ("TostForCausalLM", "text-generation", "perplexity", "text, {vocab} tokens"),
    "sequence": ("TostForSequenceClassification", "text-classification", "accuracy", "sequences of tokens, {classes} classes"),
}
_GPT2_SETTINGS = {"depth": "n_layer", "heads": "n_head", "dim": "n_embd"}
_TOKENS, _POSITIONS, _HEAD = "transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"


class UsageError(ValueError):
    """Something that was asked for and cannot be; the program ends with 2."""


# ---- reading


def read(path, ema=False):
    """The Model in a run folder, checkpoint, hub folder, .safetensors or torch file; ValueError where there is none."""
    path = pathlib.Path(path)
    if path.suffix.lower() in (".pth", ".pt", ".bin"):
        return _read_torch(path, ema)
    files = _averaged(path) if ema else _files.find(path)
    metadata, state = _files.load(files)
    where = f"'{files[0]}'"
    if "tost.config" not in metadata:
        return _foreign(where, state, _config_facts(files[0].parent / "config.json"))
    model = _files.described(metadata, state, where)
    need(isinstance(model.config, dict), f"{where}: 'tost.config' in its metadata must be a JSON object.")
    return model


def _averaged(path):
    need(path.is_dir(), f"'{path}' holds one set of weights, and no averaged ones; leave --ema out.")
    newest = _files._newest(path / "checkpoints") if (path / "checkpoints").is_dir() else path
    need(newest is not None and (newest / "ema.safetensors").is_file(),
         f"'{path}' has no averaged weights; train with --ema-decay above 0 to get them.")
    return [newest / "ema.safetensors"]


def _read_torch(path, ema):
    where = f"'{path}'"
    need(path.is_file(), f"{where} does not exist or is not a file.")
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{where} cannot be read as weights alone: {str(error).splitlines()[0]}") from None
    need(isinstance(data, dict), f"{where} holds a {type(data).__name__}; a dict of weights is expected.")
    keys = ("model_ema", "state_dict_ema") if ema else ("model", "state_dict")
    state = next((data[key] for key in keys if isinstance(data.get(key), dict)), None)
    if state is None and not ema and any(isinstance(value, torch.Tensor) for value in data.values()):
        state = data
    need(state is not None, f"{where} holds no {'averaged ' * ema}weights: there is no '{keys[0]}' in it but "
                            f"{', '.join(map(str, data))[:200]}.")
    tensors = {name: tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}
    said = data.get("tost")
    if isinstance(said, str):
        return _foreign(where, tensors, {}, _description(said, where))
    facts = {}
    for group in ("args", "config", "model_args"):
        found = data.get(group)
        facts.update(vars(found) if isinstance(found, argparse.Namespace) else found if isinstance(found, dict) else {})
    return _foreign(where, tensors, facts)


def _description(text, where):
    try:
        parts = json.loads(text)
        kind = parts.pop("kind", "vision")
        parts["config"] = dict(parts["config"])
        if set(parts) != set(_files._PARTS[kind]):
            raise KeyError
        return kind, parts
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{where}: the description of the model in it cannot be read.") from None


def _config_facts(path):
    """What a config.json next to foreign weights says, timm's or that of transformers' GPT-2."""
    if not path.is_file():
        return {}
    try:
        given = json.loads(path.read_text())
        trained = given.get("pretrained_cfg", {})
        facts = {key: given[key] for key in ("n_head", "activation_function", "label_names") if key in given}
        facts.update(model=given.get("architecture"), preprocess=trained)
        if "input_size" in trained:
            facts["input_size"] = trained["input_size"][2]
        return facts
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        raise ValueError(f"'{path}' is not a JSON object that describes a model.") from None


def _plain_name(name, headless):
    name = re.sub(r"^((_orig_mod|module)\.)+", "", name)
    return f"transformer.{name}" if headless and not name.startswith("lm_head.") else name


def _foreign(where, given, facts, described=()):
    """The Model of weights that others have saved, known by their names and shapes."""
    headless = any(_plain_name(name, False) == "h.0.attn.c_attn.weight" for name in given)
    state = {}
    for name, tensor in given.items():
        plain = _plain_name(str(name), headless)
        need(plain not in state, f"{where} holds tensor '{plain[:80]}' twice, with and without a prefix.")
        state[plain] = tensor
    state = _files.floats(state, where)
    try:
        if described[:1] == ("language",) or "transformer.h.0.attn.c_attn.weight" in state:
            return _foreign_language(state, facts, described)
        if described or "blocks.0.attn.qkv.weight" in state:
            return _foreign_vision(state, facts, described)
    except KeyError as error:
        raise ValueError(f"{where} lacks the tensor {error}.") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    raise ValueError(f"{where} holds no model known here: neither 'blocks.0.attn.qkv.weight' nor "
                     "'transformer.h.0.attn.c_attn.weight' is in it but "
                     f"{', '.join(list(state)[:4])[:200] or 'nothing by name'}.")


def _count(state, before, after):
    return next(number for number in itertools.count() if f"{before}{number}{after}" not in state)


def _foreign_vision(state, facts, described):
    if described:
        return _files.Model(*described, state)
    heads = {"tssa": state.get("blocks.0.attn.temp"), "xca": state.get("blocks.0.attn.temperature")}
    mixer = next((name for name, tensor in heads.items() if tensor is not None), "softmax")
    preset = _files.PRESETS.get(facts.get("model"))
    class_blocks = _count(state, "cls_attn_blocks.", ".attn.qkv.weight")
    need(class_blocks > 0, "it has no class-attention blocks, which the models of this program have.")
    narrow, dim = state["patch_embed.proj.0.0.weight"].shape[0], state["blocks.0.attn.qkv.weight"].shape[1]
    config = {**_files.usual("vision"), "architecture": "transformer", "mixer": mixer,
              "in_channels": state["patch_embed.proj.0.0.weight"].shape[1],
              "image_size": int(facts.get("input_size") or 224), "patch": 2 * (dim // narrow), "dim": dim,
              "depth": _count(state, "blocks.", ".attn.qkv.weight"), "classes": state["head.weight"].shape[0],
              "class_blocks": class_blocks, "mlp_ratio": state["blocks.0.mlp.fc1.weight"].shape[0] / dim,
              "qkv_bias": "blocks.0.attn.qkv.bias" in state, "tokens_norm": bool(facts.get("tokens_norm", True))}
    if mixer != "softmax":
        config["heads"] = heads[mixer].shape[0]
    else:
        need(preset and preset["mixer"] == mixer,
             "its weights do not show how many attention heads there are, and it names no model known here.")
        config["heads"] = preset["heads"]
    if "registers" in state:
        config["registers"] = state["registers"].shape[1]
    else:
        del config["registers"]
    if preset and all(config[key] == preset[key] for key in ("mixer", "dim", "depth", "heads", "patch")):
        config.update(name=facts["model"], layer_scale=preset["layer_scale"], drop_path=preset["drop_path"])
    prepare = _files.imagenet_preprocess(config["image_size"], config["in_channels"])
    if config["in_channels"] != 3:
        prepare.update(mean=[0.449], std=[0.226])
    said = facts.get("preprocess") or {}
    for ours, theirs in (("crop_ratio", "crop_pct"), ("interpolation",) * 2, ("mean",) * 2, ("std",) * 2):
        prepare[ours] = said.get(theirs, prepare[ours])
    classes = facts.get("label_names") or [str(k) for k in range(config["classes"])]
    need(len(classes) == config["classes"], f"it has {len(classes)} class names for {config['classes']} classes.")
    return _files.Model("vision", {"config": config, "classes": list(classes), "preprocess": prepare}, state)


def _foreign_language(state, facts, described):
    block = "transformer.h.0."
    dim = state[_TOKENS].shape[1]
    tssa = f"{block}attn.temp" in state
    transposed = not (described or tssa) and state[f"{block}attn.c_attn.weight"].shape[0] == dim
    if transposed:  # Hugging Face keeps the matrices of GPT-2 as [in, out]
        state = _gpt2_matrices(state)
    head = state.pop(_HEAD, None)
    need(head is None or torch.equal(head, state[_TOKENS]),
         f"tensor '{_HEAD}' is not the same as '{_TOKENS}', to which the models of this program tie it.")
    # The causal mask and its filler that older versions of nanoGPT and GPT-2 kept as buffers.
    state = {n: t for n, t in state.items() if not re.search(r"\.attn\.(bias|masked_bias)$", n) or t.dim() == 1}
    if described:
        return _files.Model(*described, state)
    heads = state[f"{block}attn.temp"].shape[0] if tssa else facts.get("n_head")
    need(type(heads) is int, "its weights do not show how many attention heads there are, and n_head is given nowhere.")
    activation = facts.get("activation_function", "gelu_new" if transposed else "gelu")
    need(activation in ("gelu", "gelu_new", "gelu_pytorch_tanh"),
         f"its activation is {activation!r:.40}; gelu and gelu_new are known here.")
    positions = state[_POSITIONS].shape[0]
    bias = state.get(f"{block}attn.denom_bias")
    config = {**_files.usual("language"), "mixer": "tssa" if tssa else "softmax", "dim": dim,
              "vocab": state[_TOKENS].shape[0], "block": positions,
              "depth": _count(state, "transformer.h.", ".attn.c_attn.weight"), "heads": heads,
              "mlp_ratio": state[f"{block}mlp.c_fc.weight"].shape[0] / dim, "bias": "transformer.ln_f.bias" in state,
              "activation": "gelu" if activation == "gelu" else "gelu-tanh",
              "bias_positions": bias.shape[1] if bias is not None and bias.shape[1] != positions else -1}
    if not tssa and f"{block}gamma1" not in state:
        for i in range(config["depth"]):
            state.update({f"transformer.h.{i}.{gamma}": torch.ones(dim) for gamma in ("gamma1", "gamma2")})
    return _files.Model("language", {"config": config, "tokenizer": None, "training": {}}, state)


# ---- changes


def _need_kind(model, kind, what):
    need(model.kind == kind, f"{what} is for {kind} models, and this is a {model.kind} model.", UsageError)


def change_image_size(model, side):
    _need_kind(model, "vision", "An image size")
    patch = model.config["patch"]
    need(side % patch == 0 and 1 <= side <= 16384,
         f"Image side {side} is not divisible by the patch side {patch}, or not from 1 to 16384.", UsageError)
    model.config["image_size"] = model.parts["preprocess"]["size"] = side


def change_block(model, block):
    _need_kind(model, "language", "A block")
    config = model.config
    before = config["block"]
    if config["bias_positions"] < 0:
        config["bias_positions"] = before
    config["block"] = block
    if "tssa" not in (config["mixer"], config["hybrid_mixer"]) or config["bias_positions"] == block:
        config["bias_positions"] = -1
    table = model.state.get(_POSITIONS)
    if table is not None and block <= before:
        model.state[_POSITIONS] = table[:block]
    elif table is not None:
        wide = torch.nn.functional.interpolate(table.t()[None], size=[block], mode="linear", align_corners=True)
        model.state[_POSITIONS] = wide[0].t()


def change_dtype(model, dtype):
    for name, tensor in model.state.items():
        if tensor.is_floating_point():
            model.state[name] = tensor.to(getattr(torch, dtype))
            need(torch.isfinite(model.state[name]).all(),
                 f"Tensor '{name}' has values beyond what {dtype} can hold; use bfloat16.", UsageError)


def fold_layer_scale(model, biases):
    _need_kind(model, "language", "This layout")
    config, state = model.config, model.state
    softmax = config["mixer"] == "softmax"
    plain = softmax and config["positions"] == "learned" and not any(config.get(key) for key in ("hybrid_every", "conv", "window", "gate"))
    need(plain, "This layout holds plain softmax language models with learned positions; "
                f"the mixer is {config['mixer']}{' with additions' * softmax}.", UsageError)
    for i in range(config["depth"]):
        for gamma, projection in (("gamma1", "attn"), ("gamma2", "mlp")):
            scale = state.pop(f"transformer.h.{i}.{gamma}")
            name = f"transformer.h.{i}.{projection}.c_proj."
            state[f"{name}weight"] = state[f"{name}weight"] * scale[:, None]
            if config["bias"]:
                state[f"{name}bias"] = state[f"{name}bias"] * scale
    config["layer_scale"] = 1.0
    if biases and not config["bias"]:
        config["bias"] = True
        for name in [n for n in state if n.endswith(".weight") and n not in (_TOKENS, _POSITIONS)]:
            state[f"{name[:-6]}bias"] = torch.zeros(state[name].shape[0])


# ---- writing


def _gpt2_matrices(state):
    turned = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
    return {name: tensor.t() if name.endswith(turned) else tensor for name, tensor in state.items()}


def _write_torch(model, out):
    state = collections.OrderedDict((name, model.state[name].contiguous()) for name in sorted(model.state))
    data, config = {"model": state}, model.config
    if model.kind == "vision":
        data["args"] = argparse.Namespace(model=config["name"], input_size=config["image_size"],
                                          tokens_norm=config["tokens_norm"], drop_path=config["drop_path"],
                                          nb_classes=config["classes"])
    else:
        state[_HEAD] = state[_TOKENS]
        names = {**_GPT2_SETTINGS, "block": "block_size", "bias": "bias", "vocab": "vocab_size", "dropout": "dropout"}
        data["model_args"] = {theirs: config[ours] for ours, theirs in names.items()}
    described = {"kind": model.kind, **model.parts} if model.kind == "language" else model.parts
    data["tost"] = _files.text(described)
    torch.save(data, out)


def _tokenizer_files(model):
    tokenizer = model.parts["tokenizer"]
    if tokenizer is None:
        return {}
    if tokenizer.get("kind") != "gpt2":
        return {"tost_tokenizer.json": _files.text(tokenizer) + "\n"}
    return _tokens.gpt2_files(tokenizer, model.config["block"])


def _folder_files(model, layout, dtype, card):
    """The small files of a folder by name."""
    config, kind = model.config, model.kind
    if layout == "timm":
        trained = _files.timm_cfg(config, model.parts["preprocess"])
        said = {"architecture": config["name"], "num_classes": config["classes"], "num_features": config["dim"]}
        return {"config.json": {**said, "label_names": model.parts["classes"], "pretrained_cfg": trained}}
    if layout == "gpt2":
        said = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "torch_dtype": dtype,
                "activation_function": "gelu" if config["activation"] == "gelu" else "gelu_new",
                **{theirs: config[ours] for ours, theirs in _GPT2_SETTINGS.items()},
                "n_inner": int(config["dim"] * config["mlp_ratio"] + 1e-6), "n_positions": config["block"],
                "n_ctx": config["block"], "vocab_size": config["vocab"], "layer_norm_epsilon": 1e-5,
                "tie_word_embeddings": True}
        if (model.parts["tokenizer"] or {}).get("kind") == "gpt2":
            said.update(bos_token_id=50256, eos_token_id=50256)
        return {"config.json": said, **_tokenizer_files(model)}
    said = {"model_type": "tost", "torch_dtype": dtype, "architectures": [_HUB[kind][0]]}
    names = {**_files.names_in("transformers", "language"), **_files.names_in("transformers", "vision")}
    said.update({names[key]: config[key] for key in _HUB_SETTINGS if key in config})
    if "classes" in model.parts:
        said["id2label"] = {str(k): name for k, name in enumerate(model.parts["classes"])}
    else:
        said["tie_word_embeddings"] = True
    said["tost"] = config
    files = {"README.md": _card(model, card), "config.json": said}
    if kind == "vision":
        files["preprocessor_config.json"] = _image_processor(model.parts["preprocess"])
    return {**files, **(_tokenizer_files(model) if kind == "language" else {})}


def _image_processor(prepare):
    crop, channels, size = prepare["resize"] == "crop", prepare["channels"], prepare["size"]
    square = {"height": size, "width": size}
    return {"image_processor_type": "ViTImageProcessor", "do_convert_rgb": channels == 3, "do_resize": True,
            "size": {"shortest_edge": int(size / prepare["crop_ratio"])} if crop else square,
            "resample": 3 if prepare["interpolation"] == "bicubic" else 2, "do_center_crop": crop, "crop_size": square,
            "do_rescale": True, "rescale_factor": 1.0 / 255, "do_normalize": True,
            "image_mean": prepare["mean"] or [0.0] * channels, "image_std": prepare["std"] or [1.0] * channels}


def _card(model, card):
    """A model card as model hubs read it: facts of the file, and what the user says of licence and data."""
    config = model.config
    _, pipeline, metric, reads = _HUB[model.kind]
    lines = ["---", f"license: {card.get('license') or 'unknown'}", "library_name: tost", f"pipeline_tag: {pipeline}"]
    lines += [f"datasets:\n- {json.dumps(card['dataset'])}"] if card.get("dataset") else []
    lines += [f"metrics:\n- {metric}", "tags:\n- tost\n- linear-attention", "---", ""]
    parameters = sum(tensor.numel() for tensor in model.state.values() if tensor.is_floating_point())
    lines += [f"# {config.get('name', 'custom')}",
              "",
              "A Token Statistics Transformer ([arXiv 2412.17810](https://arxiv.org/abs/2412.17810)): time and memory are",
              "linear in the number of tokens.",
              "",
              f"- mixer `{config.get('mixer')}`, width {config.get('dim')}, depth {config.get('depth')}, "
              f"{config.get('heads')} heads, {parameters:,} parameters",
              f"- reads {reads.format(**config)}",
              "",
              "`import tost.hf` makes the Auto classes of transformers read this folder; the program `tost` reads it too.",
              ""]
    return "\n".join(lines)


def _write_folder(model, out, layout, dtype, shard_bytes, card):
    gpt2 = layout == "gpt2"
    state = _gpt2_matrices(model.state) if gpt2 else model.state
    metadata = {"format": "pt"} if gpt2 else model.metadata()
    out.mkdir()
    size = sum(tensor.nbytes for tensor in state.values())
    if not shard_bytes or size <= shard_bytes:
        _files.save(out / _files._MODEL, state, metadata)
    else:
        _write_shards(out, state, metadata, shard_bytes, size)
    for name, content in _folder_files(model, layout, dtype, card).items():
        content = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (out / name).write_text(content, encoding="utf-8")


def _write_shards(out, state, metadata, shard_bytes, size):
    shards, room = [], 0
    for name in sorted(state):
        if not shards or state[name].nbytes > room:
            shards.append({})
            room = shard_bytes
        shards[-1][name] = state[name]
        room -= state[name].nbytes
    places = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        _files.save(out / file, shard, metadata)
        places.update(dict.fromkeys(shard, file))
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (out / _files._INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def check_new(out):
    need(not os.path.lexists(out), f"'{out}' exists already; remove it, or choose another name.", UsageError)
    need(out.absolute().parent.is_dir(), f"The folder '{out.absolute().parent}' does not exist; make it first.", UsageError)


@contextlib.contextmanager
def written_whole(out):
    """A place to write to, which becomes the file or folder `out` in the end, or is removed."""
    part = out.absolute().parent / f".{out.name}.tost-unfinished"
    _remove(part)
    try:
        yield part
        os.replace(part, out)
    except BaseException:
        _remove(part)
        raise


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def layout_of(out, wanted="auto"):
    need(wanted in ("auto", *LAYOUTS), f"There is no layout '{wanted}'; the layouts are {', '.join(LAYOUTS)}.", UsageError)
    if wanted != "auto":
        return wanted
    suffix = pathlib.Path(out).suffix.lower()
    return "tost" if suffix == ".safetensors" else "official" if suffix in (".pth", ".pt", ".bin") else "hub"


def convert(source, out, to="auto", ema=False, dtype="float32", image_size=0, block=0, shard_bytes=0, card=None):
    """Writes the model `source` as `out`, whole or not at all; returns a report as a dictionary.

    UsageError for an output that exists and options that do not fit the model, ValueError for what cannot be read.
    """
    out = pathlib.Path(out)
    layout = layout_of(out, to)
    check_new(out)
    need(not shard_bytes or layout in _FOLDERS,
         f"Shards go with the layouts {', '.join(_FOLDERS)}, and this is {layout}.", UsageError)
    need(dtype in _DTYPES, f"There is no type '{dtype}' to convert to; {', '.join(_DTYPES)} are.", UsageError)
    model, notes = read(source, ema), []
    need(layout != "timm" or model.kind == "vision",
         f"The layout timm is for image models, and '{source}' holds a {model.kind} model.", UsageError)
    need(layout not in ("official", "nanogpt", "gpt2") or model.kind != "sequence",
         f"'{source}' holds a sequence model, of which there is no {layout} layout; use tost or hub.", UsageError)
    if image_size:
        change_image_size(model, image_size)
        notes.append("no weight changes with the image size, but accuracy does: score the model at its new size")
    if block:
        change_block(model, block)
    if layout in ("nanogpt", "gpt2"):
        fold_layer_scale(model, layout == "gpt2")
        notes.append("LayerScale is folded into the projections; further training would not have it")
        if layout == "nanogpt" and model.config["activation"] != "gelu":
            notes.append("the model has the approximate GELU, and nanoGPT computes the exact one")
    change_dtype(model, dtype)
    if dtype != "float32":
        notes.append(f"weights are rounded to {dtype}")
    with written_whole(out) as part:
        if layout in _FOLDERS:
            _write_folder(model, part, layout, dtype, shard_bytes, card or {})
        elif layout == "tost":
            _files.save(part, model.state, model.metadata())
        else:
            _write_torch(model, part)
    files = sorted(map(str, out.iterdir())) if out.is_dir() else [str(out)]
    size = sum(tensor.nbytes for tensor in model.state.values())
    return {"kind": model.kind, "layout": layout, "dtype": dtype, "tensors": len(model.state), "bytes": size, "files": files,
            "notes": notes}


def _parser():
    parser = argparse.ArgumentParser(prog="python -m tost.convert", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument("source", metavar="IN", help="run folder, checkpoint, model file or hub folder")
    parser.add_argument("out", metavar="OUT", help="file or folder to write; must not exist")
    parser.add_argument("--to", default="auto", help="layout; auto: by the ending of OUT")
    parser.add_argument("--ema", action="store_true", help="the averaged weights")
    parser.add_argument("--dtype", default="float32", help="weights as float32, bfloat16 or float16")
    parser.add_argument("--image-size", type=_positive, default=0, help="side of the pictures from now on")
    parser.add_argument("--block", type=_positive, default=0, help="context of a language model: cut or interpolated")
    parser.add_argument("--shard-bytes", type=_positive, default=0, help="folders: files of at most so many bytes")
    parser.add_argument("--license", help="of the model card of the layout hub")
    parser.add_argument("--dataset", help="of the model card: the name of the training data")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return parser


def _positive(text):
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not an integer above 0")


def main(arguments=None):
    options = vars(_parser().parse_args(arguments))
    options["card"] = {key: options.pop(key) for key in ("license", "dataset")}
    return run_command("tost.convert", convert, options, "layout {layout}, {tensors} tensors, {bytes:,} bytes")


def run_command(name, work, options, words):
    """The exit code of a command that writes a file or a folder, and prints its report, in these words or as JSON."""
    as_json = options.pop("json")
    try:
        report = work(**options)
    except ImportError as error:
        print(f"{name}: {error.name} is missing; install it: pip install {error.name}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    words = words.format(**report)
    notes = "".join(f"\nnote: {note}" for note in report.get("notes", ()))
    print(json.dumps(report) if as_json else f"wrote {options['out']} ({report['kind']} model, {words}){notes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
