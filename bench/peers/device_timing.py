"""Times of work on a device: CUDA events there, the clock on the CPU."""

import math
import time

import torch

_LEAST_MS = 2.0  # of a timed stretch: shorter work is called several times


class Timer:
    def __init__(self, device):
        self.cuda = device == "cuda"
        self.calls = {}

    def _stretch(self, run, calls):
        if not self.cuda:
            start = time.perf_counter()
            for _ in range(calls):
                run()
            return 1e3 * (time.perf_counter() - start)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def prepare(self, key, run):
        """Warms, and decides how often a stretch calls."""
        for _ in range(3):
            run()
        self.calls[key] = max(1, min(1000, math.ceil(_LEAST_MS / self._stretch(run, 1))))

    def ms(self, key, run):
        return self._stretch(run, self.calls[key]) / self.calls[key]
