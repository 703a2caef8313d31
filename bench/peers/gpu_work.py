"""What is timed on a GPU: passes of one layer, and steps or predictions of a network."""

import dataclasses

import torch

import gpu_contestants
import language
import networks

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Largest deviation from the fp32 form, relative to its largest value, that is still timed. With
# gradients three times that: in those of the first tokens, whose sums are short, the plain
# causal form in bf16 is off by a tenth.
ALLOWED = {"fp32": 1e-3, "bf16": 8e-2, "fp16": 2e-2}
_CHECKED_TOKENS = 2048  # at most, of softmax, whose reference holds every weight
PATCH = 16  # of every network of networks.VISION


@dataclasses.dataclass(frozen=True)
class Setting:
    what: str  # layer, or the name of a network
    causal: bool
    job: str  # forward, training
    dtype: str
    batch: int
    size: int  # tokens, or side of pictures
    dim: int = 768  # of a layer
    heads: int = 12
    device: str = "cuda"

    @property
    def pictures(self):
        return self.what != "layer" and not self.causal

    @property
    def tokens(self):
        """That attention sees."""
        return (self.size // PATCH) ** 2 if self.pictures else self.size

    def row(self):
        """What names it among results."""
        layer = self.what == "layer"
        return {"what": self.what, "causal": self.causal, "job": self.job, "dtype": self.dtype,
                "batch": self.batch, "size": self.size, "tokens": self.tokens,
                "dim": self.dim if layer else None, "heads": self.heads if layer else None}

    @property
    def allowed(self):
        return ALLOWED[self.dtype] * (3 if self.job == "training" else 1)

    @property
    def label(self):
        form = ", causal" if self.what == "layer" and self.causal else ""
        return f"{self.what}{form}, {self.job}, {self.dtype}, batch {self.batch}, size {self.size}"


def deviation(found, wanted):
    """The largest, relative to the largest value; not a number where a value is none."""
    return float(torch.stack([
        ((f.float() - w.float()).abs().max() / w.float().abs().max().clamp_min(1e-30)).cpu()
        for f, w in zip(found, wanted)]).max())


class Layer:
    """Projections and mixer; the matrices in the dtype, autocast for the rest as users have it."""

    def __init__(self, setting, contestant, dtype, weights=None):
        self.s, self.contestant, self.dtype = setting, contestant, dtype
        torch.manual_seed(0)
        self.module = contestant.mixer(setting.causal)(setting.dim, setting.heads, setting.size)
        self.module.to(setting.device)
        if weights is not None:
            self.module.load_state_dict(weights)
        for part in self.module.modules():
            if isinstance(part, torch.nn.Linear):
                part.to(TYPES[dtype])
        self.call = contestant.ready(self.module)

    def take(self, tokens):
        torch.manual_seed(1)
        shape = (self.s.batch, tokens, self.s.dim)
        self.x, self.dy = (torch.randn(shape).to(self.s.device, TYPES[self.dtype])
                           for _ in range(2))

    def tensors(self):
        """What is held between calls."""
        return [self.x, self.dy, *self.module.state_dict().values()]

    def run(self):
        """-> what must agree: the output, and in training the input's gradient."""
        autocast = torch.autocast(self.s.device, TYPES[self.dtype], enabled=self.dtype != "fp32")
        with self.contestant.context(), autocast:
            if self.s.job == "forward":
                with torch.no_grad():
                    return (self.call(self.x),)
            x = self.x.detach().requires_grad_()
            y = self.call(x)
            wanted = [x, *self.module.parameters()]
            return y, torch.autograd.grad(y, wanted, self.dy.to(y.dtype))[0]


class Network:
    """Whole networks under autocast; training is a step with clipping and fused AdamW."""

    def __init__(self, setting, contestant, dtype, weights=None):
        self.s, self.contestant, self.dtype = setting, contestant, dtype
        torch.manual_seed(0)
        mixer = contestant.mixer(setting.causal)
        if setting.causal:
            self.module = language.LanguageNet(setting.what, setting.size, mixer=mixer)
        else:
            self.module = networks.VisionNet(setting.what, mixer=mixer)
        for parameter in self.module.parameters():
            if parameter.dim() == 2 and parameter.shape[1] > 1:
                torch.nn.init.normal_(parameter, 0, 0.02)
        self.module.to(setting.device).train(setting.job == "training")
        if weights is not None:
            self.module.load_state_dict(weights)
        whole = self.module if setting.job == "forward" else _Loss(self.module)
        self.call = contestant.ready(whole)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=1e-4, weight_decay=0.05,
                                           fused=True)

    def take(self, size):
        torch.manual_seed(1)
        s = self.s
        if s.causal:
            ids = torch.randint(0, language.LANGUAGE[s.what][3], (s.batch, size))
            self.inputs = (ids, ids.roll(-1, 1))
        else:
            self.inputs = (torch.randn(s.batch, 3, size, size), torch.randint(0, 1000, (s.batch,)))
        self.inputs = tuple(t.to(s.device) for t in self.inputs)

    def tensors(self):
        moments = [t for state in self.optimizer.state.values() for t in state.values()]
        return [*self.inputs, *self.module.state_dict().values(), *moments]

    def run(self):
        """-> what must agree: logits, or in training the loss and, in fp32 alone, the gradient's norm.

        In bf16 one large gradient can round the norm by a tenth.
        """
        autocast = torch.autocast(self.s.device, TYPES[self.dtype], enabled=self.dtype != "fp32")
        if self.s.job == "forward":
            with self.contestant.context(), autocast, torch.no_grad():
                return (self.call(self.inputs[0]),)
        with self.contestant.context():
            with autocast:
                loss = self.call(*self.inputs)
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)  # between calls none is held
        return (loss.detach(), norm) if self.dtype == "fp32" else (loss.detach(),)


class _Loss(torch.nn.Module):
    """net.loss as a module's forward, which is what torch.compile wants."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        return self.net.loss(*inputs)


def open_checked(setting, contestant):
    """-> (work ready to be timed, its deviation). Raises where it cannot run or is wrong."""
    kind = Layer if setting.what == "layer" else Network
    size = setting.size
    if contestant.family == "softmax":
        most = int(_CHECKED_TOKENS**0.5) * PATCH if setting.pictures else _CHECKED_TOKENS
        size = min(size, most)
    reference = kind(setting, gpu_contestants.REFERENCES[contestant.family], "fp32")
    weights = {name: t.clone() for name, t in reference.module.state_dict().items()}
    reference.take(size)
    wanted = [t.detach().clone() for t in reference.run()]
    del reference
    work = kind(setting, contestant, setting.dtype, weights)
    work.take(size)
    error = deviation([t.detach() for t in work.run()], wanted)
    if not error <= setting.allowed:
        raise ValueError(f"it deviates by {error:.1e}, more than {setting.allowed:g}")
    work.take(setting.size)
    return work, error
