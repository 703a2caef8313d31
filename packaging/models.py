#!/usr/bin/env python3
"""Writes a folder for a model hub for each model of models/models.json, and reads every card back.

usage: PYTHONPATH=python python packaging/models.py OUT; needs torch, safetensors and huggingface_hub.
A folder has the layout `hub` of tost.convert, which transformers reads after `import tost.hf` where the mixer is TSSA. A
quantised model, which that layout has no place for, stays the program's own file.
"""

import json
import pathlib
import shutil
import sys

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from tost.convert import UsageError, convert

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
LICENCES = {"MIT": "mit", "CC0 1.0": "cc0-1.0", "CC BY-SA 3.0": "cc-by-sa-3.0"}
TASKS = {"image-classification": "accuracy", "text-generation": "perplexity"}


def described(model):
    """The card: YAML that a hub reads, and a text from models.json."""
    measured = model["measured"]
    task = "image-classification" if "top1" in measured else "text-generation"
    metric, value = TASKS[task], measured.get("top1", measured.get("perplexity"))
    result = EvalResult(task, model["data"], model["data"], metric, value, dataset_split=measured["split"])
    data = ModelCardData(
        model_name=f"tost-{model['name']}",
        license=LICENCES[model["licence"]],
        library_name="tost",
        pipeline_tag=task,
        datasets=[model["data"]],
        metrics=[metric],
        tags=["token-statistics", "tssa", "arxiv:2412.17810"],
        eval_results=[result],
    )
    commands = "\n".join(f"{command}    # {what}" for what, command in model["commands"].items())
    text = f"""# {model["name"]}

{model["about"]} A Token Statistics Transformer ([arXiv 2412.17810](https://arxiv.org/abs/2412.17810)): time and memory are
linear in the number of tokens.

- score: {model["score"]}
- data: {model["source"]}
- licence: {model["licence"]}
- limits: {model["limits"]}

The program `tost` (`pip install token-statistics-cli`) reads this folder, and made the model by:

```
{commands}
```
"""
    return f"---\n{data.to_yaml()}\n---\n\n{text}", data


def write(model, folder):
    source = MODELS / f"{model['name']}.safetensors"
    try:
        convert(source, folder, "hub")
    except (UsageError, ValueError):
        folder.mkdir(exist_ok=True)
        shutil.copy(source, folder / "model.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    card, data = described(model)
    (folder / "README.md").write_text(card, encoding="utf-8")
    read = ModelCard.load(folder / "README.md").data
    if read.to_dict() != data.to_dict() or read.eval_results != data.eval_results:
        raise SystemExit(f"packaging/models.py: the card of {folder} does not read back as it was written.")
    return f"{model['name']}: {read.license}, {read.pipeline_tag}, {read.metrics[0]} {read.eval_results[0].metric_value:.4g}"


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True)
    for model in json.loads((MODELS / "models.json").read_text(encoding="utf-8"))["models"]:
        print(write(model, out / model["name"]))


if __name__ == "__main__":
    main()
