"""bench/scaling.py end to end at tiny sizes, and the figure of its JSON."""
import importlib.util
import json
import os
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

import scaling  # noqa: E402

SMALL = ["--library", os.environ["TOST_LIBRARY"], "--dim", "24", "--heads", "4", "--tokens", "16,32,64", "--batch-tokens", "32",
         "--repeat", "2", "--json"]


def run(capsys, *flags):
    scaling.main([*SMALL, *flags])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("flags", [[], ["--causal"], ["--causal", "--dtype", "bfloat16"], ["--depth", "2"]])
def test_measures_every_mixer_at_every_length(capsys, tmp_path, flags):
    result = run(capsys, *flags)
    causal = "--causal" in flags
    assert len(result["points"]) == (4 if causal else 5) * 2 * 3 and not result["stopped"]
    for point in result["points"]:
        assert point["batch"] == (2 if point["tokens"] == 16 else 1) and point["ms"] > 0
        assert point["bytes"] >= point["batch"] * point["tokens"] * 24 * (2 if "bfloat16" in flags else 4)  # its output
    assert len(result["memberships"]) == (0 if "--depth" in flags else 3 if causal else 6)
    if importlib.util.find_spec("matplotlib"):
        (tmp_path / "scaling.json").write_text(json.dumps(result))
        scaling.main([*SMALL, "--draw", str(tmp_path / "scaling.json"), "--out", str(tmp_path)])
        assert (tmp_path / "scaling.svg").exists() and (tmp_path / "scaling.png").exists()


def test_exponents_are_least_squares_on_logarithms():
    pytest.importorskip("numpy")
    assert scaling.exponent([(n, 3e-6 * n**1.5) for n in (16, 4096, 8192, 65536)]) == ", n^1.50"
    assert scaling.exponent([(4096, 1.0)]) == ""


def test_membership_of_many_tokens_needs_a_larger_temp():
    torch.manual_seed(4)
    w, temp = torch.randn(1, 20_000, 32), torch.ones(4, 1)
    for causal in (False, True):  # more than one block
        check = scaling.membership(w, temp, causal)
        assert check["finite"] and check["entropy"] > 0.99
        assert check["least_share"] < 1 + 1e-6 and check["largest_share"] > 1 - 1e-6 and max(check["pi_error"], check["y_error"]) < 1e-5
    assert 0.5 < scaling.membership(w, temp * 5000, False)["entropy"] < 0.9
    w[0, 3, 2] = torch.inf
    assert not scaling.membership(w, temp, False)["finite"]


def test_ends_a_mixer_before_what_it_may_not_take(capsys):
    for flags, word in ((["--max-seconds", "1e-9"], "a repetition"), (["--max-gib", "1e-5"], "would need")):
        result = run(capsys, "--mixers", "tssa", "--modes", "forward", *flags)
        assert len(result["stopped"]) == 1 and word in result["stopped"][0]["reason"]


@pytest.mark.parametrize("flags", [
    ["--causal", "--mixers", "xca"], ["--mixers", "tsa"], ["--mixers", "tssa,tssa"], ["--heads", "5"], ["--dim", "0"],
    ["--tokens", "8,8"], ["--tokens", "12,"], ["--tokens", "1.5k"], ["--modes", "backward"], ["--repeat", "0"],
    ["--max-seconds", "0"], ["--max-gib", "nan"], ["--max-gib", "-1"]])
def test_refuses_bad_options(flags):
    with pytest.raises(SystemExit) as end:
        scaling.main([*SMALL, *flags])
    assert end.value.code == 2
