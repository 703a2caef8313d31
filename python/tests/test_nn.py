"""The layers: the official numbers and parameter names, layouts, states, and what people do with modules."""

import copy
import io
import pickle
import shutil
import threading

import pytest
import reference
import torch
import torch.multiprocessing
from torch.nn.functional import cross_entropy, gelu, layer_norm, linear
from torch.testing import assert_close

import tost
from tost.nn import TSSA, CausalTSSA


def pair(dim=48, heads=4, bias=True):
    """This package's layer and the official one with the same weights, of which none is at its start."""
    ours, theirs = TSSA(dim, heads, qkv_bias=bias), reference.Layer(dim, heads, qkv_bias=bias)
    with torch.no_grad():
        theirs.temp.uniform_(0.5, 2)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def causal_pair(dim=48, heads=4, positions=80):
    ours, theirs = CausalTSSA(dim, heads, positions, bias=True), reference.CausalLayer(dim, heads, positions, bias=True)
    with torch.no_grad():
        theirs.temp.uniform_(0.5, 2)
        theirs.denom_bias.normal_(0, 0.1)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def compare(ours, theirs, x, tolerance=1e-5):
    """With the official layer in float64, whose rounding is none of this package's."""
    theirs, exact = copy.deepcopy(theirs).double(), x.detach().double().requires_grad_()
    y, expected = ours(x), theirs(exact)
    assert_close(y.double(), expected, rtol=tolerance, atol=tolerance)
    weights = torch.randn_like(y)
    found = torch.autograd.grad(y, [x, *ours.parameters()], weights)
    wanted = dict(theirs.named_parameters())
    order = [exact, *(wanted[name] for name, _ in ours.named_parameters())]
    for a, b in zip(found, torch.autograd.grad(expected, order, weights.double())):
        assert_close(a.double(), b, rtol=tolerance, atol=tolerance * float(b.abs().max()))


@pytest.mark.parametrize("bias", [False, True])
def test_layer_is_the_official_one(bias):
    compare(*pair(bias=bias), torch.randn(2, 37, 48, requires_grad=True))


def test_causal_layer_is_the_official_one():
    compare(*causal_pair(), torch.randn(2, 75, 48, requires_grad=True))


def test_state_dicts_go_both_ways():
    ours, theirs = pair()
    assert list(ours.state_dict()) == ["temp", "qkv.weight", "qkv.bias", "to_out.0.weight", "to_out.0.bias"]
    theirs.load_state_dict(ours.state_dict())
    ours, theirs = causal_pair()
    theirs.load_state_dict(ours.state_dict())


def test_recorded_vision_block(parity):
    for name in ("vision_tssa_p16", "vision_tssa_p8_rect"):
        state, expected = parity(name)
        weights = {k.removeprefix("blocks.1."): v for k, v in state.items() if k.startswith("blocks.1.")}
        layer = TSSA(32, 4, qkv_bias="attn.qkv.bias" in weights)
        layer.load_state_dict({k.removeprefix("attn."): v for k, v in weights.items() if k.startswith("attn.")})

        def norm(x, name):
            return layer_norm(x, (32,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-6)

        x = expected["block.0.output"]
        y, pi = layer(norm(x, "norm1"), return_memberships=True)
        x = x + weights["gamma1"] * y
        h = gelu(linear(norm(x, "norm2"), weights["mlp.fc1.weight"], weights["mlp.fc1.bias"]))
        x = x + weights["gamma2"] * linear(h, weights["mlp.fc2.weight"], weights["mlp.fc2.bias"])
        assert_close(pi, expected["block.1.membership"], rtol=1e-5, atol=1e-5)
        assert_close(x, expected["block.1.output"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["lang_tssa", "lang_tssa_bias_short"])
def test_recorded_language_model_and_gradients(parity, name):
    state, expected = parity(name)
    state = {k.removeprefix("transformer."): v.requires_grad_() for k, v in state.items()}

    def part(x, name, work, *more):
        return work(x, *more, state[f"{name}.weight"], state.get(f"{name}.bias"))

    idx = expected["idx"]
    x = state["wte.weight"][idx] + state["wpe.weight"][: idx.shape[1]]
    layers = {}
    for i in range(2):
        block = f"h.{i}"
        layer = layers[block] = CausalTSSA(32, 4, 96, bias=f"{block}.attn.c_attn.bias" in state)
        prefix = f"{block}.attn."
        layer.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
        x = x + state[f"{block}.gamma1"] * layer(part(x, f"{block}.ln_1", layer_norm, (32,)))
        h = gelu(part(part(x, f"{block}.ln_2", layer_norm, (32,)), f"{block}.mlp.c_fc", linear))
        x = x + state[f"{block}.gamma2"] * part(h, f"{block}.mlp.c_proj", linear)
        assert_close(x, expected[f"block.{i}.output"], rtol=1e-5, atol=1e-5)
    logits = linear(part(x, "ln_f", layer_norm, (32,)), state["wte.weight"])
    assert_close(logits, expected["logits"], rtol=1e-5, atol=1e-5)
    loss = cross_entropy(logits.flatten(0, 1), expected["targets"].flatten())
    assert_close(loss.view(1), expected["loss"], rtol=1e-5, atol=1e-5)
    loss.backward()
    for block, layer in layers.items():
        for name, parameter in layer.named_parameters():
            wanted = expected[f"grad.transformer.{block}.attn.{name}"]
            assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize("shape", [(32, 197, 384), (8, 1024, 768)])
def test_half_the_memory_is_kept(shape):
    x = torch.randn(shape, requires_grad=True)
    ours, theirs = TSSA(shape[2]), reference.Layer(shape[2])
    assert reference.kept_bytes(ours, x) < 0.5 * reference.kept_bytes(theirs, x)


def test_maps_in_any_strides():
    layer, _ = pair()
    x = torch.randn(2, 48, 5, 7)
    y, pi = layer(x, return_memberships=True)
    tokens, memberships = layer(x.flatten(2).transpose(1, 2), return_memberships=True)
    assert_close(y.flatten(2).transpose(1, 2), tokens)
    assert_close(pi.flatten(2), memberships)
    assert y.is_contiguous(memory_format=torch.channels_last) and y.shape == x.shape and pi.shape == (2, 4, 5, 7)
    last = layer(x.contiguous(memory_format=torch.channels_last))
    assert_close(last, y)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert_close(layer(torch.randn(2, 48, 7, 5).transpose(2, 3).copy_(x)), y)


def test_memberships_are_a_softmax_over_heads_and_differentiable():
    layer, theirs = pair()
    x = torch.randn(2, 9, 48)
    _, pi = layer(x, return_memberships=True)
    assert_close(pi, reference.operator(theirs.qkv(x), theirs.temp)[1])
    pi[:, 0].sum().backward()
    assert layer.temp.grad.any() and layer.qkv.weight.grad.any()


def test_padding_counts_for_nothing():
    layer, _ = pair()
    x = torch.randn(2, 9, 48)
    assert_close(layer(x, torch.tensor([4, 9]))[:1, :4], layer(x[:1, :4]))


def test_chunks_of_many_tokens_continue_the_state():
    layer, _ = causal_pair(positions=40)
    x = torch.randn(2, 60, 48)
    whole = layer(x)
    state, parts = None, []
    for chunk in x.split([7, 1, 20, 32], 1):
        y, state = layer(chunk, state, return_state=True)
        parts.append(y)
    assert state.position == 60
    assert_close(torch.cat(parts, 1), whole, rtol=1e-5, atol=1e-5)


def test_dropout_drops_entries_of_the_damping():
    layer = TSSA(64, 4, attn_drop=0.5)
    layer.to_out = torch.nn.Identity()
    x = torch.randn(3, 20, 64)
    kept = layer.eval()(x)
    dropped = layer.train()(x)
    ratio = dropped / kept  # 0 or 2, one for all tokens of a channel
    assert_close(ratio, ratio[:, :1].expand_as(ratio))
    assert {round(r) for r in ratio.flatten().tolist()} == {0, 2}


def test_saved_copied_pickled():
    layer, _ = pair()
    x = torch.randn(2, 9, 48)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (torch.load(file, weights_only=False), pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert torch.equal(other(x), layer(x))


def test_autocast():
    for layer in (pair()[0], causal_pair()[0]):
        x = torch.randn(2, 20, 48, requires_grad=True)
        expected = layer(x)
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        assert y.dtype == torch.bfloat16
        assert_close(y.float(), expected, rtol=5e-2, atol=5e-2)
        y.float().sum().backward()
        assert layer.temp.grad.dtype == x.grad.dtype == torch.float32


BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.skipif(not shutil.which("g++"), reason="needs g++"))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_whole_with_any_sizes(backend):
    torch._dynamo.reset()
    layer, causal = pair()[0], causal_pair()[0]

    def work(x, bias_from):
        y, pi = layer(x, return_memberships=True)
        z, state = causal(2 * y, tost.nn.CausalState(None, bias_from), return_state=True)
        return z + pi.square().mean(), state.sums

    compiled = torch.compile(work, fullgraph=True, dynamic=True, backend=backend)
    for tokens in (33, 47, 70):
        x = torch.randn(2, tokens, 48, requires_grad=True)
        (y, sums), (expected, expected_sums) = compiled(x, 3), work(x, 3)
        assert_close(y, expected, rtol=1e-4, atol=1e-4)
        assert_close(sums, expected_sums, rtol=1e-4, atol=1e-4)
        (found,), (grad,) = (torch.autograd.grad(z.sum(), x) for z in (y, expected))
        assert_close(found, grad, rtol=1e-4, atol=1e-4 * float(grad.abs().max()))


class Projected(torch.utils.data.Dataset):
    def __init__(self, layer):
        self.layer = layer

    def __len__(self):
        return 6

    def __getitem__(self, i):
        with torch.no_grad():  # large enough for the cache of blocks
            return self.layer(torch.full((1, 900, 48), float(i)).cumsum(1))[0]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_loader(start):
    data = Projected(pair()[0])
    data[0]  # this process has threads and cached blocks before it forks
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2, multiprocessing_context=start)
    for batch, i in zip(loader, range(0, 6, 2), strict=True):
        assert_close(batch, torch.stack([data[i], data[i + 1]]))


def test_two_threads_train_their_own_layers():
    x = torch.randn(2, 400, 48)
    makes = (lambda: pair()[0], lambda: causal_pair(positions=400)[0])

    def gradients(layer):
        layer.zero_grad()
        layer(x).square().sum().backward()
        return [parameter.grad for parameter in layer.parameters()]

    layers = [make() for make in makes]
    expected = [gradients(layer) for layer in copy.deepcopy(layers)]
    results = [[], []]

    def work(layer, found):
        for _ in range(10):
            found.append(gradients(layer))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(layers, results)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found, wanted in zip(results, expected):
        assert len(found) == 10
        for grads in found:
            for a, b in zip(grads, wanted):
                assert_close(a, b, rtol=1e-5, atol=1e-5 * float(b.abs().max()))


def train_on_a_rank(rank, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    layer = torch.nn.parallel.DistributedDataParallel(pair()[0])
    x = torch.randn(2, 11, 48)
    layer(x[rank : rank + 1]).square().sum().backward()
    torch.save([p.grad for p in layer.parameters()], f"{folder}/{rank}")
    torch.distributed.destroy_process_group()


def test_two_processes_share_gradients(tmp_path):
    torch.multiprocessing.spawn(train_on_a_rank, (str(tmp_path),), nprocs=2)
    layer = pair()[0]
    x = torch.randn(2, 11, 48)
    (layer(x).square().sum() / 2).backward()
    for rank in range(2):
        for found, p in zip(torch.load(tmp_path / str(rank)), layer.parameters()):
            assert_close(found, p.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ValueError, "5 heads do not divide the width 48", lambda: TSSA(48, 5)),
        (TypeError, "num_heads must be an integer, but is 2.0", lambda: TSSA(48, 2.0)),
        (ValueError, "0 heads do not divide", lambda: CausalTSSA(48, 0)),
        (ValueError, "x has 32 channels, but the layer was made for 48", lambda: TSSA(48)(torch.ones(1, 2, 32))),
        (ValueError, "has 2 dimensions", lambda: TSSA(48)(torch.ones(2, 48))),
        (TypeError, "TSSA: x must be a tensor, but is list", lambda: TSSA(48)([1.0])),
        (TypeError, "x must be of a floating-point dtype, but is torch.int64", lambda: TSSA(48)(torch.ones(1, 2, 48).long())),
        (TypeError, "block_size must be an integer, but is 1.5", lambda: CausalTSSA(48, 4, 1.5)),
        (ValueError, "block_size is -1", lambda: CausalTSSA(48, 4, -1)),
        (TypeError, "state must be what a call with", lambda: CausalTSSA(48)(torch.ones(1, 2, 48), torch.ones(1, 108))),
        (ValueError, "x must be .batch, tokens, 48., but is .1, 2, 32.", lambda: CausalTSSA(48)(torch.ones(1, 2, 32))),
    ],
)
def test_refusals(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_arguments_have_the_official_order():
    layer = TSSA(64, 4, False, None, 0.1, 0.2, norm_layer=None, qk_norm=True)
    assert (layer.attn_drop.p, layer.to_out[1].p, layer.qkv.bias) == (0.1, 0.2, None)
    assert layer.heads == layer.num_heads == 4 and layer.attend.dim == 1
    assert tost.nn.AttentionTSSA is TSSA


def test_integers_of_other_libraries_are_taken():
    numpy = pytest.importorskip("numpy")
    layer = TSSA(numpy.int64(64), num_heads=numpy.int32(4))
    assert type(layer.num_heads) is int
    with pytest.raises(TypeError, match="num_heads must be an integer, but is 4.0"):
        TSSA(64, 4.0)


def test_a_pickle_of_the_official_class_loads_by_an_alias(monkeypatch):
    """A whole module that was saved where the class had another name and fewer attributes."""
    module = type(copy)("their_blocks")
    old = type("AttentionTSSA", (torch.nn.Module,), {"__module__": "their_blocks"})
    module.AttentionTSSA = old
    monkeypatch.setitem(__import__("sys").modules, "their_blocks", module)
    ours = TSSA(32, 2)
    saved = old()
    saved.heads, saved.attend = 2, torch.nn.Softmax(dim=1)
    for name in ("qkv", "attn_drop", "to_out"):
        setattr(saved, name, getattr(ours, name))
    saved.temp = ours.temp
    text = pickle.dumps(saved)
    module.AttentionTSSA = tost.nn.AttentionTSSA
    loaded = pickle.loads(text)
    x = torch.randn(1, 5, 32)
    assert type(loaded) is TSSA
    assert_close(loaded(x), ours(x))
