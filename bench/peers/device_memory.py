"""Memory that work takes: what it holds between calls, and what a call adds at its peak."""

import torch


def held_bytes(tensors):
    """Of tensors, those that share memory counted once."""
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def added_bytes(device, run):
    """The most that a call has allocated beyond what was allocated before it."""
    if device != "cuda":
        return _added_on_cpu(run)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _added_on_cpu(run):
    """From the profiler's record of every allocation."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    changes = [(event.start_ns(), event.nbytes())
               for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    added = most = 0
    for _, change in sorted(changes):
        added += change
        most = max(most, added)
    return most


def peak_mib(device, work):
    """Of one call of `work`, with its weights, inputs and optimizer."""
    return (held_bytes(work.tensors()) + added_bytes(device, work.run)) / 2**20
