"""check_tssa: true for the paper's layer in any clothes, and the right step named for others."""

import time

import pytest
import reference
import torch
from torch import nn

import tost


class Changed(nn.Module):
    """The official layer, one of whose steps a subclass replaces; no name is the official one but temp."""

    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.into = nn.Linear(dim, dim, bias=False)
        self.temp = nn.Parameter(torch.ones(heads, 1))
        self.out = nn.Linear(dim, dim)

    def logits(self, w):
        return (nn.functional.normalize(w, dim=-2) ** 2).sum(-1) * self.temp

    def memberships(self, logits):
        return logits.softmax(1)

    def moment(self, w, pi):
        return (pi / (pi.sum(-1, keepdim=True) + 1e-8)).unsqueeze(-2) @ w**2

    def mix(self, w, pi, moment):
        return -w * pi.unsqueeze(-1) / (1 + moment)

    def forward(self, x):
        w = self.into(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
        pi = self.memberships(self.logits(w))
        return self.out(self.mix(w, pi, self.moment(w, pi)).transpose(1, 2).flatten(2))


class OverFeatures(Changed):
    def logits(self, w):
        return (nn.functional.normalize(w, dim=-1) ** 2).sum(-1) * self.temp


class NoNormalisation(Changed):
    def logits(self, w):
        return (w**2).sum(-1) * self.temp


class NoTemperature(Changed):
    def logits(self, w):
        return (nn.functional.normalize(w, dim=-2) ** 2).sum(-1)


class SoftmaxOverTokens(Changed):
    def memberships(self, logits):
        return logits.softmax(-1)


class Detached(Changed):
    def memberships(self, logits):
        return logits.softmax(1).detach()


class NoEps(Changed):
    def moment(self, w, pi):
        return (pi / pi.sum(-1, keepdim=True)).unsqueeze(-2) @ w**2


class UnscaledMoment(Changed):
    def moment(self, w, pi):
        return pi.unsqueeze(-2) @ w**2


class NoGuardAtZero(Changed):
    def logits(self, w):
        return ((w / w.norm(dim=-2, keepdim=True)) ** 2).sum(-1) * self.temp


class Undamped(Changed):
    def mix(self, w, pi, moment):
        return -w * pi.unsqueeze(-1)


class Positive(Changed):
    def mix(self, w, pi, moment):
        return w * pi.unsqueeze(-1) / (1 + moment)


class OneTemperature(Changed):
    def __init__(self):
        super().__init__()
        self.temp = nn.Parameter(torch.ones(1))


class TwoAtOnce(NoTemperature, UnscaledMoment):
    pass


class LinearAttention(Changed):
    def mix(self, w, pi, moment):
        keys = w.relu()
        return keys @ (keys.transpose(2, 3) @ w)


class DotProducts(nn.Module):
    def __init__(self, dim=24, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class SeparateDotProducts(nn.Module):
    def __init__(self, dim=24, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        return self.to_out(nn.functional.scaled_dot_product_attention(self.to_q(x), self.to_k(x), self.to_v(x)))


class NoGradient(Changed):
    def forward(self, x):
        return super().forward(x).detach()


class OnMaps(nn.Module):
    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.qkv, self.to_out = nn.Conv2d(dim, dim, 1), nn.Conv2d(dim, dim, 1)
        self.temp = nn.Parameter(torch.ones(heads))

    def forward(self, x):
        w = self.qkv(x)
        y, pi = reference.operator(w.flatten(2).transpose(1, 2).contiguous(), self.temp.view(-1, 1))
        return self.to_out(y.transpose(1, 2).reshape(x.shape)), pi


class OtherNames(Changed):
    def __init__(self):
        super().__init__()
        self.alpha = self.temp
        del self.temp

    def logits(self, w):
        return (nn.functional.normalize(w, dim=-2) ** 2).sum(-1) * self.alpha


class InFloat32(reference.Layer):
    def forward(self, x):
        y = reference.operator(self.qkv(x).float(), self.temp.float())[0]
        return self.to_out(y.to(x.dtype))


class AnyNames(Changed):
    """No name of the layer says what it is, and its head count has none."""

    def __init__(self, dim=24, heads=4):
        nn.Module.__init__(self)
        self.k = heads
        self.zz = nn.Linear(dim, dim)  # of the output, made first
        self.aa = nn.Conv1d(dim, dim, 1, bias=False)
        self.p = nn.Parameter(torch.ones(1, heads, 1))

    def forward(self, x):
        w = self.aa(x.transpose(1, 2)).transpose(1, 2).unflatten(2, (self.k, -1)).transpose(1, 2)
        pi = ((nn.functional.normalize(w, dim=-2) ** 2).sum(-1) * self.p).softmax(1)
        return self.zz(self.mix(w, pi, self.moment(w, pi)).transpose(1, 2).flatten(2))


class RootBroadcast(Changed):
    """As several rewrites have it: the root of the moment for all tokens."""

    def mix(self, w, pi, moment):
        return moment.sqrt().expand_as(w)


class RootOfMoment(Changed):
    def mix(self, w, pi, moment):
        return -w * pi.unsqueeze(-1) / (1 + moment.sqrt())


@pytest.mark.parametrize(
    "layer", [AnyNames(), tost.nn.TSSA(24, 4, qkv_bias=True), reference.Layer(24, 4), Changed(), OtherNames(), OnMaps(), InFloat32(24, 4)]
)
def test_the_papers_layer_is_recognised(layer):
    before = {name: p.clone() for name, p in layer.state_dict().items()}
    report = tost.check_tssa(layer.requires_grad_(False))  # somebody may have frozen it
    assert report and report.step is None and report.value_error < 1e-5, report
    assert "is the paper's TSSA" in str(report)
    assert all(torch.equal(p, before[name]) for name, p in layer.state_dict().items())


@pytest.mark.parametrize(
    "make, words",
    [
        (OverFeatures, "over the features of a token"),
        (NoNormalisation, "not normalised"),
        (NoTemperature, "not multiplied by the temperature"),
        (OneTemperature, "1 entries; there must be one for each of the 4 heads"),
        (SoftmaxOverTokens, "must run over the heads"),
        (Detached, "no gradient flows through the memberships"),
        (NoEps, "1e-8 must be"),
        (UnscaledMoment, "not divided by the sum of memberships"),
        (NoGuardAtZero, "gives NaN"),
        (Undamped, "not damped"),
        (Positive, "sign"),
        (RootBroadcast, "the root of the second moments is broadcast to all tokens"),
        (RootOfMoment, "divided by 1 and the root"),
        (TwoAtOnce, "not multiplied by the temperature; and the second moments are not divided"),
        (LinearAttention, "no one or two of the steps"),
        (NoGradient, "no gradient flows through it"),
        (SeparateDotProducts, "projections is 4"),
        (DotProducts, "scaled dot product"),
    ],
)
def test_the_step_that_differs_is_named(make, words):
    report = tost.check_tssa(make())
    assert not report and words in report.step, report
    assert str(report).endswith(".")


@pytest.mark.parametrize(
    "layer, words", [(nn.ReLU(), "no projection"), (nn.Linear(4, 4), "neither num_heads nor"), (Changed, "neither")]
)
def test_what_is_no_such_layer_is_refused(layer, words):
    if layer is Changed:
        layer = Changed()
        layer.forward = lambda x: x.sum()
    with pytest.raises(ValueError, match=words):
        tost.check_tssa(layer)
    with pytest.raises(TypeError, match="must be a torch.nn.Module, but is NoneType"):
        tost.check_tssa(None)


def test_check_model_names_each_layer():
    class Block(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.gamma, self.attn, self.mlp = nn.Parameter(torch.ones(24)), layer, nn.Linear(24, 24)

    right = [Block(tost.nn.TSSA(24, 4)), Block(AnyNames())]
    report = tost.check_model(nn.Sequential(*right, nn.Linear(24, 24), Block(SoftmaxOverTokens())))
    assert [(name, bool(found)) for name, found in report] == [("0.attn", True), ("1.attn", True), ("3.attn", False)]
    step = "the softmax runs over the tokens; it must run over the heads"
    assert str(report) == f"layer 3 of 3 is not TSSA (3.attn): {step}"
    assert str(tost.check_model(nn.Sequential(*right))) == "all 2 layers are the paper's TSSA"
    assert str(tost.check_model(nn.Linear(3, 3))) == "the model has no layer that looks like TSSA"


@pytest.mark.parametrize("make", [lambda: tost.nn.TSSA(768, 12), lambda: Undamped(768, 12), lambda: LinearAttention(768, 12)])
def test_it_answers_within_two_seconds(make):
    layer = make()
    start = time.perf_counter()
    tost.check_tssa(layer)
    assert time.perf_counter() - start < 2


def test_it_runs_in_one_thread_and_gives_the_others_back():
    class Counting(tost.nn.TSSA):
        def forward(self, x):
            assert torch.get_num_threads() == 1
            return super().forward(x)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert tost.check_tssa(Counting(24, 4))
        with pytest.raises(ValueError, match="projection"):
            tost.check_tssa(nn.Identity())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_selftest_passes_and_finds_a_deviation(monkeypatch, capsys):
    from tost import ops, selftest

    assert selftest.main([]) == 0
    assert "within bounds" in capsys.readouterr().out
    right = ops.tssa
    monkeypatch.setattr(ops, "tssa", lambda w, *more: tuple(part * 1.01 for part in right(w, *more)))
    assert selftest.main([]) == 1
    assert "DEVIATES" in capsys.readouterr().out
    assert selftest.main(["--device", "nonsense"]) == 2
    assert tost.selftest is selftest and tost.info is selftest.info
    monkeypatch.setattr(selftest, "selftest", lambda device="cpu": device)
    assert tost.selftest() == "cpu" and tost.selftest(device="cuda") == "cuda"


def test_a_path_is_named_by_what_runs(monkeypatch):
    from tost import _library, selftest

    monkeypatch.setattr(_library, "_devices", {"cuda"})
    monkeypatch.setattr(_library, "_limits", {})
    assert selftest.path("cpu") == "plain form" and selftest.path("cuda:0") == "fused"  # of the C++ library
    _library._limits["cuda"] = None  # as add_triton() does
    assert selftest.path("cuda") == "Triton"
