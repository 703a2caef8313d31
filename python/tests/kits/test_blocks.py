"""Blocks in networks of others: the bottleneck of a U-Net, the encoder of iTransformer."""

import pytest
import torch
from torch.testing import assert_close

import tost.blocks


def test_a_map_block_takes_all_sides_and_changes_channels():
    block = tost.blocks.MapBlock(24, 64).eval()
    for sides in ((5, 7), (1, 1)):
        assert block(torch.randn(2, 24, *sides)).shape == (2, 64, *sides)
    assert block.attn.num_heads == 2
    assert tost.check_model(block)


@pytest.mark.parametrize("width, heads", [(8, 1), (48, 1), (100, 4), (97, 1), (256, 8)])
def test_heads_divide_the_width(width, heads):
    assert tost.blocks.heads_of(width) == heads


def test_the_bottleneck_of_a_u_net():
    smp = pytest.importorskip("segmentation_models_pytorch", reason="needs segmentation_models_pytorch")
    model = smp.Unet("resnet18", encoder_weights=None, encoder_depth=3, decoder_channels=(32, 16, 16), classes=2)
    model.decoder.center = tost.blocks.MapBlock(model.encoder.out_channels[-1])
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    pictures = torch.randn(4, 3, 32, 48)
    labels = (pictures.mean(1) > 0).long()
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert model.decoder.center.attn.temp.grad.abs().sum() > 0


def test_the_encoder_of_itransformer():
    forecast = pytest.importorskip("neuralforecast", reason="needs neuralforecast")
    import numpy
    import pandas
    from neuralforecast.models import iTransformer

    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    model = iTransformer(
        h=4, input_size=12, n_series=3, hidden_size=32, n_heads=4, d_ff=32, max_steps=20, enable_model_summary=False, **quiet
    )
    for layer in model.encoder.attn_layers:
        layer.attention = tost.blocks.AttentionLayer(32, 4)
    days = pandas.date_range("2020-01-01", periods=80)
    waves = numpy.sin(numpy.arange(80)[None] * numpy.array([[0.3], [0.5], [0.7]]))
    table = pandas.concat(
        [pandas.DataFrame({"unique_id": str(i), "ds": days, "y": wave}) for i, wave in enumerate(waves)]
    )
    network = forecast.NeuralForecast(models=[model], freq="D")
    network.fit(table)
    found = network.predict()
    assert len(found) == 12 and numpy.isfinite(found["iTransformer"]).all()


def test_the_attention_layer_refuses_what_tssa_is_not():
    layer, x = tost.blocks.AttentionLayer(32, 4), torch.randn(2, 7, 32)
    y, attention = layer(x, x, x, attn_mask=None, tau=None, delta=None)
    assert attention is None
    assert_close(y, layer.attn(x))
    with pytest.raises(ValueError, match="pass one tensor"):
        layer(x, x.clone(), x)
    with pytest.raises(ValueError, match="no mask"):
        layer(x, x, x, torch.ones(7, 7))
