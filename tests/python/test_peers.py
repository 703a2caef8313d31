"""bench/peers: its networks against each other, and its scripts end to end at tiny sizes, on the CPU."""
import json
import os
import pathlib
import sys

import pytest
import torch

PEERS = pathlib.Path(__file__).parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import contestants  # noqa: E402
import gpu  # noqa: E402
import gpu_contestants  # noqa: E402
import gpu_work  # noqa: E402
import language  # noqa: E402
import peers  # noqa: E402
import table  # noqa: E402

torch.set_num_threads(1)


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


def test_operators_are_the_formula():
    assert gpu.load_operators(os.environ["TOST_LIBRARY"]) is None
    for causal in (False, True):
        setting = gpu_work.Setting("layer", causal, "training", "fp32", 2, 11, 12, 3, "cpu")
        for name in ("eager", "tost operator"):
            _, error = gpu_work.open_checked(setting, gpu_contestants.ALL[name])
            assert error < 1e-5
    operator = gpu_contestants.ALL["tost operator"]
    setting = gpu_work.Setting("layer", False, "forward", "fp32", 2, 11, 12, 3, "cpu")
    with torch.no_grad(), pytest.raises(ValueError, match="deviates by"):
        wrong = type("Wrong", (operator.bidirectional,), {"forward": lambda self, x: 2 * x})
        gpu_work.open_checked(setting, gpu_contestants.Contestant("wrong", "tssa", wrong, wrong))


def test_gpu_script_on_a_cpu(tmp_path, capsys):
    out = tmp_path / "gpu.json"
    gpu.main(["--device", "cpu", "--tokens", "16", "--dim", "24", "--heads", "3", "--dtypes",
              "fp32", "--networks", "tost_gpt_char", "--text-tokens", "16", "--rounds", "1",
              "--repeat", "1", "--contestants", "eager,tost operator,sdpa cudnn,tost program",
              "--library", os.environ["TOST_LIBRARY"], "--tost", os.environ["TOST_PROGRAM"],
              "--json", str(out)])
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 4 * 3 + 2 * 4  # layers know no program
    for row in rows:
        ran = row["contestant"] != "sdpa cudnn"
        assert (row["failed"] is None) == ran, row
        assert len(row["times_ms"]) == int(ran)
    text = capsys.readouterr().out
    assert "| layer | causal | training | fp32 | 1 | 16 | tost operator | " in text
    assert "not measured: RuntimeError" in text


@pytest.mark.parametrize("wrong", [["--tokens", "a"], ["--forms", "sideways"], ["--dtypes", "fp8"],
                                   ["--networks", "resnet"], ["--contestants", "jax"],
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
            "size": 64, "error": 1e-3, "failed": None}
    rows = [{**base, "contestant": name, "low_ms": ms - 1, "median_ms": ms, "high_ms": ms + 1}
            for name, ms in (("eager", 8.0), ("tost operator", 2.0), ("sdpa flash", 6.0))]
    machine = {"cpu": "c", "features": [], "versions": {}, "python": "3", "date": "d", "gpu": "H"}
    text = gpu.markdown({"machine": machine, "threads": 1, "rounds": 2, "repeat": 3, "rows": rows})
    assert "| sdpa flash | 6.00 [5.00, 7.00] | 1.33 | 3.00 | 1.0e-03 |" in text
    assert "| tost operator | 2.00 [1.00, 3.00] | 4.00 | 1.00 |" in text
    assert "\nH; c ()" in text
    assert table.digits(123.4) == "123"
