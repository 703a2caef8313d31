"""Model files of the program: found in a run, read with what they say about themselves, and written. Never pickle."""

import json
import pathlib

import torch
from safetensors import SafetensorError, safe_open

from ._write import write_safetensors

_MODEL, _INDEX = "model.safetensors", "model.safetensors.index.json"
# Settings of a model in the program's form, by kind: `usual` where a file may leave one out, the least and the largest
# value, and its name in transformers and timm; and the program's presets of image models.
_ARCHITECTURES = json.loads((pathlib.Path(__file__).parent / "architectures.json").read_text(encoding="utf-8"))
FIELDS, PRESETS = _ARCHITECTURES["fields"], _ARCHITECTURES["presets"]
# What the models of this package do not have.
_ABSENT = ("hybrid_every", "conv", "decay", "scale_pi", "means", "gate", "window", "attention_dropout", "beta_range",
           "delta_steps", "auto_encoder", "mlp")
_PARTS = {"vision": ("config", "classes", "preprocess"), "language": ("config", "tokenizer", "training"),
          "sequence": ("config", "classes", "coding", "training")}
_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64", torch.int64: "I64",
           torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


def need(condition, message, error=ValueError):
    if not condition:
        raise error(message)


class Model:
    """A model in a file: its kind, what is said of it by part, and its weights by name."""

    def __init__(self, kind, parts, state):
        self.kind, self.parts, self.state = kind, parts, state
        self.config = parts["config"]

    def metadata(self):
        return {"format": "pt", "tost.kind": self.kind, **{f"tost.{key}": text(value) for key, value in self.parts.items()}}


def text(value):
    """JSON as the program writes it: one line, keys in order, so that the same model gives the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def usual(kind):
    """The settings that a file may leave out, with their values then."""
    return {key: field["usual"] for key, field in FIELDS[kind].items() if "usual" in field}


def names_in(library, kind):
    """The names of the settings in transformers or timm."""
    return {key: field[library] for key, field in FIELDS[kind].items() if library in field}


def _check_setting(key, field, value, where):
    if "from" in field:
        low, high = field["from"], field["to"]
        fits = type(value) in ((int,) if isinstance(low, int) else (int, float)) and low <= value <= high
        expected = f"from {low} to {high}"
    else:
        kind = type(field.get("usual", ""))
        fits, expected = type(value) is kind, f"of the type {kind.__name__}"
    need(fits, f"{where}: the setting '{key}' must be {expected}, but is {value!r:.60}.")


def check_config(kind, given, where):
    """The architecture in `given`, every field of it; ValueError where this package has no such model."""
    fields = FIELDS[kind]
    need(isinstance(given, dict), f"{where}: its architecture must be a JSON object, but is {type(given).__name__}.")
    for key in given:
        need(key in fields, f"{where}: its architecture has the unknown setting {key!r:.60}; a newer program may know it.")
    config = {}
    for key, field in fields.items():
        need(key in given or "usual" in field, f"{where}: its architecture lacks the setting '{key}'.")
        value = config[key] = given.get(key, field.get("usual"))
        _check_setting(key, field, value, where)
    kind, mixer = config.get("architecture", "transformer"), config["mixer"]
    need(kind == "transformer", f"{where}: it is a {kind!r:.60} model; transformers alone can be read here.")
    need(mixer == "tssa", f"{where}: its mixer is {mixer!r:.60}; models with the mixer tssa can be read here, and others by "
                          "the program.")
    for key in [key for key in _ABSENT if key in fields]:
        need(config[key] == fields[key]["usual"],
             f"{where}: it has {key} {config[key]!r:.60}, which models of this package do not have; use the program.")
    return config


def _newest(checkpoints):
    for pointer in ("best", "latest"):
        file = checkpoints / pointer
        if file.is_file():
            name = file.read_text(errors="replace")[:100].strip()
            need(name.startswith("step-") and "/" not in name and (checkpoints / name).is_dir(),
                 f"'{file}' must name a checkpoint folder next to it, but holds '{name[:60]}'.")
            return checkpoints / name
    folders = sorted(p for p in checkpoints.glob("step-*") if p.is_dir())
    return folders[-1] if folders else None


def find(path):
    """The model files that `path` means: a file, an index of shards, a checkpoint or hub folder, or a run folder."""
    path = pathlib.Path(path)
    need(path.exists(), f"'{path}' does not exist; a model file or a run folder is expected.", FileNotFoundError)
    for folder in (path, path / "checkpoints"):
        if not folder.is_dir():
            continue
        inner = folder if folder == path else _newest(folder)
        found = [inner / name for name in (_MODEL, _INDEX) if inner and (inner / name).is_file()]
        if found:
            path = found[0]
            break
    need(not path.is_dir(), f"'{path}' holds no checkpoint; a run folder or a model.safetensors is expected.", FileNotFoundError)
    if not path.name.endswith(".index.json"):
        return [path]
    try:
        shards = sorted(set(json.loads(path.read_text())["weight_map"].values()))
        together = all(name.endswith(".safetensors") and (path.parent / name).parent == path.parent for name in shards)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ValueError(f"'{path}' is not an index of shards; it must name the file of every tensor.") from None
    need(shards and together, f"'{path}' must name .safetensors files in its own folder.")
    return [path.parent / name for name in shards]


def load(files):
    """What safetensors files say of their model, and their tensors."""
    metadata, tensors = None, {}
    for file in files:
        need(file.name.endswith(".safetensors"),
             f"'{file}' is not a .safetensors file; `python -m tost.convert` makes one of official checkpoints.")
        # Reading a pipe would wait for ever.
        need(file.is_file(), f"'{file}' is missing or not a regular file; a .safetensors file is expected.")
        try:
            with safe_open(file, "pt") as opened:
                said = opened.metadata() or {}
                need(metadata in (None, said), f"'{file}' says other things of its model than the shards before it.")
                metadata = said
                tensors.update({name: opened.get_tensor(name) for name in opened.keys()})
        except SafetensorError as error:
            with open(file, "rb") as opened:
                pickled = opened.read(2) in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
            found = "a file of torch.save() or pickle, which is not read here" if pickled else str(error)
            raise ValueError(f"'{file}' is not an intact safetensors file: {found}.") from None
    return metadata, tensors


def described(metadata, tensors, where):
    """The Model that a file of the program describes, of any kind and architecture, with float32 weights."""
    kind = metadata.get("tost.kind", "vision")
    need(kind in _PARTS, f"{where} holds a {kind[:40]!r} model, which this version does not know.")
    need(metadata.get("tost.precision", "fp32") in ("fp32", "bf16"),
         f"{where} holds its weights in fewer bits; give the file that it was quantised from.")
    parts = {key: parse(metadata, f"tost.{key}", where) for key in _PARTS[kind]}
    return Model(kind, parts, floats(tensors, where))


def floats(tensors, where):
    """The tensors in float32."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensors[name] = tensor.float()
            need(torch.isfinite(tensors[name]).all(), f"{where} has values in tensor '{name}' that are not finite.")
    return tensors


def read(path, kind=None):
    """The Model that `path` means (see find()), one of this package and of this kind; ValueError if it is another."""
    files = find(path)
    metadata, tensors = load(files)
    where = f"'{files[0]}'"
    need("tost.config" in metadata, f"{where} does not say its architecture, so it is not a model file of the program; "
                                    "`python -m tost.convert` makes one of official weights.")
    found = metadata.get("tost.kind", "vision")
    need(found in FIELDS and kind in (None, found),
         f"{where} holds a {found} model; a {kind or 'vision or language'} model is expected.")
    model = described(metadata, tensors, where)
    model.config = check_config(found, model.config, where)
    return model


def parse(metadata, key, where):
    try:
        return json.loads(metadata[key])
    except (KeyError, ValueError, RecursionError):
        raise ValueError(f"{where} has no readable '{key}' in its metadata.") from None


def classes_of(file, where):
    """The names of its classes, by label."""
    classes = file.parts["classes"]
    count = file.config["classes"]
    need(isinstance(classes, list) and len(classes) == count and all(isinstance(name, str) for name in classes),
         f"{where}: 'tost.classes' in its metadata must be the names of its {count} classes.")
    return classes


def preprocess_of(file, where):
    """How a picture becomes its input, in the program's form."""
    given, channels = file.parts["preprocess"], file.config["in_channels"]
    fits = isinstance(given, dict) and given.get("channels") == channels
    for key, usual in imagenet_preprocess(1, channels).items():
        value = given.get(key) if fits else None
        fits = fits and type(value) in ((int, float) if isinstance(usual, float) else (type(usual),))
        if fits and key in ("mean", "std"):
            fits = len(value) in (0, channels) and all(type(number) in (int, float) for number in value)
    need(fits, f"{where}: 'tost.preprocess' in its metadata does not fit a model of {channels} channels.")
    return given


def describe(kind, config, **more):
    """The metadata of a model file."""
    if kind == "vision":  # as the program, which leaves out what older builds do not know
        config = {key: value for key, value in config.items() if (key, value) not in (("registers", 0), ("mlp", "gelu"))}
    return Model(kind, {"config": config, **more}, {}).metadata()


def _raw(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def save(path, tensors, metadata):
    """A safetensors file, the same bytes for the same model; the old one stays whole on failure."""
    described = {name: (_DTYPES[tensor.dtype], list(tensor.shape), tensor.nbytes) for name, tensor in tensors.items()}
    write_safetensors(pathlib.Path(path), described, lambda name: _raw(tensors[name]), dict(sorted(metadata.items())))


def add_metadata(path, metadata):
    """Gives a safetensors file other metadata."""
    save(path, load([path])[1], metadata)


def _check_weights(expected, given, where):
    """That every tensor of the model is there in its shape, and no other."""
    for name, tensor in given.items():
        need(name in expected, f"{where} it has the unknown tensor {name!r:.80}.")
        wanted = expected[name]
        need(tensor.shape == wanted.shape,
             f"{where} tensor '{name}' must be {list(wanted.shape)}, but is {list(tensor.shape)}.")
        alike = tensor.is_floating_point() == wanted.is_floating_point() and tensor.dtype not in (torch.bool, torch.complex64)
        need(alike, f"{where} tensor '{name}' must be like {wanted.dtype}, but is {tensor.dtype}.")
    for name, wanted in expected.items():
        if name.endswith(".num_batches_tracked"):  # a count that inference does not use
            given.setdefault(name, torch.zeros(wanted.shape, dtype=wanted.dtype))
        need(name in given, f"{where} it lacks the tensor '{name}'.")


def build_and_load(make, file, where):
    """What make() builds, with the weights of `file`; nothing is allocated before they are found to fit."""
    try:
        with torch.device("meta"):
            model = make()
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where} describes a model that cannot be: {error}") from None
    _check_weights(model.state_dict(), file.state, f"{where} does not fit its own description:")
    model.load_state_dict(file.state, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model.eval()


def imagenet_preprocess(side, channels):
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    if channels != 3:
        mean, std = [sum(mean) / 3] * channels, [sum(std) / 3] * channels
    return {"size": side, "channels": channels, "resize": "crop", "crop_ratio": 1.0, "interpolation": "bicubic",
            "mean": mean, "std": std}


def timm_cfg(config, prepare):
    """What timm's config of a pretrained model says: how a picture becomes the input, and which layers depend on the data."""
    channels, side = prepare["channels"], prepare["size"]
    return {"input_size": [channels, side, side], "interpolation": prepare["interpolation"],
            "crop_pct": prepare["crop_ratio"], "crop_mode": "center" if prepare["resize"] == "crop" else "squash",
            "mean": prepare["mean"] or [0.0] * channels, "std": prepare["std"] or [1.0] * channels,
            "fixed_input_size": False, "num_classes": config["classes"], "first_conv": "patch_embed.proj.0.0",
            "classifier": "head"}


def metadata_of(path):
    """The metadata of the model that `path` means, {} where it has none."""
    try:
        with safe_open(find(path)[0], "pt") as opened:
            return opened.metadata() or {}
    except (FileNotFoundError, SafetensorError):
        return {}
