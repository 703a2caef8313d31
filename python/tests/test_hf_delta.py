"""tost.hf.accelerate(): the kernels in the place of the torch reference of a model with the gated delta rule."""

import pytest
import torch
from torch.testing import assert_close

transformers = pytest.importorskip("transformers", minversion="5.0", reason="needs transformers")
pytest.importorskip("safetensors", reason="needs safetensors")
modeling = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next", reason="needs Qwen3-Next")
import tost  # noqa: E402
from tost import hf  # noqa: E402


@pytest.fixture
def accelerated():
    assert modeling.__name__ in hf.accelerate()
    yield
    hf.accelerate(False)


def small_model():
    config = transformers.Qwen3NextConfig(
        vocab_size=61, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
        linear_value_head_dim=24, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=32, decoder_sparse_step=1, mlp_only_layers=[],
    )  # fmt: skip
    model = transformers.Qwen3NextForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        if "A_log" in name:
            parameter.data.uniform_(-4, 0)
    return model


def calls(monkeypatch):
    """How often the kernels ran."""
    count, kernel = [], tost.ops.delta_rule
    monkeypatch.setattr(tost.ops, "delta_rule", lambda *x, **settings: count.append(1) or kernel(*x, **settings))
    return count


def test_logits_gradients_and_generated_tokens_are_those_of_the_reference(monkeypatch):
    model, count = small_model(), calls(monkeypatch)
    tokens = torch.randint(0, 61, (2, 150))

    def run():
        logits = model(tokens).logits
        (grad,) = torch.autograd.grad(logits.square().mean(), model.model.embed_tokens.weight)
        return logits, grad, model.generate(tokens[:, :100], max_new_tokens=12, do_sample=False)

    wanted = run()
    assert not count
    assert modeling.__name__ in hf.accelerate()
    try:
        found = run()
    finally:
        hf.accelerate(False)
    assert len(count) == 3 * (1 + 12)  # of the layers with the delta rule
    assert_close(found[0], wanted[0], rtol=0, atol=1e-4)
    assert_close(found[1], wanted[1], rtol=0, atol=1e-4 * wanted[1].abs().max().item())
    assert torch.equal(found[2], wanted[2])
    count.clear()
    model(tokens)
    assert not count


def test_both_functions_are_those_of_the_reference(accelerated):
    unit = torch.nn.functional.normalize
    q, k = (unit(torch.randn(2, 70, 3, 16), dim=-1) for _ in range(2))
    v, beta, g = torch.randn(2, 70, 3, 8), torch.rand(2, 70, 3), -torch.rand(2, 70, 3)
    state = torch.randn(2, 3, 16, 8)
    for rule in hf._DELTA_RULES:
        for settings in {}, {"initial_state": state, "output_final_state": True, "use_qk_l2norm_in_kernel": True}:
            found = getattr(modeling, rule)(q, k, v, g=g, beta=beta, **settings)
            wanted = getattr(modeling, rule).__wrapped__(q, k, v, g=g, beta=beta, **settings)
            assert_close(found, wanted, rtol=0, atol=1e-5)


def test_packed_sequences_stay_with_the_reference(accelerated):
    q = torch.randn(1, 8, 1, 4)
    with pytest.raises(ValueError, match="packed sequences"):
        modeling.torch_chunk_gated_delta_rule(q, q, q, g=q[..., 0], beta=q[..., 0], cu_seqlens=torch.tensor([0, 3, 8]))
