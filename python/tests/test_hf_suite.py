"""What transformers' own tests ask of every model; TOST_TRANSFORMERS_TESTS is the folder tests of its source distribution."""

import os
import pathlib
import sys
import types
import unittest

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers")
folder = os.environ.get("TOST_TRANSFORMERS_TESTS", "")
if not pathlib.Path(folder, "test_modeling_common.py").is_file():
    pytest.skip("needs transformers' tests; name their folder in TOST_TRANSFORMERS_TESTS", allow_module_level=True)
from tost.hf import TostConfig, TostForCausalLM, TostForImageClassification  # noqa: E402


def stand_in(name, **content):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(__path__=[], **content)


# The source distribution leaves these two out.
stand_in("tests")
sys.modules["tests"].__path__ = [folder]
stand_in("tests.exporters")
stand_in("tests.exporters.test_export", ExportTesterMixin=type("ExportTesterMixin", (), {}))
stand_in("tests.generation")
stand_in("tests.generation.test_utils", GenerationTesterMixin=type("GenerationTesterMixin", (), {}))
from tests.generation.test_utils import GenerationTesterMixin  # noqa: E402
from tests.test_modeling_common import ModelTesterMixin, floats_tensor, ids_tensor  # noqa: E402


class Language:
    batch_size, seq_length, hidden_size, num_hidden_layers, num_attention_heads, vocab_size = 3, 7, 24, 2, 3, 61
    is_training = True

    def get_config(self):
        sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 61}
        return TostConfig(**sizes, n_positions=64, layer_scale=1.0)

    def prepare_config_and_inputs_for_common(self):
        mask = torch.ones(3, 7, dtype=torch.int64)
        return self.get_config(), {"input_ids": ids_tensor([3, 7], 61), "attention_mask": mask}


class Image:
    batch_size, seq_length, hidden_size, num_hidden_layers, num_attention_heads = 3, 16, 32, 2, 4
    is_training = True

    def get_config(self):
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        return TostConfig(**sizes, image_size=16, patch_size=4, num_labels=3)

    def prepare_config_and_inputs_for_common(self):
        return self.get_config(), {"pixel_values": floats_tensor([3, 3, 16, 16])}


class LanguageTest(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    all_model_classes = (TostForCausalLM,)
    has_attentions = False
    model_tester = Language()

    def _prepare_for_class(self, inputs, model_class, return_labels=False):
        return {**inputs, "labels": inputs["input_ids"]} if return_labels else dict(inputs)


class ImageTest(ModelTesterMixin, unittest.TestCase):
    all_model_classes = (TostForImageClassification,)
    has_attentions = False
    test_resize_embeddings = False
    model_tester = Image()

    def _prepare_for_class(self, inputs, model_class, return_labels=False):
        return {**inputs, "labels": torch.tensor([0, 2, 1])} if return_labels else dict(inputs)

    @unittest.skip("Pictures are embedded by convolutions.")
    def test_model_get_set_embeddings(self):
        pass


del ModelTesterMixin, GenerationTesterMixin
