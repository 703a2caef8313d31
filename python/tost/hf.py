"""Token Statistics Transformers as models of transformers; importing this registers them with its Auto classes.

After it AutoModelForCausalLM and AutoModelForImageClassification read the folders that `python -m tost.convert MODEL FOLDER`
writes, and the program reads what save_pretrained() writes. load() reads what the program has trained.
"""

import functools
import math
import os
import pathlib
import sys

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForImageClassification, DynamicCache, GenerationMixin,
                          PreTrainedConfig, PreTrainedModel)
from transformers import initialization as init
from transformers.cache_utils import STATIC_LAYER_TYPE_MAPPING, CacheLayerMixin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import CausalLMOutputWithPast, ImageClassifierOutput
from transformers.utils import can_return_tuple

from . import _files, models, ops
from ._files import need
from ._vision import Block, ClassAttentionBlock, VisionParts
from .nn import CausalTSSA

__all__ = ["StatisticsLayer", "TostConfig", "TostForCausalLM", "TostForImageClassification", "accelerate", "load", "save"]

def _to_config(kind, config):
    """Settings of the program's as those of a TostConfig."""
    return {name: config[key] for key, name in _files.names_in("transformers", kind).items() if key in config}


@strict
class TostConfig(PreTrainedConfig):
    """Of both kinds of models. What the program's config.json says under "tost" counts where nothing else says it."""

    model_type = "tost"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {"max_position_embeddings": "n_positions"}

    preset: str = "custom"
    mixer: str = "tssa"
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    mlp_ratio: float | int = 4.0
    layer_scale: float | int | None = None  # None: 1e-5 of language models, 1 of image models

    vocab_size: int = 50304
    n_positions: int = 1024
    dropout: float | int = 0.0
    bias: bool = False
    activation: str = "gelu"  # exact; or "gelu-tanh"
    positions: str = "learned"  # or "none": no limit of context
    bias_positions: int = -1  # that have a bias; -1: n_positions
    use_cache: bool = True
    tie_word_embeddings: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    image_size: int = 224
    patch_size: int = 16
    num_channels: int = 3
    stem_depth: int = 1
    num_class_layers: int = 2
    drop_path: float | int = 0.0
    registers: int = 0
    qkv_bias: bool = True
    tokens_norm: bool = True

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        described = config_dict.get("tost")
        if isinstance(described, dict):
            kind = "language" if "vocab" in described else "vision"
            described = _files.check_config(kind, described, "its config.json")
            config_dict = {**_to_config(kind, described), **config_dict}
            config_dict.pop("tost")
        if config_dict.get("id2label") and not config_dict.get("label2id"):
            labels = {name: int(label) for label, name in config_dict["id2label"].items()}
            config_dict = {**config_dict, "label2id": labels}
        return super().from_dict(config_dict, **kwargs)

    @property
    def layer_types(self):
        return [StatisticsLayer._layer_type] * self.num_hidden_layers

    def validate_layer_type(self):
        """Every layer is one of StatisticsLayer."""

    def described(self, kind):
        """The settings in the program's form, checked."""
        config = {key: getattr(self, name) for key, name in _files.names_in("transformers", kind).items()}
        if config["layer_scale"] is None:
            config["layer_scale"] = 1e-5 if kind == "language" else 1.0
        if kind == "vision":
            config["architecture"] = "transformer"
        return _files.check_config(kind, config, "TostConfig")


class StatisticsLayer(CacheLayerMixin):
    """What a causal layer keeps of the tokens before: running sums, whose size does not grow.

    The library's own layer for linear attention does not count tokens, so generate() could not continue from it.
    """

    _layer_type = "tost_statistics"

    def __init__(self, **kwargs):
        super().__init__()
        self.reset()

    def reset(self):
        self.sums = None  # [B, 2 C + H] float64
        self.length = 0  # columns read, padding among them
        self.tokens = None  # tokens read of every row, where that differs from length
        self.is_initialized = False

    def lazy_initialization(self, *args):
        self.is_initialized = True

    def update(self, *args, **kwargs):
        raise TypeError("StatisticsLayer: it keeps sums, not keys and values; only models of tost.hf can use it.")

    def advance(self, sums, columns, tokens):
        self.sums, self.tokens = sums, tokens
        self.length += columns
        self.is_initialized = True

    def get_seq_length(self):
        return self.length

    def get_max_length(self):
        return -1

    def get_mask_sizes(self, query_length):
        return self.length + query_length, 0

    def _select(self, rows):
        if self.sums is None:
            return
        if self.tokens is not None:
            self.tokens = [self.tokens[row] for row in rows.tolist()]
        self.sums = self.sums.index_select(0, rows.to(self.sums.device))

    reorder_cache = batch_select_indices = _select

    def batch_repeat_interleave(self, repeats):
        if self.sums is not None:
            self._select(torch.arange(self.sums.shape[0]).repeat_interleave(repeats))

    def crop(self, tokens_to_remove):
        if tokens_to_remove != 0:
            raise ValueError("StatisticsLayer: tokens cannot be removed from sums; read the text again from its start.")


class CausalAttention(CausalTSSA):
    """CausalTSSA that reads and fills a layer of a cache, and skips padding."""

    def forward(self, x, cache_and_valid, starts):
        """`starts`: tokens read before, of all rows where `valid` is None, else of each. The second result is a state in
        other language models; here the cache has it."""
        cache, valid = cache_and_valid
        w = self.c_attn(x)
        before = cache.sums if cache is not None else None
        if valid is None:
            y, _, after = ops.tssa_causal(w, self.temp, self.denom_bias, before, starts)
        else:
            states = w.shape[0] * [None] if before is None else before.split(1)
            y, after = map(torch.cat, zip(*map(self._row, w.split(1), states, starts, valid)))
        if cache is not None:
            cache.advance(after, w.shape[1], None if valid is None else _tokens_after(starts, valid))
        return self.resid_dropout(self.c_proj(y)), None

    def _row(self, w, before, start, valid):
        places = valid.nonzero().squeeze(1)
        y, _, after = ops.tssa_causal(w[:, places], self.temp, self.denom_bias, before, start)
        return torch.zeros_like(w).index_copy(1, places, y), after


def _tokens_after(starts, valid):
    return [start + read for start, read in zip(starts, valid.sum(1).tolist())]


class CausalBlock(GradientCheckpointingLayer, models.CausalBlock):
    pass


class CausalParts(nn.Module):
    """Token embeddings to the normed tokens before the head."""

    def __init__(self, config):
        super().__init__()
        for key, known in (("activation", ("gelu", "gelu-tanh")), ("positions", ("learned", "none"))):
            need(config[key] in known, f"TostConfig: {key} must be '{known[0]}' or '{known[1]}', but is {config[key]!r}.")
        self.limit = config["block"] if config["positions"] == "learned" else None
        biased = config["block"] if config["bias_positions"] < 0 else config["bias_positions"]
        mixer = {"dim": config["dim"], "num_heads": config["heads"], "bias": config["bias"], "dropout": config["dropout"]}
        blocks = [CausalBlock(config, CausalAttention(block_size=biased, **mixer)) for _ in range(config["depth"])]
        for name, part in models.language_parts(config, blocks).items():
            self.add_module(name, part)
        self.wpe = getattr(self, "wpe", None)
        self.drop = nn.Dropout(config["dropout"])

    def _places(self, x, starts, valid):
        """Position vectors of tokens that follow `starts`."""
        reached = starts + x.shape[1] if valid is None else max(_tokens_after(starts, valid))
        if reached > self.limit:
            raise ValueError(f"The model has learned positions for {self.limit} tokens and cannot read token {reached}; "
                             "shorten the text, or train a model with positions 'none'.")
        if valid is None:
            return self.wpe.weight[starts:reached]
        first = torch.as_tensor(starts, device=x.device).view(-1, 1)
        return self.wpe((first + valid.long().cumsum(1) - 1).clamp_min(0))

    def forward(self, x, cache=None, valid=None, keep=None):
        starts = 0
        if cache is not None:
            layers = cache.layers
            if len(layers) != len(self.h) or not all(isinstance(layer, StatisticsLayer) for layer in layers):
                raise ValueError(f"TostForCausalLM: the cache has no StatisticsLayer for each of the {len(self.h)} layers; "
                                 "make it by DynamicCache(config=model.config).")
            starts = layers[0].length if layers[0].tokens is None else layers[0].tokens
            if layers[0].tokens is not None and valid is None:
                valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        if valid is not None and isinstance(starts, int):
            starts = [starts] * len(x)
        if self.limit:
            x = x + self._places(x, starts, valid)
        x = self.drop(x)
        for i, block in enumerate(self.h):
            if keep is not None:
                keep.append(x)
            x, _ = block(x, (cache.layers[i] if cache is not None else None, valid), starts)
        return self.ln_f(x)


class TostPreTrainedModel(PreTrainedModel):
    config_class = TostConfig
    kind = ""  # in the program's words
    supports_gradient_checkpointing = True
    _no_split_modules = ["CausalBlock", "ImageBlock", "ImageClassBlock"]
    _skip_keys_device_placement = ["past_key_values"]

    _file_metadata = None  # the metadata of the model file it came from

    @torch.no_grad()
    def _init_weights(self, module):
        if not isinstance(module, nn.Conv2d):
            super()._init_weights(module)  # draws matrices and embeddings as the official code does, but not convolutions
        else:
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                init.uniform_(module.bias, -bound, bound)
        scale = self.config.described(self.kind)["layer_scale"]
        values = {"gamma1": scale, "gamma2": scale, "temp": 1.0, "denom_bias": 0.0}
        for name, parameter in module.named_parameters(recurse=False):
            if name in values:
                init.constant_(parameter, values[name])
            elif name in ("cls_token", "registers"):
                init.normal_(parameter, std=0.02)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        model = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        found = model[0] if isinstance(model, tuple) else model
        if os.path.isdir(pretrained_model_name_or_path or ""):
            found._file_metadata = _files.metadata_of(pretrained_model_name_or_path)
        return model

    def save_pretrained(self, save_directory, is_main_process=True, **kwargs):
        """As in the library; the program reads the folder too."""
        super().save_pretrained(save_directory, is_main_process=is_main_process, **kwargs)
        for file in pathlib.Path(save_directory).glob("model*.safetensors") if is_main_process else ():
            _files.add_metadata(file, self.metadata())

    def _kept(self, key):
        """What the file this model came from said under `key`, or None."""
        metadata = self._file_metadata or {}
        return _files.parse(metadata, key, "the model's file") if key in metadata else None


class TostForCausalLM(TostPreTrainedModel, GenerationMixin):
    """The language model of the official code: causal TSSA. It skips the padding that `attention_mask` says."""

    kind = "language"
    base_model_prefix = "transformer"
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    _is_stateful = True

    def __init__(self, config):
        super().__init__(config)
        self.transformer = CausalParts(config.described("language"))
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, CausalBlock):  # a module without its own parameters is not asked
            for projection in (module.attn.c_proj, module.mlp.c_proj):
                init.normal_(projection.weight, std=0.02 / math.sqrt(2 * self.config.num_hidden_layers))

    def get_input_embeddings(self):
        return self.transformer.wte

    def set_input_embeddings(self, value):
        self.transformer.wte = value

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, past_key_values=None, labels=None,
                use_cache=None, output_hidden_states=None, logits_to_keep=0, **kwargs):
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("TostForCausalLM: exactly one of input_ids and inputs_embeds must be given.")
        if kwargs.pop("position_ids", None) is not None:
            raise ValueError("TostForCausalLM: position_ids cannot be chosen; leave them out, and mask padding.")
        x = self.transformer.wte(input_ids) if inputs_embeds is None else inputs_embeds
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        if past_key_values is not None and self.training and self.is_activation_checkpointing:
            raise ValueError("TostForCausalLM: a cache would be filled twice while activations are computed again; use one.")
        valid = self._valid(attention_mask, x, past_key_values)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        keep = [] if wanted else None
        hidden = self.transformer(x, past_key_values, valid, keep)
        rows = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) and logits_to_keep else slice(None)
        logits = self.lm_head(hidden[:, rows if isinstance(logits_to_keep, int) else logits_to_keep])
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values if use_cache else None,
                                      hidden_states=(*keep, hidden) if wanted else None)

    @staticmethod
    def _valid(mask, x, cache):
        """[B, T], which of the new columns are not padding; None: all."""
        if mask is None:
            return None
        read = cache.get_seq_length() if cache is not None else 0
        if mask.dim() != 2 or mask.shape[0] != x.shape[0] or mask.shape[1] != read + x.shape[1]:
            raise ValueError(f"TostForCausalLM: attention_mask must be [batch, tokens read and new] = "
                             f"[{x.shape[0]}, {read + x.shape[1]}], but is {list(mask.shape)}.")
        valid = mask[:, -x.shape[1] :].bool()
        return None if valid.all() else valid

    def metadata(self):
        config = self.config.described("language")
        return _files.describe(
            "language", config, tokenizer=self._kept("tost.tokenizer"), training=self._kept("tost.training") or {}
        )


class ImageBlock(GradientCheckpointingLayer, Block):
    pass


class ImageClassBlock(GradientCheckpointingLayer, ClassAttentionBlock):
    pass


class TostForImageClassification(VisionParts, TostPreTrainedModel):
    """The image classifier of the official code: TSSA over patches, then class attention."""

    kind = "vision"
    base_model_prefix = "tost"
    main_input_name = "pixel_values"
    block, class_block = ImageBlock, ImageClassBlock

    def __init__(self, config):
        super().__init__(config)
        self.make_parts(config.described("vision"))
        self.post_init()

    def get_input_embeddings(self):
        return self.patch_embed

    @can_return_tuple
    def forward(self, pixel_values, labels=None, output_hidden_states=None, **kwargs):
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        x, (rows, columns) = self.embed(pixel_values)
        embedded = x
        x, kept = self.run(self.blocks, x, keep=range(len(self.blocks)) if wanted else ())
        x = self.norm(self.attend_class(x[:, : rows * columns])[:, 0])
        logits = self.head(x)
        loss = self.loss_function(labels, logits, self.config, **kwargs) if labels is not None else None
        return ImageClassifierOutput(loss=loss, logits=logits, hidden_states=(embedded, *kept) if wanted else None)

    def metadata(self):
        config = self.config.described("vision")
        prepare = self._kept("tost.preprocess")
        prepare = prepare if isinstance(prepare, dict) else {}
        if (prepare.get("size"), prepare.get("channels")) != (config["image_size"], config["in_channels"]):
            prepare = _files.imagenet_preprocess(config["image_size"], config["in_channels"])
        classes = [self.config.id2label[k] for k in range(config["classes"])]
        return _files.describe("vision", config, classes=classes, preprocess=prepare)


_KINDS = {"language": TostForCausalLM, "vision": TostForImageClassification}


def load(path):
    """The model in a run folder, a checkpoint or a model file of the program, in evaluation mode."""
    file = _files.read(path)
    settings = _to_config(file.kind, file.config)
    if file.kind == "vision":
        settings["id2label"] = dict(enumerate(_files.classes_of(file, f"'{path}'")))
    config = TostConfig.from_dict(settings)
    if file.kind == "language" and "transformer.wte.weight" in file.state:
        file.state["lm_head.weight"] = file.state["transformer.wte.weight"]  # tied
    model = _files.build_and_load(lambda: _KINDS[file.kind](config), file, f"'{path}'")
    model.tie_weights()
    model._file_metadata = file.metadata()
    return model


def save(model, path, tokenizer=None):
    """Writes a model file of the program, `path` ending in .safetensors.

    `tokenizer`: of a language model that was made in Python, "bytes" (257 tokens, the last one ends a text) or the program's
    description of one as a dictionary. Without it the file keeps the tokenizer that the model came with.
    """
    need(isinstance(model, TostPreTrainedModel),
         f"tost.hf.save: the model must be one of tost.hf, but is {type(model).__name__}.", TypeError)
    metadata = model.metadata()
    if tokenizer is not None:
        need(model.kind == "language", "tost.hf.save: an image model has no tokenizer; leave it out.")
        described = {"kind": tokenizer} if isinstance(tokenizer, str) else tokenizer
        need(described != {"kind": "bytes"} or model.config.vocab_size >= 257,
             f"tost.hf.save: the tokenizer bytes has 257 tokens, but the model's vocab_size is {model.config.vocab_size}.")
        metadata["tost.tokenizer"] = _files.text(described)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    _files.save(path, tensors, metadata)


STATIC_LAYER_TYPE_MAPPING[StatisticsLayer._layer_type] = StatisticsLayer  # its size does not change
AutoConfig.register("tost", TostConfig)
AutoModelForCausalLM.register(TostConfig, TostForCausalLM)
AutoModelForImageClassification.register(TostConfig, TostForImageClassification)


_DELTA_RULES = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")


def _delta_rule(reference):
    @functools.wraps(reference)
    def run(query, key, value, g, beta, *args, **kwargs):
        if args or not query.is_cpu or any(kwargs.get(name) is not None for name in ("cu_seqlens", "seq_idx")):
            return reference(query, key, value, g, beta, *args, **kwargs)
        names = {"initial_state", "output_final_state", "use_qk_l2norm_in_kernel"} & kwargs.keys()
        return ops.delta_rule(query, key, value, beta, g, **{name: kwargs[name] for name in names})

    run.tost_reference = reference
    return run


def accelerate(on=True):
    """Gives tost.ops.delta_rule to the imported models of transformers whose gated delta rule is a torch reference (Qwen3-Next
    and others), or with False the reference again. Returns the names of their modules."""
    found = {}
    for name in [name for name in sys.modules if name.startswith("transformers.models.")]:
        for rule in _DELTA_RULES:
            function = vars(sys.modules[name]).get(rule)
            if function:
                reference = found[name] = getattr(function, "tost_reference", function)
                setattr(sys.modules[name], rule, _delta_rule(reference) if on else reference)
    return sorted(found)
