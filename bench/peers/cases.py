"""What is asked of every contestant: a model, a test, its sizes, and where weights and input lie."""

import dataclasses

import torch

import language
import networks
import tensors


@dataclasses.dataclass
class Case:
    model: str
    test: str  # forward (pictures), prefill (a text to the next token's logits), decode
    batch: int
    size: int  # side of a picture, or tokens of the text
    steps: int = 1  # tokens of a call of decode
    threads: int = 2
    weights: str = ""  # safetensors files; that of the input also holds this program's logits
    input: str = ""

    @property
    def label(self):
        return f"{self.model}, {self.test}, batch {self.batch}, size {self.size}"

    @property
    def unit(self):
        return "images/s" if self.test == "forward" else "tokens/s"

    @property
    def per_call(self):
        """What a call (in decode: a step of it) gets done."""
        return self.batch * (self.size if self.test == "prefill" else 1)


class Task:
    """A case opened: the network, an example of its inputs, and the way to the logits.

    `call`, which a contestant makes from net and example, takes tensors and gives a tuple of them.
    """

    def __init__(self, case):
        torch.set_num_threads(case.threads)
        self.case = case
        self.x = tensors.load(case.input)["input"]
        weights = tensors.load(case.weights)
        if case.test != "decode":
            self.net = networks.make(case.model, weights, case.size)
            self.example = (self.x,)
            return
        net = networks.make(case.model, weights, case.size + case.steps)
        with torch.inference_mode():
            states = net.states(self.x[:, : case.size])
        self.states = states.clone()  # an ordinary tensor
        self.net = language.StepNet(net).eval()
        self.example = self._inputs(0, self.states)

    def _inputs(self, step, states):
        at = self.case.size + step
        return self.x[:, at].clone(), torch.tensor([at]), states

    def logits(self, call):
        """Of one repetition; the time of a step of it is what counts."""
        if self.case.test != "decode":
            return call(self.x)[0]
        states = self.states
        for step in range(self.case.steps):
            logits, states = call(*self._inputs(step, states))
        return logits
