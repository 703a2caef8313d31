"""Token Statistics Transformers for pictures as timm's models; importing this registers them.

After it `timm.create_model("tost_cab_small_12_p16")` works like any model of timm. load() reads what the program has
trained, and save() writes what the program reads.
"""

import contextlib
from typing import List, Optional, Tuple, Union

import torch
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model, register_notrace_module
from timm.models._features import feature_take_indices
from timm.models.xcit import Xcit
from torch import nn

from . import _files
from ._files import need
from ._vision import FourierPosition, PatchStem, VisionParts, draw_vision_weights
from .nn import TSSA

__all__ = ["Tost", "load", "save"]
_NAMES = _files.names_in("timm", "vision")  # the program's settings and timm's arguments

for _part in (FourierPosition, PatchStem, TSSA):  # torch.fx cannot trace what depends on sizes
    register_notrace_module(_part)


class Tost(VisionParts, Xcit):
    """The official image classifier: TSSA over patches, then class attention. Any sides that `patch_size` divides.

    It descends from XCiT: what does not depend on the parts (classifier, pruning, class attention, pooling) is timm's.
    """

    def __init__(self, img_size: Union[int, Tuple[int, int]] = 224, patch_size: int = 16, in_chans: int = 3,
                 num_classes: int = 1000, global_pool: str = "token", embed_dim: int = 384, depth: int = 12,
                 num_heads: int = 8, mlp_ratio: float = 4.0, qkv_bias: bool = True, eta: float = 1.0,
                 tokens_norm: bool = True, cls_attn_layers: int = 2, stem_depth: int = 1, reg_tokens: int = 0,
                 drop_rate: float = 0.0, drop_path_rate: float = 0.0, device=None, dtype=None):
        given = dict(locals())
        nn.Module.__init__(self)  # the parts are not those of XCiT
        sides = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
        if any(side % patch_size for side in sides):
            raise ValueError(f"Tost: img_size {img_size} is not divisible by patch_size {patch_size}.")
        self.img_size = sides
        self.in_chans = in_chans
        self.num_classes = num_classes
        self.num_features = self.head_hidden_size = self.embed_dim = embed_dim
        self.num_prefix_tokens = 1
        self.grad_checkpointing = False
        self.global_pool = _checked_pool(global_pool)
        self.settings = {ours: given[theirs] for ours, theirs in _NAMES.items()}
        with contextlib.nullcontext() if device is None else torch.device(device):
            self.make_parts(self.settings)
        self.head_drop = nn.Dropout(drop_rate)
        self.feature_info = [dict(num_chs=embed_dim, reduction=patch_size, module=f"blocks.{i}") for i in range(depth)]
        self.apply(draw_vision_weights)
        self.to(dtype=dtype)

    @torch.jit.ignore
    def no_weight_decay(self):
        return {"cls_token", "registers"}

    @torch.jit.ignore
    def group_matcher(self, coarse=False):
        return {**super().group_matcher(coarse), "stem": r"^cls_token|registers|pos_embeder|patch_embed"}

    def reset_classifier(self, num_classes: int, global_pool: Optional[str] = None):
        super().reset_classifier(num_classes, global_pool and _checked_pool(global_pool))
        self.head.apply(draw_vision_weights)

    def forward_intermediates(self, x: torch.Tensor, indices: Optional[Union[int, List[int]]] = None, norm: bool = False,
                              stop_early: bool = False, output_fmt: str = "NCHW", intermediates_only: bool = False,
                              ) -> Union[List[torch.Tensor], Tuple[torch.Tensor, List[torch.Tensor]]]:
        """The patches after the blocks `indices` (the last n, or all), and what forward_features() returns."""
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"Tost: output_fmt must be NCHW or NLC, but is {output_fmt!r}.")
        wanted, last = feature_take_indices(len(self.blocks), indices)
        x, (rows, columns) = self.embed(x)
        patches = rows * columns
        blocks = self.blocks[: last + 1] if stop_early else self.blocks
        x, found = self.run(blocks, x, self.grad_checkpointing, wanted)
        found = [self.norm(y[:, :patches]) if norm else y[:, :patches] for y in found]
        if output_fmt == "NCHW":
            found = [y.transpose(1, 2).unflatten(2, (rows, columns)).contiguous() for y in found]
        if intermediates_only:
            return found
        return self._finish(x[:, :patches]), found

    def _finish(self, patches):
        return self.norm(patches if self.cls_attn_blocks is None else self.forward_cls(patches))

    def forward_features(self, x):
        """[B, 1 + N, C]: the class token and the patches."""
        x, (rows, columns) = self.embed(x)
        x, _ = self.run(self.blocks, x, self.grad_checkpointing)
        return self._finish(x[:, : rows * columns])


def _checked_pool(global_pool):
    need(global_pool in ("", "avg", "token"), f"Tost: global_pool must be 'token', 'avg' or '', but is {global_pool!r}.")
    return global_pool


def _cfg(config, prepare, **more):
    cfg = {**_files.timm_cfg(config, prepare), **more}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in cfg.items()}


_presets = {name: preset for name, preset in _files.PRESETS.items() if preset["mixer"] == "tssa"}
default_cfgs = generate_default_cfgs(
    {name: _cfg(p, _files.imagenet_preprocess(p["image_size"], 3)) for name, p in _presets.items()}
)


def _register(name, preset):
    args = {theirs: preset[ours] for ours, theirs in _NAMES.items() if ours in preset}

    def make(pretrained=False, out_indices=3, **kwargs):
        features = dict(out_indices=out_indices, feature_cls="getter")
        return build_model_with_cfg(Tost, name, pretrained, feature_cfg=features, **{**args, **kwargs})

    make.__name__ = name
    make.__module__ = __name__
    make.__doc__ = f"The program's preset {name}."
    globals()[name] = register_model(make)


for _name, _preset in _presets.items():
    _register(_name, _preset)


def load(path):
    """The model in a run folder, a checkpoint or a model file of the program, in evaluation mode.

    Its architecture, classes and preprocessing are those of the file: `timm.data.resolve_model_data_config(model)`
    gives the transform, `model.pretrained_cfg["label_names"]` the classes.
    """
    file = _files.read(path, "vision")
    config, where = file.config, f"'{path}'"
    classes, prepare = _files.classes_of(file, where), _files.preprocess_of(file, where)
    cfg = _cfg(config, prepare, architecture=config["name"], label_names=classes)
    given = {theirs: config[ours] for ours, theirs in _NAMES.items()}

    def make():
        return build_model_with_cfg(Tost, config["name"], False, pretrained_cfg=cfg, **given)

    return _files.build_and_load(make, file, where)


def save(model, path, classes=None):
    """Writes a model file of the program, `path` ending in .safetensors; `classes`: their names, by label."""
    where = "tost.vision.save"
    need(isinstance(model, Tost), f"{where}: the model must be a tost.vision.Tost, but is {type(model).__name__}.", TypeError)
    need(model.global_pool == "token" and model.num_classes > 0 and model.cls_attn_blocks is not None,
         f"{where}: the program's models pool the class token and have a classifier; this has not.")
    need(model.img_size[0] == model.img_size[1],
         f"{where}: the program's models have square pictures, but img_size is {model.img_size}.")
    cfg, count = model.pretrained_cfg, model.num_classes
    if classes is None:
        classes = cfg.get("label_names") or ()
        classes = classes if len(classes) == count else [str(k) for k in range(count)]
    need(len(classes) == count, f"{where}: {len(classes)} class names for a model of {count} classes.")
    side, channels = model.img_size[0], model.in_chans
    prepare = _files.imagenet_preprocess(side, channels)
    if len(cfg["mean"]) == channels:
        prepare.update(resize="squeeze" if cfg.get("crop_mode") == "squash" else "crop", crop_ratio=cfg["crop_pct"],
                       interpolation=cfg["interpolation"], mean=list(cfg["mean"]), std=list(cfg["std"]))
    name = cfg.get("architecture") or "custom"
    config = {**model.settings, "name": name, "architecture": "transformer", "mixer": "tssa", "image_size": side, "classes": count}
    config = _files.check_config("vision", config, where)
    metadata = _files.describe("vision", config, classes=list(classes), preprocess=prepare)
    _files.save(path, model.state_dict(), metadata)
