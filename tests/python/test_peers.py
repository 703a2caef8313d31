"""bench/peers: its networks against each other, and its scripts end to end at tiny sizes, on the CPU."""
import json
import os
import pathlib
import sys
import types

import pytest
import torch

PEERS = pathlib.Path(__file__).parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import cases  # noqa: E402
import contestants  # noqa: E402
import device_memory  # noqa: E402
import gpu  # noqa: E402
import gpu_contestants  # noqa: E402
import gpu_work  # noqa: E402
import language  # noqa: E402
import measurements  # noqa: E402
import peers  # noqa: E402
import rounds  # noqa: E402
import table  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def operators():
    assert gpu.load_operators(os.environ["TOST_LIBRARY"]) is None


def small_net(monkeypatch, rows=9, positions=True):
    monkeypatch.setitem(language.LANGUAGE, "small", (12, 2, 3, 17))
    torch.manual_seed(0)
    net = language.LanguageNet("small", rows, positions)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, 0.5, 0.4)
    return net.eval()


@pytest.mark.parametrize("positions", [True, False])
def test_steps_after_a_state_are_the_whole_text(monkeypatch, positions):
    net = small_net(monkeypatch, positions=positions)
    ids = torch.randint(0, 17, (2, 9))
    step = language.StepNet(net)
    with torch.no_grad():
        states = net.states(ids[:, :4])
        for at in range(4, 9):
            logits, states = step(ids[:, at], torch.tensor([at]), states)
            assert torch.allclose(logits, net(ids[:, : at + 1]), atol=1e-4)
        assert torch.allclose(states, net.states(ids), atol=1e-4)


def test_biases_are_zero_beyond_their_length_and_positions_end(monkeypatch):
    weights = small_net(monkeypatch, positions=False).state_dict()
    net, longer = language.make("small", weights, 20)
    bias = longer["transformer.h.1.attn.denom_bias"]
    assert bias.shape == (3, 20, 1) and not bias[:, 9:].any() and bias[:, :9].all()
    net.load_state_dict(longer)
    with pytest.raises(ValueError, match="positions for 9 tokens, not 20"):
        language.make("small", small_net(monkeypatch).state_dict(), 20)


def run_peers(monkeypatch, folder, *arguments):
    out = folder / "peers.json"
    monkeypatch.setattr(sys, "argv", ["peers.py", "--tost", os.environ["TOST_PROGRAM"], "--models",
                                      "tost_gpt_char", "--batches", "1", "--threads", "1",
                                      "--rounds", "1", "--repeat", "2", "--json", str(out),
                                      *arguments])
    peers.main()
    return json.loads(out.read_text())


def test_language_beside_its_peers(monkeypatch, tmp_path, capsys):
    report = run_peers(monkeypatch, tmp_path, "--tokens", "20,80", "--steps", "3", "--contestants",
                       "eager fp32,eager bf16,tost fp32,tost int4")
    found = {(r["test"], r["size"], r["contestant"]): r for r in report["rows"]}
    names = ["eager fp32", "eager bf16", "tost fp32"]
    assert set(found) == ({("prefill", n, name) for n in (20, 80) for name in names}
                          | {("decode", n, name) for n in (20, 80) for name in [*names, "tost int4"]})
    for (_, _, name), row in found.items():
        assert row["failed"] is None and len(row["times_ms"]) == 2
        assert row["error"] <= peers.ALLOWED[name.split()[1]]
        assert (row["error"] > 1e-4) == (name in ("eager bf16", "tost int4"))
    prefill = found["prefill", 80, "tost fp32"]
    assert prefill["rate"] == pytest.approx(80e3 / prefill["median_ms"])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| tost_gpt_char | decode | 1 | 80 |")]) == 4


def test_what_is_wrong_is_not_timed(monkeypatch, tmp_path, capsys):
    def wrong(task, folder):
        right = contestants.eager_fp32(task, folder)
        return lambda *inputs: (right(*inputs)[0] + 1,)

    class InProcess:  # a Peer without the process, so that the contestant can be replaced
        def __init__(self, name, case, shared):
            import cases
            import tensors

            self.name, self.times, self.failed, self.peak_mib = name, [], None, None
            task = cases.Task(case)
            self.logits = str(tmp_path / "logits.safetensors")
            tensors.save(self.logits, {"logits": task.logits(contestants.ALL[name](task, shared))})

        def turn(self, repeat):
            self.times += [1.0] * repeat

        def close(self):
            pass

    monkeypatch.setitem(contestants.ALL, "compile fp32", wrong)
    monkeypatch.setattr(peers.rounds, "Peer", InProcess)
    report = run_peers(monkeypatch, tmp_path, "--tests", "prefill", "--tokens", "20",
                       "--contestants", "eager fp32,compile fp32")
    assert [r["times_ms"] for r in report["rows"]] == [[1.0, 1.0], []]
    assert "not measured: its logits deviate by" in capsys.readouterr().out


def entry_named(name):
    return types.SimpleNamespace(name=name, failed=None)


def test_nothing_but_the_reference_is_compared_with():
    entry, logits = entry_named("eager bf16"), torch.ones(2)
    peers.check(entry, logits, None)
    assert entry.failed == "there are no logits of eager fp32 to compare with" and entry.error is None
    entry = entry_named("eager bf16")
    peers.check(entry, logits, logits)
    assert entry.failed is None and entry.error == 0


def test_values_that_are_none_deviate():
    for found in ([float("nan"), 1.0], [1.0, float("nan")]):
        pairs = [torch.tensor([value, 1.0]) for value in found]
        assert not gpu_work.deviation(pairs, [torch.ones(2)] * 2) <= gpu_work.ALLOWED["bf16"]
    assert gpu_work.deviation([torch.tensor([1.0, 3.0])], [torch.tensor([1.0, 2.0])]) == 0.5


def test_a_contestant_that_ends_says_so(tmp_path):
    peer = rounds.Peer("nobody", cases.Case("tost_gpt_char", "prefill", 1, 8), str(tmp_path))
    assert peer.failed.startswith(("FileNotFoundError: ", "KeyError: ")) and "\n" not in peer.failed
    assert pathlib.Path(peer.folder).parent == tmp_path
    peer.process.wait()
    peer.turn(2)
    assert peer.failed == "its process ended" and peer.times == []
    peer.close()
    assert not os.path.exists(peer.folder)


def test_a_reason_is_a_line():
    assert rounds.reason(ValueError("\nno such kernel\nat line 3")) == "ValueError: no such kernel"
    assert rounds.reason(ValueError()) == "ValueError: "
    assert rounds.last_line("a note\nerror: no\n") == "error: no"
    assert rounds.last_line("") == "it ended without a reason"


def test_peers_refuse_a_file_before_measuring(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run_peers(monkeypatch, tmp_path, "--markdown", str(tmp_path / "missing" / "a.md"))
    assert "there is no folder for it" in capsys.readouterr().err


def test_operators_are_the_formula():
    for causal in (False, True):
        setting = gpu_work.Setting("layer", causal, "training", "fp32", 2, 11, 12, 3, "cpu")
        for name in ("eager", "tost operator", "eager attention"):
            _, error = gpu_work.open_checked(setting, gpu_contestants.ALL[name])
            assert error < 1e-5
    operator = gpu_contestants.ALL["tost operator"]
    for causal in (False, True):  # as they are timed: the plain form in bf16 is not refused
        setting = gpu_work.Setting("layer", causal, "training", "bf16", 1, 256, 96, 4, "cpu")
        errors = {name: gpu_work.open_checked(setting, gpu_contestants.ALL[name])[1]
                  for name in ("eager", "tost operator", "eager attention", "sdpa flash")}
        assert 1e-3 < errors["tost operator"] < 0.02 and max(errors.values()) < 0.24, errors
    setting = gpu_work.Setting("layer", False, "forward", "fp32", 2, 11, 12, 3, "cpu")
    with torch.no_grad(), pytest.raises(ValueError, match="deviates by"):
        wrong = type("Wrong", (operator.bidirectional,), {"forward": lambda self, x: 2 * x})
        gpu_work.open_checked(setting, gpu_contestants.Contestant("wrong", "tssa", wrong, wrong))


def test_steps_with_wrong_gradients_are_not_timed(monkeypatch):
    class Wrong(language.CausalTokenStatistics):
        def forward(self, x):
            return Doubled.apply(super().forward(x))

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, grad):
            return 2 * grad

    monkeypatch.setitem(language.LANGUAGE, "small", (12, 2, 3, 17))
    wrong = gpu_contestants.Contestant("wrong", "tssa", Wrong, Wrong)
    for job in ("forward", "training"):
        setting = gpu_work.Setting("small", True, job, "fp32", 2, 11, device="cpu")
        if job == "forward":
            assert gpu_work.open_checked(setting, wrong)[1] < 1e-5
        else:
            with pytest.raises(ValueError, match="deviates by .* more than 0.003"):
                gpu_work.open_checked(setting, wrong)


def test_gpu_script_on_a_cpu(tmp_path, capsys):
    out = tmp_path / "gpu.json"
    gpu.main(["--device", "cpu", "--tokens", "16", "--dim", "24", "--heads", "3", "--dtypes",
              "fp32", "--networks", "tost_gpt_char", "--text-tokens", "16", "--rounds", "1",
              "--repeat", "1", "--contestants", "eager,tost operator,sdpa cudnn,tost program",
              "--library", os.environ["TOST_LIBRARY"], "--tost", os.environ["TOST_PROGRAM"],
              "--json", str(out)])
    rows = measurements.read(str(out))["rows"]
    assert len(rows) == 4 * 3 + 4 + 3  # the program only predicts, with whole networks
    for row in rows:
        ran = row["contestant"] != "sdpa cudnn"
        assert (row["failed"] is None) == ran, row
        assert len(row["times_ms"]) == int(ran)
        assert (row["peak_mib"] is not None) == (ran and row["contestant"] != "tost program")
    text = capsys.readouterr().out
    assert "| layer | causal | training | fp32 | 1 | 16 | tost operator | " in text
    assert "not measured: RuntimeError" in text


def test_gpu_script_draws_the_figure_it_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(gpu.networks.VISION, "tost_cab_tiny_12_p16", (16, 1, 2))
    figure, out = tmp_path / "speed.svg", tmp_path / "gpu.json"
    gpu.main(["--device", "cpu", "--figure", str(figure), "--json", str(out), "--networks",
              "tost_cab_tiny_12_p16", "--image-size", "32,64,128", "--tokens", "32,64", "--dim",
              "24", "--heads", "3", "--dtypes", "fp32", "--rounds", "1", "--repeat", "1",
              "--contestants", "eager,tost operator,eager attention,sdpa flash", "--library",
              os.environ["TOST_LIBRARY"]])
    report = measurements.read(str(out))
    found = {(r["what"], r["job"], r["tokens"], r["contestant"]) for r in report["rows"]}
    assert len(found) == (3 + 2) * 2 * 4 and all(r["failed"] is None for r in report["rows"])
    assert {n for what, _, n, _ in found if what != "layer"} == {4, 16, 64}
    text, number = figure.read_text(), gpu.speed_figure.log_chart.number
    for r in report["rows"]:
        assert f"{r['tokens']:,} tokens: {number(r['median_ms'])} ms" in text
        assert f"{r['tokens']:,} tokens: {number(r['peak_mib'])} MiB" in text
    assert "One bidirectional layer of 24 channels, 3 heads, forward and backward, fp32" in text
    assert "causal" not in text


def test_a_figure_of_nothing_is_said_not_drawn(tmp_path, capsys):
    figure = tmp_path / "speed.svg"
    with pytest.raises(SystemExit, match="^gpu.py: There is nothing to draw: no layer"):
        gpu.main(["--device", "cpu", "--figure", str(figure), "--networks", "", "--tokens", "8,16",
                  "--dim", "12", "--heads", "3", "--contestants", "sdpa cudnn"])
    assert not figure.exists()
    assert capsys.readouterr().out.count("not measured: RuntimeError") == 4


def test_every_contestant_can_be_drawn():
    assert set(measurements.CONTESTANTS) == {*gpu_contestants.ALL, gpu.gpu_program.NAME}
    for family, names in measurements.FAMILIES.items():
        for name in set(names) & set(gpu_contestants.ALL):
            assert gpu_contestants.ALL[name].family == family.lower()


def test_figure_measures_the_papers_lengths_unless_told_otherwise(tmp_path):
    figure = ["--figure", str(tmp_path / "speed.svg")]
    settings = list(gpu.settings(gpu.arguments(figure)))
    nets = [s for s in settings if s.what == "tost_cab_small_12_p16"]
    assert len(nets) == 14 and {s.batch for s in settings} == {1}
    assert sorted({s.tokens for s in nets}) == [256, 576, 1024, 2304, 4096, 8100, 16384]
    assert {s.tokens for s in settings if s.what == "layer"} == {256, 1024, 4096, 16384, 65536}
    assert not any(s.causal for s in settings)
    told = gpu.arguments([*figure, "--image-size", "224,448", "--tokens", "", "--pictures", "8"])
    assert [(s.tokens, s.batch) for s in gpu.settings(told)] == [(196, 8)] * 2 + [(784, 8)] * 2
    assert {s.size for s in gpu.settings(gpu.arguments([]))} == {224, 1024, 4096, 8192, 16384}


@pytest.mark.parametrize("name", ["compile", "tost operator compile"])
@pytest.mark.parametrize("what, causal, size", [("layer", False, 11), ("layer", True, 11),
                                                ("small", True, 11), ("picture", False, 32)])
def test_compiled_contestants_are_one_graph(what, causal, size, name, monkeypatch):
    """By torch.compile's own tracing and rewriting; what it would generate runs as it was traced."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._inductor.decomposition import select_decomp_table

    graphs, compiler = [], torch.compile

    def keep(graph, inputs):
        graphs.append({str(node.target) for node in graph.graph.nodes})
        return make_boxed_func(graph.forward)

    monkeypatch.setitem(language.LANGUAGE, "small", (12, 2, 3, 17))
    monkeypatch.setitem(gpu.networks.VISION, "picture", (16, 1, 2))
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep,
                           decompositions=select_decomp_table())
    monkeypatch.setattr(torch, "compile", lambda module: compiler(module, backend=backend))
    for job, passes in (("forward", 1), ("training", 2)):
        torch._dynamo.reset()
        graphs.clear()
        setting = gpu_work.Setting(what, causal, job, "fp32", 1, size, 12, 3, "cpu")
        _, error = gpu_work.open_checked(setting, gpu_contestants.ALL[name])
        assert error < 1e-5 and len(graphs) == passes
        operators = {node for graph in graphs for node in graph if node.startswith("tost.")}
        form = "tost.tssa_causal" if causal else "tost.tssa"
        wanted = {f"{form}.default"} if passes == 1 else {f"{form}_forward.default",
                                                          f"{form}_backward.default"}
        assert operators == (wanted if "operator" in name else set())
    torch._dynamo.reset()


def test_compiled_training_of_one_picture_reaches_the_stem(monkeypatch):
    monkeypatch.setitem(gpu.networks.VISION, "picture", (16, 1, 2))
    torch.manual_seed(0)
    torch._dynamo.reset()
    net = gpu.networks.VisionNet("picture", 10)
    images, labels = torch.randn(1, 3, 64, 64), torch.tensor([3])

    def gradients(loss):
        net.zero_grad()
        loss(images, labels).backward()
        return {name: p.grad.clone() for name, p in net.patch_embed.named_parameters()}

    plain = gradients(net.loss)
    found = gradients(torch.compile(gpu_work._Loss(net), backend="aot_eager_decomp_partition"))
    torch._dynamo.reset()
    for name, wanted in plain.items():
        assert (found[name] - wanted).abs().max() < 1e-3 * wanted.abs().max(), name


@pytest.mark.parametrize("causal", [False, True])
def test_memory_is_counted(causal):
    x, y = torch.zeros(100, 4), torch.zeros(1000)
    assert device_memory.held_bytes([x, x[1:], x.t(), y[:10]]) == 4 * (400 + 1000)
    kept = []

    def run():
        a = torch.empty(200_000)
        b = a[:100_000].clone()
        del a
        kept.append(b.clone())

    assert device_memory.added_bytes("cpu", run) == 4 * 300_000  # a and b
    # Twice the tokens: softmax written out keeps tokens², the others grow with the tokens.
    growth = {}
    for name in ("eager", "tost operator", "sdpa flash", "eager attention"):
        peaks = []
        for tokens in (512, 1024):
            setting = gpu_work.Setting("layer", causal, "training", "fp32", 1, tokens, 24, 3, "cpu")
            work, _ = gpu_work.open_checked(setting, gpu_contestants.ALL[name])
            peaks.append(device_memory.peak_mib("cpu", work))
        growth[name] = peaks[1] / peaks[0]
    assert growth["eager attention"] > 3.5
    assert all(1.5 < g < 3 for name, g in growth.items() if name != "eager attention"), growth


def test_memory_on_a_gpu_is_beyond_what_was_there(monkeypatch):
    done, now = [], {"memory_allocated": 100, "max_memory_allocated": 900}
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: done.append(name))
    for name in now:
        monkeypatch.setattr(torch.cuda, name, lambda name=name: done.append(name) or now[name])

    def run():
        done.append("run")
        now["max_memory_allocated"] = 350

    assert device_memory.added_bytes("cuda", run) == 250
    assert done == ["synchronize", "memory_allocated", "reset_peak_memory_stats", "run",
                    "synchronize", "max_memory_allocated"]


def test_what_no_longer_runs_is_not_measured(monkeypatch):
    calls = []

    def run(self):
        calls.append(1)
        if len(calls) > 8:
            raise MemoryError("no room\nat all")
        return (self.x,)

    setting = gpu_work.Setting("layer", False, "forward", "fp32", 1, 8, 12, 3, "cpu")
    work = gpu_work.Layer(setting, gpu_contestants.ALL["eager"], "fp32")
    work.take(8)
    monkeypatch.setattr(gpu_work.Layer, "run", run)
    monkeypatch.setattr(gpu_work, "open_checked", lambda *_: (work, 0.0))
    options = gpu.arguments(["--rounds", "9", "--contestants", "eager"])
    row, = gpu.measure(options, setting, None)
    assert row["failed"] == "MemoryError: no room" and row["times_ms"] == []
    assert row["median_ms"] is None and row["peak_mib"] is None


@pytest.mark.parametrize("wrong", [["--tokens", "a"], ["--forms", "sideways"], ["--dtypes", "fp8"],
                                   ["--networks", "resnet"], ["--contestants", "jax"],
                                   ["--tokens", "0"], ["--image-size", "224,225"],
                                   ["--json", "/absent/folder/gpu.json"],
                                   ["--figure", "/absent/folder/speed.svg"],
                                   ["--figure", "speed.png"],
                                   ["--figure", "f.svg", "--tokens", "64", "--networks", ""],
                                   ["--dim", "10", "--heads", "3"]])
def test_gpu_script_refuses(wrong, capsys):
    with pytest.raises(SystemExit) as end:
        gpu.main(wrong)
    assert end.value.code == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(capsys):
    gpu.main([])
    assert capsys.readouterr().out.startswith("not run: no GPU")


def test_a_table_gives_ratios():
    base = {"what": "layer", "causal": True, "job": "forward", "dtype": "bf16", "batch": 1,
            "size": 64, "peak_mib": 12.0, "error": 1e-3, "failed": None}
    rows = [{**base, "contestant": name, "low_ms": ms - 1, "median_ms": ms, "high_ms": ms + 1}
            for name, ms in (("eager", 8.0), ("tost operator", 2.0), ("sdpa flash", 6.0))]
    machine = {"cpu": "c", "features": [], "versions": {}, "python": "3", "date": "d", "gpu": "H"}
    text = gpu.markdown({"machine": machine, "threads": 1, "rounds": 2, "repeat": 3, "rows": rows})
    assert "| sdpa flash | 6.00 [5.00, 7.00] | 1.33 | 3.00 | 12.0 MiB | 1.0e-03 |" in text
    assert "| tost operator | 2.00 [1.00, 3.00] | 4.00 | 1.00 | 12.0 MiB |" in text
    assert "\nH; c ()" in text
    assert table.digits(123.4) == "123"
