"""Times of the delta rule: kernels, the chunked form in torch, and the reference of transformers if it is installed.
With --means those of group means: kernels and the plain form.

usage: delta.py [--threads N] [--rounds N] [--shapes 8x1024,1x16384] [--cpu] [--means | --no-transformers]; TOST_ISA=avx2 sets the kernels' instruction set.
Candidates take turns in every round; medians in milliseconds, with --cpu of CPU time.
"""

import argparse
import statistics
import time

import torch

import tost
from tost import ops, plain


clock = time.perf_counter


def draw(batch, tokens, heads, width, dtype=torch.float32):
    q, k, v = (torch.randn(batch, tokens, heads, width, dtype=dtype) for _ in range(3))
    q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    return q, k, v, torch.rand(batch, tokens, heads, dtype=dtype), -0.1 * torch.rand(batch, tokens, heads)


def compare(name, rounds, **candidates):
    times = {key: [] for key in candidates}
    for turn in range(rounds + 1):
        for key, run in candidates.items():
            begin = clock()
            run()
            if turn > 0:
                times[key].append(1000 * (clock() - begin))
    found = {key: statistics.median(all) for key, all in times.items()}
    kernels, *others = found.values()
    print(f"{name:44}", *(f"{key} {ms:.4g}" for key, ms in found.items()), *(f"ratio {x / kernels:.1f}" for x in others[-1:]))


def core(shape, rounds):
    inputs = [x.requires_grad_() for x in draw(*map(int, shape.split("x")), 12, 64)]
    grad = torch.randn_like(inputs[2])

    def both(rule):
        torch.autograd.grad(rule()[0], inputs, grad)

    fused, chunked = lambda: ops.delta_rule(*inputs, scale=1.0), lambda: plain.delta_rule(*inputs)
    with torch.no_grad():
        compare(f"{shape} tokens, 12 heads of 64, forward", rounds, kernels=fused, chunked=chunked)
    compare("  forward and backward", rounds, kernels=lambda: both(fused), chunked=lambda: both(chunked))


def means(shape, rounds):
    base, values, weights, pi, rates = draw(*map(int, shape.split("x")), 12, 64)
    inputs = [x.detach().requires_grad_() for x in (base.flatten(2), values.flatten(2), pi, torch.rand(768), rates[0, 0])]
    grad = weights.flatten(2)

    def both(form):
        torch.autograd.grad(form(*inputs, from_end=6)[0], inputs, grad)

    compare(f"group means, {shape} tokens, 12 heads of 64", rounds, kernels=lambda: both(ops.group_means),
            plain=lambda: both(plain.group_means))


def reference(rounds):
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM
    from transformers.models.qwen3_next import modeling_qwen3_next as modeling

    import tost.hf

    def in_turn(name, rounds, run):
        def on():
            tost.hf.accelerate()
            run()
            tost.hf.accelerate(False)

        with torch.no_grad():
            compare(name, rounds, kernels=on, transformers=run)

    q, k, v, beta, g = draw(1, 2048, 32, 128)
    settings = {"g": g, "beta": beta, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    rule = "torch_chunk_gated_delta_rule"
    in_turn("operator, 2,048 tokens, 32 heads of 128", rounds, lambda: getattr(modeling, rule)(q, k, v, **settings))
    state = torch.randn(1, 32, 128, 128)
    one = [x[:, :1] for x in (q, k, v)]
    settings = {**settings, "g": g[:, :1], "beta": beta[:, :1], "initial_state": state}

    def steps():
        for _ in range(20):
            modeling.torch_recurrent_gated_delta_rule(*one, **settings)

    in_turn("operator, 20 single tokens", rounds, steps)
    torch.manual_seed(0)
    config = Qwen3NextConfig(
        vocab_size=1024, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=2, head_dim=64, linear_num_key_heads=4, linear_num_value_heads=8, linear_key_head_dim=128,
        linear_value_head_dim=128, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=256,
        shared_expert_intermediate_size=256, decoder_sparse_step=1, mlp_only_layers=[],
    )  # fmt: skip
    model = Qwen3NextForCausalLM(config).eval()
    tokens = torch.randint(0, 1024, (1, 2048))
    in_turn("small Qwen3-Next, prefill of 2,048 tokens", rounds, lambda: model(tokens))
    text = tokens[:, :16]
    with torch.no_grad():
        in_turn("  32 new tokens", rounds, lambda: model.generate(text, max_new_tokens=32, do_sample=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default="8x1024,1x16384")
    parser.add_argument("--means", action="store_true")
    parser.add_argument("--no-transformers", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    if options.cpu:
        global clock
        clock = time.process_time
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {tost._C.isa()}, {options.threads} threads")
    for shape in options.shapes.split(","):
        (means if options.means else core)(shape, options.rounds)
    if not options.means and not options.no_transformers:
        reference(options.rounds)


if __name__ == "__main__":
    main()
