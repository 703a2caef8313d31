"""tost.hf with the tools around transformers: Trainer, accelerate, peft."""

import os

import pytest
import torch
from torch.testing import assert_close

os.environ.setdefault("ACCELERATE_USE_CPU", "true")
transformers = pytest.importorskip("transformers", minversion="5.0", reason="needs transformers")
accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
pytest.importorskip("safetensors", reason="needs safetensors")

from tost.hf import TostConfig, TostForCausalLM, TostForImageClassification  # noqa: E402

transformers.utils.logging.disable_progress_bar()


def language():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 31, "n_positions": 24}
    return TostForCausalLM(TostConfig(layer_scale=1.0, **sizes))


def image():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 16, "patch_size": 4}
    return TostForImageClassification(TostConfig(num_labels=3, **sizes))


def texts():
    """Numbers that count up from a random start: the next one is known."""
    starts = torch.randint(0, 31, (64, 1))
    return [{"input_ids": row, "labels": row} for row in (starts + torch.arange(16)) % 31]


def pictures():
    labels = torch.arange(48) % 3
    x = torch.randn(48, 3, 16, 16) + 2 * labels.view(-1, 1, 1, 1)
    return [{"pixel_values": picture, "labels": label} for picture, label in zip(x, labels)]


@pytest.mark.parametrize("make, data", [(language, texts), (image, pictures)])
@pytest.mark.parametrize("bf16", [False, True])
def test_trainer(make, data, bf16, tmp_path):
    torch.manual_seed(0)
    model, samples = make(), data()
    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=60,
        per_device_train_batch_size=16,
        learning_rate=1e-2,
        logging_steps=10,
        save_steps=60,
        bf16=bf16,
        use_cpu=True,
        report_to=[],
        seed=0,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model, settings, train_dataset=samples, eval_dataset=samples)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()["eval_loss"]
    assert after < 0.7 * before
    again = type(model).from_pretrained(tmp_path / "checkpoint-60")
    for key, value in model.state_dict().items():
        assert_close(again.state_dict()[key], value)


def test_accelerate_prepares_and_saves(tmp_path):
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model = language()
    loader = torch.utils.data.DataLoader(texts(), batch_size=16)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-2), loader)
    losses = []
    for _ in range(10):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    accelerator.save_state(str(tmp_path))
    wanted = accelerator.unwrap_model(model).state_dict()["transformer.wte.weight"].clone()
    with torch.no_grad():
        model.transformer.wte.weight.zero_()
    accelerator.load_state(str(tmp_path))
    assert_close(model.transformer.wte.weight.detach(), wanted)


@pytest.mark.parametrize("make, data", [(language, texts), (image, pictures)])
def test_peft(make, data, tmp_path):
    peft = pytest.importorskip("peft", reason="needs peft")
    torch.manual_seed(0)
    base = make()
    kept = {key: value.clone() for key, value in base.state_dict().items()}
    names = {name for name, m in base.named_modules() if isinstance(m, torch.nn.Linear) and "head" not in name}
    assert any(name.endswith(("c_attn", "qkv")) for name in names)
    model = peft.get_peft_model(base, peft.LoraConfig(r=8, target_modules=sorted(names), lora_alpha=32))
    for norm in (m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)):
        norm.eval()  # its running statistics belong to the base model, which an adapter does not contain
    batch = torch.utils.data.default_collate(data()[:16])
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 2e-2)
    losses = []
    for _ in range(40):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]

    model.eval()
    given = {key: value for key, value in batch.items() if key != "labels"}
    with torch.no_grad():
        wanted = model(**given).logits
    model.save_pretrained(tmp_path)
    fresh = make()
    fresh.load_state_dict(kept)
    again = peft.PeftModel.from_pretrained(fresh, tmp_path).eval()
    with torch.no_grad():
        assert_close(again(**given).logits, wanted, rtol=1e-5, atol=1e-5)
        assert_close(again.merge_and_unload()(**given).logits, wanted, rtol=1e-4, atol=1e-4)
