"""timm's vision transformers with `attn_layer=tost.timm.attention`: made, masked, trained, traced."""

import pytest
import torch
from torch.testing import assert_close

timm = pytest.importorskip("timm", reason="needs timm")

import timm.optim  # noqa: E402
import tost.timm  # noqa: E402


def vit(**settings):
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 5}
    return timm.create_model("vit_small_patch16_224", **{"attn_layer": tost.timm.attention, **sizes, **settings})


def naflex(**settings):
    sizes = {"patch_size": 4, "embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 5}
    settings = {"attn_layer": tost.timm.attention, **sizes, **settings}
    return timm.create_model("naflexvit_base_patch16_gap", **settings).eval()


def padded(valid, rows=4, columns=5):
    """Patches of pictures with `valid` of them each, and places for all."""
    tokens = rows * columns
    grid = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    places = torch.stack(grid, -1).reshape(1, tokens, 2)
    shown = torch.arange(tokens) < torch.tensor(valid).unsqueeze(1)
    return {
        "patches": torch.randn(len(valid), tokens, 4 * 4 * 3),
        "patch_coord": places * shown.unsqueeze(2),
        "patch_valid": shown,
    }


def test_the_model_of_the_readme_has_our_layers():
    model = timm.create_model("vit_small_patch16_224", attn_layer=tost.timm.attention, depth=1)
    assert isinstance(model.blocks[0].attn, tost.nn.TSSA)
    assert set(dict(model.blocks[0].attn.named_parameters())) == {
        *("qkv.weight", "qkv.bias", "temp", "to_out.0.weight", "to_out.0.bias")
    }
    with torch.no_grad():
        assert model.eval()(torch.randn(1, 3, 224, 224)).shape == (1, 1000)


def test_the_name_works_too():
    layers = [type(m.blocks[0].attn) for m in (vit(attn_layer="tssa"), naflex(attn_layer="tssa"))]
    assert layers == [tost.timm.Attention] * 2


def test_the_layer_is_tssa():
    ours, plain = tost.timm.attention(48, 3, qkv_bias=True), tost.nn.TSSA(48, 3, qkv_bias=True)
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(2, 17, 48)
    assert_close(ours(x), plain(x))
    assert tost.check_tssa(ours)


def test_training_lowers_the_loss_and_reaches_every_parameter():
    model = vit(drop_path_rate=0.1, proj_drop_rate=0.1, attn_drop_rate=0.1)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=3e-3)
    pictures, labels = torch.randn(16, 3, 32, 32), torch.arange(16) % 5
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_padding_of_naflexvit_changes_nothing():
    for model in (naflex(), naflex(use_key_only_attn_mask=True), naflex(class_token=True, reg_tokens=2)):
        batch = padded([20, 10])
        with torch.no_grad():
            both = model(batch)
            alone = model({key: value[1:, :10] for key, value in batch.items()})
        assert_close(both[1:], alone, rtol=1e-5, atol=1e-5)


def test_padding_may_be_anywhere():
    layer = tost.timm.attention(24, 3)
    x, valid = torch.randn(2, 9, 24), torch.rand(2, 9) < 0.6
    for mask in (valid[:, None, None], valid[:, None, None] & valid[:, None, :, None]):
        y = layer(x, attn_mask=mask)
        for b in range(2):
            assert_close(y[b, valid[b]], layer(x[b : b + 1, valid[b]])[0], rtol=1e-5, atol=1e-6)


def test_masks_of_pairs_are_refused():
    layer, x = tost.timm.attention(24, 3), torch.randn(1, 6, 24)
    with pytest.raises(ValueError, match="selects pairs"):
        layer(x, attn_mask=torch.ones(6, 6, dtype=torch.bool).tril())
    with pytest.raises(ValueError, match="CausalTSSA"):
        layer(x, is_causal=True)
    with pytest.raises(ValueError, match="no gate"):
        tost.timm.attention(24, 3, gated=True)


def test_features_of_every_block():
    found = vit().eval().get_intermediate_layers(torch.randn(1, 3, 32, 32), n=2)
    assert [features.shape for features in found] == [(1, 16, 48)] * 2


def test_compiled():
    model, x = vit().eval(), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x), rtol=1e-5, atol=1e-5)
