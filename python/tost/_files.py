"""Model files of the program: found in a run, read with what they say about themselves, and written. Never pickle."""

import json
import os
import pathlib
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

_MODEL, _INDEX = "model.safetensors", "model.safetensors.index.json"

_REQUIRED = object()
_SHARED = {
    "name": "custom",
    "mixer": _REQUIRED,
    "dim": _REQUIRED,
    "depth": _REQUIRED,
    "heads": _REQUIRED,
    "mlp_ratio": 4.0,
}
# Settings of a model in the program's form, with their values where a file leaves them out.
_FIELDS = {
    "vision": {
        **_SHARED,
        "architecture": _REQUIRED,
        "in_channels": _REQUIRED,
        "image_size": _REQUIRED,
        "patch": _REQUIRED,
        "stem_depth": 1,
        "classes": _REQUIRED,
        "class_blocks": 2,
        "layer_scale": 1.0,
        "drop_path": 0.0,
        "registers": 0,
        "qkv_bias": True,
        "tokens_norm": True,
    },
    "language": {
        **_SHARED,
        "vocab": _REQUIRED,
        "block": _REQUIRED,
        "layer_scale": 1e-5,
        "dropout": 0.0,
        "bias": False,
        "activation": "gelu",
        "positions": "learned",
        "hybrid_every": 0,
        "hybrid_mixer": "softmax",
        "bias_positions": -1,
        "conv": 0,
        "decay": "none",
        "scale_pi": False,
        "means": "none",
        "gate": False,
        "window": 0,
        "attention_dropout": -1.0,
        "auto_encoder": False,
    },
}
# The least and the largest value, as in the program.
_RANGES = {
    "dim": (1, 16384),
    "depth": (1, 1024),
    "heads": (1, 16384),
    "mlp_ratio": (1e-4, 64.0),
    "layer_scale": (-1e30, 1e30),
    "in_channels": (1, 3),
    "image_size": (1, 16384),
    "patch": (2, 16),
    "stem_depth": (1, 8),
    "classes": (1, 10**6),
    "class_blocks": (1, 1024),
    "drop_path": (0.0, 0.999),
    "registers": (0, 64),
    "vocab": (1, 2**24),
    "block": (1, 2**24),
    "dropout": (0.0, 0.999),
    "attention_dropout": (-1.0, 0.999),
    "bias_positions": (-1, 2**24),
}
# What the models of this package do not have.
_ABSENT = ("hybrid_every", "conv", "decay", "scale_pi", "means", "gate", "window", "attention_dropout", "auto_encoder")


class ModelFile(NamedTuple):
    kind: str  # "vision" or "language"
    config: dict  # the architecture, every field of the program's own form
    metadata: dict  # all the file says of itself, as texts
    tensors: dict  # weights by name, float32


def _check_setting(key, value, default, where):
    if key in _RANGES:
        low, high = _RANGES[key]
        fits = type(value) in ((int,) if isinstance(low, int) else (int, float)) and low <= value <= high
        expected = f"from {low} to {high}"
    else:
        kind = bool if isinstance(default, bool) else int if isinstance(default, int) else str
        fits, expected = type(value) is kind, f"of the type {kind.__name__}"
    if not fits:
        raise ValueError(f"{where}: the setting '{key}' must be {expected}, but is {value!r:.60}.")


def check_config(kind, given, where):
    """The architecture in `given`, every field of it; ValueError where this package has no such model."""
    fields = _FIELDS[kind]
    if not isinstance(given, dict):
        raise ValueError(f"{where}: its architecture must be a JSON object, but is {type(given).__name__}.")
    for key in given:
        if key not in fields:
            raise ValueError(
                f"{where}: its architecture has the unknown setting {key!r:.60}; a newer program may know it."
            )
    config = {}
    for key, default in fields.items():
        if key not in given and default is _REQUIRED:
            raise ValueError(f"{where}: its architecture lacks the setting '{key}'.")
        value = config[key] = given.get(key, default)
        _check_setting(key, value, default, where)
    if config.get("architecture", "transformer") != "transformer":
        raise ValueError(f"{where}: it is a {config['architecture']!r:.60} model; transformers alone can be read here.")
    if config["mixer"] != "tssa":
        raise ValueError(
            f"{where}: its mixer is {config['mixer']!r:.60}; models with the mixer tssa can be read here, "
            "and others by the program."
        )
    for key in _ABSENT:
        if key in fields and config[key] != fields[key]:
            raise ValueError(
                f"{where}: it has {key} {config[key]!r:.60}, which models of this package do not have; use the program."
            )
    return config


def _newest(checkpoints):
    for pointer in ("best", "latest"):
        file = checkpoints / pointer
        if file.is_file():
            name = file.read_text(errors="replace")[:100].strip()
            if not name.startswith("step-") or "/" in name or not (checkpoints / name).is_dir():
                raise ValueError(f"'{file}' must name a checkpoint folder next to it, but holds '{name[:60]}'.")
            return checkpoints / name
    folders = sorted(p for p in checkpoints.glob("step-*") if p.is_dir())
    return folders[-1] if folders else None


def find(path):
    """The model files that `path` means: a file, an index of shards, a checkpoint or hub folder, or a run folder."""
    path = pathlib.Path(path)
    if not path.exists():
        raise FileNotFoundError(f"'{path}' does not exist; a model file or a run folder is expected.")
    for folder in (path, path / "checkpoints"):
        if not folder.is_dir():
            continue
        inner = folder if folder == path else _newest(folder)
        found = [inner / name for name in (_MODEL, _INDEX) if inner and (inner / name).is_file()]
        if found:
            path = found[0]
            break
    if path.is_dir():
        raise FileNotFoundError(f"'{path}' holds no checkpoint; a run folder or a model.safetensors is expected.")
    if not path.name.endswith(".index.json"):
        return [path]
    try:
        shards = sorted(set(json.loads(path.read_text())["weight_map"].values()))
        together = all(name.endswith(".safetensors") and (path.parent / name).parent == path.parent for name in shards)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ValueError(f"'{path}' is not an index of shards; it must name the file of every tensor.") from None
    if not shards or not together:
        raise ValueError(f"'{path}' must name .safetensors files in its own folder.")
    return [path.parent / name for name in shards]


def read(path, kind=None):
    """The model that `path` means (see find()), of this kind; ValueError if it is another."""
    files = find(path)
    metadata, tensors = None, {}
    for file in files:
        if not file.name.endswith(".safetensors"):
            raise ValueError(f"'{file}' is not a .safetensors file; `python -m tost.convert` makes one of official checkpoints.")
        if not file.is_file():  # reading a pipe would wait for ever
            raise ValueError(f"'{file}' is missing or not a regular file; a .safetensors file is expected.")
        try:
            with safe_open(file, "pt") as opened:
                said = opened.metadata() or {}
                if metadata is not None and said != metadata:
                    raise ValueError(f"'{file}' says other things of its model than the shards before it.")
                metadata = said
                tensors.update({name: opened.get_tensor(name) for name in opened.keys()})
        except SafetensorError as error:
            with open(file, "rb") as opened:
                pickled = opened.read(2) in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
            found = "a file of torch.save() or pickle, which is not read here" if pickled else str(error)
            raise ValueError(f"'{file}' is not an intact safetensors file: {found}.") from None
    where = f"'{files[0]}'"
    if "tost.config" not in metadata:
        raise ValueError(
            f"{where} does not say its architecture, so it is not a model file of the program; "
            "`python -m tost.convert` makes one of official weights."
        )
    found = metadata.get("tost.kind", "vision")
    if found not in _FIELDS or kind not in (None, found):
        raise ValueError(f"{where} holds a {found} model; a {kind or 'vision or language'} model is expected.")
    if metadata.get("tost.precision", "fp32") not in ("fp32", "bf16"):
        raise ValueError(f"{where} holds its weights in fewer bits; give the file that it was quantised from.")
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensors[name] = tensor.float()
            if not torch.isfinite(tensors[name]).all():
                raise ValueError(f"{where} has values in tensor '{name}' that are not finite.")
    return ModelFile(found, check_config(found, parse(metadata, "tost.config", where), where), metadata, tensors)


def parse(metadata, key, where):
    try:
        return json.loads(metadata[key])
    except (KeyError, ValueError, RecursionError):
        raise ValueError(f"{where} has no readable '{key}' in its metadata.") from None


def classes_of(file, where):
    """The names of its classes, by label."""
    classes = parse(file.metadata, "tost.classes", where)
    count = file.config["classes"]
    if not isinstance(classes, list) or len(classes) != count or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"{where}: 'tost.classes' in its metadata must be the names of its {count} classes.")
    return classes


def preprocess_of(file, where):
    """How a picture becomes its input, in the program's form."""
    given = parse(file.metadata, "tost.preprocess", where)
    expected = imagenet_preprocess(1, file.config["in_channels"])
    fits = isinstance(given, dict) and all(
        type(given.get(key)) in ((int, float) if isinstance(value, float) else (type(value),))
        for key, value in expected.items()
    )
    numbers = [*given["mean"], *given["std"]] if fits else []
    if (
        not fits
        or given["channels"] != file.config["in_channels"]
        or any(len(given[key]) not in (0, given["channels"]) for key in ("mean", "std"))
        or any(type(number) not in (int, float) for number in numbers)
    ):
        raise ValueError(
            f"{where}: 'tost.preprocess' in its metadata does not fit a model of {expected['channels']} channels."
        )
    return given


def describe(kind, config, **more):
    """The metadata of a model file."""
    if kind == "vision" and config["registers"] == 0:
        config = {key: value for key, value in config.items() if key != "registers"}
    texts = {f"tost.{key}": json.dumps(value, sort_keys=True) for key, value in {"config": config, **more}.items()}
    return {"format": "pt", "tost.kind": kind, **texts}


def save(path, tensors, metadata):
    """A safetensors file with its header in one order, so that the same model gives the same bytes."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path, metadata)
    _rewrite_header(path, metadata)


def write(path, tensors, metadata):
    """A model file of the program; the old one stays whole on failure."""
    path = pathlib.Path(path)
    part = path.with_name(path.name + ".part")
    save(part, tensors, metadata)
    os.replace(part, path)


def _rewrite_header(path, metadata):
    """Gives a safetensors file this metadata and an ordered header, without a look at its weights."""
    path = pathlib.Path(path)
    with open(path, "rb") as old:
        length = int.from_bytes(old.read(8), "little")
        header = json.loads(old.read(length))
        header.pop("__metadata__", None)
        entries = sorted(header.items(), key=lambda item: (item[1]["data_offsets"], item[0]))
        ordered = {"__metadata__": dict(sorted(metadata.items())), **dict(entries)}
        text = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        if len(text) == length:
            with open(path, "r+b") as same:
                same.seek(8)
                same.write(text)
            return
        part = path.with_name(path.name + ".part")
        with open(part, "wb") as new:
            new.write(len(text).to_bytes(8, "little") + text)
            while block := old.read(1 << 24):
                new.write(block)
    os.replace(part, path)


def add_metadata(path, metadata):
    """Gives a safetensors file other metadata."""
    _rewrite_header(path, metadata)


def _check_weights(expected, given, where):
    """That every tensor of the model is there in its shape, and no other."""
    for name, tensor in given.items():
        wanted = expected.get(name)
        if wanted is None:
            raise ValueError(f"{where} it has the unknown tensor {name!r:.80}.")
        if tensor.shape != wanted.shape:
            raise ValueError(f"{where} tensor '{name}' must be {list(wanted.shape)}, but is {list(tensor.shape)}.")
        if tensor.is_floating_point() != wanted.is_floating_point() or tensor.dtype in (torch.bool, torch.complex64):
            raise ValueError(f"{where} tensor '{name}' must be like {wanted.dtype}, but is {tensor.dtype}.")
    for name in expected:
        if name not in given and not name.endswith(".num_batches_tracked"):  # a count that inference does not use
            raise ValueError(f"{where} it lacks the tensor '{name}'.")


def build_and_load(make, file, where):
    """What make() builds, with the weights of `file`; nothing is allocated before they are found to fit."""
    try:
        with torch.device("meta"):
            model = make()
    except ValueError as error:
        raise ValueError(f"{where} describes a model that cannot be: {error}") from None
    _check_weights(model.state_dict(), file.tensors, f"{where} does not fit its own description:")
    model.load_state_dict(file.tensors, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model.eval()


def imagenet_preprocess(side, channels):
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    if channels != 3:
        mean, std = [sum(mean) / 3] * channels, [sum(std) / 3] * channels
    return {
        "size": side,
        "channels": channels,
        "resize": "crop",
        "crop_ratio": 1.0,
        "interpolation": "bicubic",
        "mean": mean,
        "std": std,
    }


def metadata_of(path):
    """The metadata of the model that `path` means, {} where it has none."""
    try:
        with safe_open(find(path)[0], "pt") as opened:
            return opened.metadata() or {}
    except (FileNotFoundError, SafetensorError):
        return {}
