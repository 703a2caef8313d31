"""The models of timm: the official numbers, the program's files, and what timm asks of every model."""

import copy
import io
import json
import os
import pickle

import pytest
import torch
from torch.testing import assert_close

timm = pytest.importorskip("timm", reason="needs timm")
pytest.importorskip("safetensors", reason="needs safetensors")
from safetensors.torch import load_file, save_file  # noqa: E402
from tost import vision  # noqa: E402

SMALL = {"embed_dim": 32, "depth": 3, "num_heads": 4, "num_classes": 7, "img_size": 32}


def small(name="tost_nano_p4", **kwargs):
    return timm.create_model(name, **{**SMALL, **kwargs})


@pytest.mark.parametrize("name, patch, bias", [("vision_tssa_p16", 16, False), ("vision_tssa_p8_rect", 8, True)])
def test_recorded_logits_and_gradients(parity, name, patch, bias):
    state, expected = parity(name)
    model = timm.create_model(
        f"tost_cab_tiny_12_p{patch}",
        embed_dim=32,
        depth=2,
        num_heads=4,
        qkv_bias=bias,
        num_classes=10,
        img_size=tuple(expected["input"].shape[2:]),
    )
    model.load_state_dict(state)
    model.eval()
    logits, blocks = model(expected["input"]), model.forward_intermediates(expected["input"], output_fmt="NLC")[1]
    assert_close(logits, expected["logits"], rtol=1e-5, atol=1e-5)
    for i, block in enumerate(blocks):
        assert_close(block, expected[f"block.{i}.output"], rtol=1e-5, atol=1e-5)
    loss = torch.nn.functional.cross_entropy(logits, expected["target"])
    assert_close(loss.view(1), expected["loss"], rtol=1e-5, atol=1e-5)
    loss.backward()
    for key, parameter in model.named_parameters():
        wanted = expected[f"grad.{key}"]
        assert_close(parameter.grad, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()), msg=key)


def test_presets_are_the_programs(program):
    rows = [line.split() for line in program("info", "--models").splitlines() if line.startswith("tost_")]
    rows = [row for row in rows if row[0].startswith(("tost_cab", "tost_nano", "tost_micro", "tost_patch"))]
    assert {row[0] for row in rows} == set(timm.list_models("tost_*")) and len(rows) == 21
    for name, side, patch, dim, depth, heads, parameters, _ in rows:
        model = timm.create_model(name, device="meta")
        assert sum(p.numel() for p in model.parameters()) == int(parameters.replace(",", "")), name
        assert model.default_cfg["input_size"] == (3, int(side), int(side))
        assert (model.patch_embed.patch, model.embed_dim, len(model.blocks)) == (int(patch), int(dim), int(depth))
        assert model.blocks[0].attn.num_heads == int(heads)


def picture(path, side=32):
    from PIL import Image

    pixels = torch.randint(0, 256, (side, side, 3), dtype=torch.uint8)
    image = Image.fromarray(pixels.numpy())
    image.save(path)
    return image


def probabilities(program, model, picture, classes):
    said = json.loads(program("predict", model, picture, "--json", "--top", len(classes), "--threads", 1))
    found = {entry["class"]: entry["probability"] for entry in said["predictions"][0]["top"]}
    return torch.tensor([found[name] for name in classes])


def test_a_run_gives_the_programs_probabilities_and_goes_back(program, image_run, tmp_path):
    model = vision.load(image_run)
    assert not model.training and all(p.requires_grad for p in model.parameters())
    classes = model.pretrained_cfg["label_names"]
    assert classes[:3] == ("disc", "square", "triangle")
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    x = transform(picture(tmp_path / "x.png")).unsqueeze(0)

    def compare(path):
        with torch.no_grad():
            found = model(x).softmax(1)[0]
        assert_close(found, probabilities(program, path, tmp_path / "x.png", classes), rtol=0, atol=1e-5)
        return found

    before = compare(image_run)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    vision.save(model, tmp_path / "back.safetensors")
    after = compare(tmp_path / "back.safetensors")
    assert (after - before).abs().max() > 1e-3

    again = vision.load(tmp_path / "back.safetensors")
    assert again.pretrained_cfg == model.pretrained_cfg
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), model.state_dict().values()))


def test_what_the_program_says_of_a_model_stays(program, image_run, tmp_path):
    vision.save(vision.load(image_run), tmp_path / "model.safetensors")
    program("convert", tmp_path / "model.safetensors", tmp_path / "back.safetensors")
    program("convert", image_run, tmp_path / "direct.safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == (tmp_path / "direct.safetensors").read_bytes()


def test_files_and_folders_by_timms_own_ways(program, image_run, tmp_path):
    model = vision.load(image_run)
    (file,) = image_run.glob("checkpoints/step-*/model.safetensors")
    x = torch.randn(2, 3, 32, 32)
    for other in (vision.load(file), vision.load(file.parent), timm.create_model("tost_nano_p4", checkpoint_path=file)):
        assert torch.equal(other.eval()(x), model(x))
    program("convert", image_run, tmp_path / "timm", "--to", "timm")
    other = timm.create_model(f"local-dir:{tmp_path}/timm", pretrained=True).eval()
    assert torch.equal(other(x), model(x))
    configs = [timm.data.resolve_model_data_config(m) for m in (other, model)]
    assert json.dumps(configs[0]) == json.dumps(configs[1])


@pytest.mark.parametrize("tokens_norm", [False, True])
def test_every_setting_means_what_the_program_means(program, tmp_path, tokens_norm):
    settings = {"reg_tokens": 3, "stem_depth": 2 if tokens_norm else 0, "cls_attn_layers": 3, "mlp_ratio": 2.5, "qkv_bias": False}
    model = small("tost_nano_p2", tokens_norm=tokens_norm, in_chans=1, **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    classes = [f"class {k}" for k in range(7)]
    vision.save(model, tmp_path / "model.safetensors", classes)
    again = vision.load(tmp_path / "model.safetensors")
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(again))
    grey = picture(tmp_path / "x.png").convert("L")
    grey.save(tmp_path / "x.png")
    x = transform(grey).unsqueeze(0)
    assert x.shape == (1, 1, 32, 32)
    assert_close(again(x), model(x), rtol=1e-6, atol=1e-6)  # products depend on where in memory the weights are
    wanted = probabilities(program, tmp_path / "model.safetensors", tmp_path / "x.png", classes)
    assert_close(model(x).softmax(1)[0], wanted, rtol=0, atol=1e-5)


# What timm's own tests ask of every model.


@pytest.mark.parametrize("name", ["tost_nano_p4", "tost_cab_tiny_12_p16"])
def test_forward_and_backward(name):
    model = timm.create_model(name, depth=2, embed_dim=32, num_heads=4, num_classes=7)
    side = model.default_cfg["input_size"][1]
    y = model(torch.randn(2, 3, side, side))
    assert y.shape == (2, 7) and y.isfinite().all()
    y.square().mean().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_sizes_channels_and_default_cfg():
    model = small(img_size=(24, 40), in_chans=1)
    assert model(torch.randn(1, 1, 24, 40)).shape == model(torch.randn(1, 1, 16, 8)).shape == (1, 7)
    state = model.state_dict()
    assert f"{model.default_cfg['classifier']}.weight" in state and f"{model.default_cfg['first_conv']}.weight" in state
    with pytest.raises(ValueError, match="Pictures of 30 x 32 pixels do not divide into patches of 4 x 4"):
        model(torch.randn(1, 1, 30, 32))


def test_classifier_and_pooling():
    model = small().eval()
    x = torch.randn(2, 3, 32, 32)
    features = model.forward_features(x)
    assert features.shape == (2, 65, 32) and model.num_features == model.head_hidden_size == 32
    assert torch.equal(model.forward_head(features), model(x))
    assert torch.equal(model.forward_head(features, pre_logits=True), features[:, 0])
    assert model.get_classifier() is model.head
    model.reset_classifier(3, "avg")
    assert_close(model(x), model.get_classifier()(features[:, 1:].mean(1)))
    assert model.num_classes == 3 and model(x).shape == (2, 3)
    model.reset_classifier(0, "")
    assert torch.equal(model(x), features)
    pooled = small(num_classes=0, global_pool="avg").eval()
    assert pooled(x).shape == (2, 32)
    with pytest.raises(ValueError, match="global_pool must be 'token', 'avg' or '', but is 'max'"):
        model.reset_classifier(3, "max")


def test_intermediates():
    model = small(reg_tokens=2).eval()
    x = torch.randn(2, 3, 32, 24)
    final, maps = model.forward_intermediates(x, indices=[0, 2])
    assert torch.equal(final, model.forward_features(x))
    assert [m.shape for m in maps] == [(2, 32, 8, 6)] * 2
    y, _ = model.embed(x)
    for block, found in zip(model.blocks, (maps[0], None, maps[1])):
        y = block(y)
        if found is not None:
            assert_close(y[:, :48], found.flatten(2).transpose(1, 2))
    tokens = model.forward_intermediates(x, indices=1, output_fmt="NLC", intermediates_only=True, norm=True)
    assert_close(tokens[0], model.norm(maps[1].flatten(2).transpose(1, 2)))
    features = small(reg_tokens=2, features_only=True, out_indices=(0, 2)).eval()
    features.model.load_state_dict(model.state_dict(), strict=False)
    for a, b in zip(features(x), maps, strict=True):
        assert_close(a, b)
    assert features.feature_info.channels() == [32, 32] and features.feature_info.reduction() == [4, 4]
    assert len(small(features_only=True)(x)) == 3
    assert model.prune_intermediate_layers([1]) == [1]
    assert len(model.blocks) == 2 and model.cls_token is None
    pruned = model.forward_intermediates(x, indices=[0], intermediates_only=True)
    assert_close(pruned[0], maps[0])


def test_checkpointing_gives_the_same_gradients():
    model = small(drop_path_rate=0.0)
    x, found = torch.randn(2, 3, 32, 32), []
    for on in (False, True):
        model.set_grad_checkpointing(on)
        model.zero_grad()
        model(x).square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*found):
        assert_close(a, b)


def test_saved_and_copied():
    model = small().eval()
    x = torch.randn(2, 3, 32, 32)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), model(x))
    assert torch.equal(copy.deepcopy(model)(x), model(x))


def test_compiled():
    torch._dynamo.reset()
    model = small().eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend="aot_eager")
    x = torch.randn(2, 3, 32, 32)
    y, expected = compiled(x), model(x)
    assert_close(y, expected, rtol=1e-4, atol=1e-5)
    found, wanted = (torch.autograd.grad(z.square().sum(), model.parameters()) for z in (y, expected))
    for a, b in zip(found, wanted):
        assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_features_by_tracing():
    pytest.importorskip("torchvision", reason="needs torchvision")
    from timm.models import create_feature_extractor

    model = small().eval()
    x = torch.randn(2, 3, 32, 24)
    traced = create_feature_extractor(model, {"blocks.1": "tokens", "head": "logits"})(x)
    assert torch.equal(traced["logits"], model(x)) and traced["tokens"].shape == (2, 48, 32)


def test_stochastic_depth_keeps_the_mean():
    model = small(drop_path_rate=0.5, depth=1)
    block = model.blocks[0]
    x = torch.randn(1, 9, 32)
    branches = block.drop_path(torch.ones(4000, 1, 1))
    assert set(branches.flatten().tolist()) == {0.0, 2.0} and abs(float(branches.mean()) - 1) < 0.1
    block.drop_path.probability = 1 - 1e-12
    assert torch.equal(block(x), x) and not torch.equal(block.eval()(x), x)


def test_decay_and_groups():
    from timm.optim import param_groups_weight_decay

    model = small(reg_tokens=2)
    free, decayed = (
        g["params"] for g in param_groups_weight_decay(model, 0.1, no_weight_decay_list=model.no_weight_decay())
    )
    decayed = {name for name, p in model.named_parameters() if any(p is q for q in decayed)}
    assert "blocks.0.attn.temp" in decayed and not decayed & {"cls_token", "registers", "blocks.0.gamma1", "norm.bias"}
    groups = timm.models.group_parameters(model, model.group_matcher())
    assert sum(len(names) for names in groups.values()) == len(list(model.named_parameters()))
    assert len(groups) > len(model.blocks)


def test_what_the_program_has_no_place_for_is_not_written(tmp_path):
    for words, model in (
        ("pool the class token", small(global_pool="avg")),
        ("pool the class token", small(num_classes=0)),
        ("square pictures", small(img_size=(32, 16))),
        ("'classes' must be|class names", small()),
    ):
        with pytest.raises(ValueError, match=words):
            vision.save(model, tmp_path / "model.safetensors", ["one"] if words.startswith("'classes'") else None)
    with pytest.raises(TypeError, match="must be a tost.vision.Tost, but is Linear"):
        vision.save(torch.nn.Linear(1, 1), tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


# Files that are not what they should be.


def change(path, image_run, tensors=None, **metadata):
    from safetensors import safe_open

    (file,) = image_run.glob("checkpoints/step-*/model.safetensors")
    with safe_open(file, "pt") as opened:
        said = opened.metadata()
    for key, value in metadata.items():
        if callable(value):
            said[f"tost.{key}"] = json.dumps(value(json.loads(said[f"tost.{key}"])))
        elif value is None:
            del said[f"tost.{key}"]
        else:
            said[f"tost.{key}"] = value
    state = load_file(file)
    state.update(tensors or {})
    save_file(state, path, said)
    return path


@pytest.mark.parametrize(
    "words, changes",
    [
        ("not a model file of the program", {"config": None}),
        ("no readable 'tost.config'", {"config": "{"}),
        ("holds a language model; a vision model", {"kind": "language"}),
        ("its mixer is 'xca'", {"config": lambda c: {**c, "mixer": "xca"}}),
        ("unknown setting 'colour'", {"config": lambda c: {**c, "colour": 1}}),
        ("lacks the setting 'dim'", {"config": lambda c: {k: v for k, v in c.items() if k != "dim"}}),
        ("'depth' must be from 1 to 1024, but is 1000000000", {"config": lambda c: {**c, "depth": 10**9}}),
        ("'depth' must be from 1 to 1024, but is True", {"config": lambda c: {**c, "depth": True}}),
        ("'mlp_ratio' must be from 0.0001 to 64.0, but is '4'", {"config": lambda c: {**c, "mlp_ratio": "4"}}),
        ("'qkv_bias' must be of the type bool, but is 1", {"config": lambda c: {**c, "qkv_bias": 1}}),
        ("must be a JSON object, but is list", {"config": "[]"}),
        ("no readable 'tost.config'", {"config": "[" * 100000}),
        ("names of its 10 classes", {"classes": lambda c: c[1:]}),
        ("no readable 'tost.classes'", {"classes": None}),
        ("does not fit a model of 3 channels", {"preprocess": lambda p: {**p, "channels": 1}}),
        ("does not fit a model of 3 channels", {"preprocess": lambda p: {**p, "mean": ["a", "b", "c"]}}),
        ("does not fit a model of 3 channels", {"preprocess": "7"}),
        ("does not fit a model of 3 channels", {"preprocess": lambda p: {**p, "std": 7}}),
        ("own description: tensor '.*' must be .16384., but is .64.", {"config": lambda c: {**c, "dim": 16384}}),
        ("own description: it lacks the tensor 'blocks.6.gamma1'.", {"config": lambda c: {**c, "depth": 7}}),
        ("own description: it has the unknown tensor 'other'.", {"tensors": {"other": torch.ones(3)}}),
        ("'norm.bias' must be like torch.float32, but is torch.int64", {"tensors": {"norm.bias": torch.ones(64).long()}}),
        ("'norm.bias' must be like .*complex64", {"tensors": {"norm.bias": torch.ones(64, dtype=torch.complex64)}}),
        ("'.*strange.* describes a model that cannot be: TSSA: 5 heads", {"config": lambda c: {**c, "heads": 5}}),
        ("weights in fewer bits", {"precision": "int8"}),
        ("'norm.bias' that are not finite", {"tensors": {"norm.bias": torch.full((64,), torch.inf)}}),
    ],
)
def test_strange_files_are_refused(image_run, tmp_path, words, changes):
    file = change(tmp_path / "strange.safetensors", image_run, **changes)
    with pytest.raises(ValueError, match=words) as caught:
        vision.load(file)
    assert "\n" not in str(caught.value)


def test_pickles_and_missing_files_are_refused(tmp_path, image_run):
    torch.save({"model": {}}, tmp_path / "model.pth")
    with pytest.raises(ValueError, match="not a .safetensors file; `python -m tost.convert"):
        vision.load(tmp_path / "model.pth")
    torch.save({"model": {}}, tmp_path / "zip.safetensors")
    (tmp_path / "pickle.safetensors").write_bytes(pickle.dumps({"model": os.system}))
    for name in ("zip", "pickle"):
        with pytest.raises(ValueError, match=r"file: a file of torch.save\(\) or pickle, which is not read here"):
            vision.load(tmp_path / f"{name}.safetensors")
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(ValueError, match="is missing or not a regular file"):
        vision.load(tmp_path / "pipe.safetensors")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        vision.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds no checkpoint"):
        vision.load(tmp_path)
    (tmp_path / "short.safetensors").write_bytes(b"12345678")
    with pytest.raises(ValueError, match="not an intact safetensors file"):
        vision.load(tmp_path / "short.safetensors")
    for index in ("[]", "{", '{"weight_map": {"a": 1}}', "[" * 100000):
        (tmp_path / "model.safetensors.index.json").write_text(index)
        with pytest.raises(ValueError, match="is not an index of shards"):
            vision.load(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../b.safetensors"}}')
    with pytest.raises(ValueError, match="must name .safetensors files in its own folder"):
        vision.load(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best").write_text("../../elsewhere")
    with pytest.raises(ValueError, match="must name a checkpoint folder next to it"):
        vision.load(tmp_path)
