"""The models of transformers: the official numbers, the program's files, generation with a state, saving, loading."""

import copy
import json

import pytest
import torch
from torch.testing import assert_close

transformers = pytest.importorskip("transformers", minversion="5.0", reason="needs transformers")
pytest.importorskip("safetensors", reason="needs safetensors")
from tost import hf  # noqa: E402
from tost.hf import TostConfig, TostForCausalLM, TostForImageClassification  # noqa: E402
from transformers import AutoModelForCausalLM, AutoModelForImageClassification, DynamicCache  # noqa: E402

transformers.utils.logging.disable_progress_bar()


def language(seed=0, **settings):
    """A small model in which every parameter has moved away from its start."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 61, "n_positions": 40}
    model = moved(TostForCausalLM(TostConfig(**{**sizes, "layer_scale": 1.0, **settings})))
    if model.transformer.wpe is not None:
        model.transformer.wpe.weight.data *= 4  # or it would say one token again and again
    return model


def image(**settings):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 4}
    return moved(TostForImageClassification(TostConfig(**{**sizes, "num_labels": 7, **settings})))


def moved(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def ids(*sizes):
    return torch.randint(0, 61, sizes)


@pytest.mark.parametrize("name, bias", [("lang_tssa", False), ("lang_tssa_bias_short", True)])
def test_recorded_language_model(parity, name, bias):
    state, expected = parity(name)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "vocab_size": 131, "n_positions": 96}
    model = TostForCausalLM(TostConfig(num_hidden_layers=2, bias=bias, **sizes)).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected  # tied
    said = model(expected["idx"], output_hidden_states=True)
    assert_close(said.logits, expected["logits"], rtol=1e-5, atol=1e-5)
    assert_close(said.hidden_states[1], expected["block.0.output"], rtol=1e-5, atol=1e-5)
    loss = torch.nn.functional.cross_entropy(said.logits.flatten(0, 1), expected["targets"].flatten())
    assert_close(loss.view(1), expected["loss"], rtol=1e-5, atol=1e-5)
    loss.backward()
    for key, parameter in model.named_parameters():
        wanted = expected[f"grad.{key}"]
        assert_close(parameter.grad, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()), msg=key)


@pytest.mark.parametrize("name, patch, bias", [("vision_tssa_p16", 16, False), ("vision_tssa_p8_rect", 8, True)])
def test_recorded_image_model(parity, name, patch, bias):
    state, expected = parity(name)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_labels": 10}
    config = TostConfig(patch_size=patch, image_size=max(expected["input"].shape[2:]), qkv_bias=bias, **sizes)
    model = TostForImageClassification(config)
    model.load_state_dict(state)
    said = model.eval()(expected["input"], labels=expected["target"])
    assert_close(said.logits, expected["logits"], rtol=1e-5, atol=1e-5)
    assert_close(said.loss.view(1), expected["loss"], rtol=1e-5, atol=1e-5)
    said.loss.backward()
    for key, parameter in model.named_parameters():
        wanted = expected[f"grad.{key}"]
        assert_close(parameter.grad, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()), msg=key)


# The program's files.


def program_loss(program, model, text, folder):
    (folder / "text.txt").write_text(text)
    said = json.loads(
        program("eval", model, "--data", folder / "text.txt", "--split", "whole", "--json", "--threads", 1)
    )
    assert said["tokens"] == len(text) - 1  # one window
    return said["loss"]


def test_a_language_run_gives_the_programs_numbers_and_goes_back(program, language_run, tmp_path):
    model = hf.load(language_run)
    text = "Sums meet, and tokens do not. The current one counts too."
    tokens = torch.tensor([list(text.encode())])
    before = model(tokens, labels=tokens).loss.item()
    assert abs(before - program_loss(program, language_run, text, tmp_path)) < 1e-5
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    hf.save(model, tmp_path / "moved.safetensors")
    after = model(tokens, labels=tokens).loss.item()
    assert abs(after - before) > 0.1
    assert abs(after - program_loss(program, tmp_path / "moved.safetensors", text, tmp_path)) < 1e-5 * after

    arguments = ("--prompt", "Sums", "--temperature", 0, "--max-tokens", 12, "--threads", 1, "--json")
    written = json.loads(program("generate", tmp_path / "moved.safetensors", *arguments))["texts"][0]["ids"]
    prompt = torch.tensor([list(b"Sums")])
    assert model.generate(prompt, max_new_tokens=12, do_sample=False)[0, 4:].tolist() == written
    assert len(set(written)) > 1


def test_an_image_run_is_the_model_of_timm(program, image_run):
    pytest.importorskip("timm", reason="needs timm")
    from tost import vision  # which is compared with the program

    x = torch.randn(2, 3, 32, 32)
    model = hf.load(image_run)
    assert torch.equal(model(x).logits, vision.load(image_run)(x))
    assert model.config.id2label[0] == "disc" and model.config.label2id["square"] == 1


@pytest.mark.parametrize("kind", ["image_run", "language_run"])
def test_hub_folders_convert_both_ways(program, request, tmp_path, kind):
    run = request.getfixturevalue(kind)
    auto = AutoModelForCausalLM if kind == "language_run" else AutoModelForImageClassification
    program("convert", run, tmp_path / "hub")
    model, wanted = auto.from_pretrained(tmp_path / "hub"), hf.load(run)
    assert type(model) is type(wanted)
    assert model.config.label2id == wanted.config.label2id and model.config.id2label == wanted.config.id2label
    state, expected = model.state_dict(), wanted.state_dict()
    assert list(state) == list(expected) and all(torch.equal(state[key], expected[key]) for key in state)

    model.save_pretrained(tmp_path / "saved")
    hf.save(wanted, tmp_path / "model.safetensors")
    program("convert", run, tmp_path / "direct.safetensors")
    for i, source in enumerate((tmp_path / "saved", tmp_path / "model.safetensors")):
        program("convert", source, tmp_path / f"{i}.safetensors")
        assert (tmp_path / f"{i}.safetensors").read_bytes() == (tmp_path / "direct.safetensors").read_bytes()


def test_pictures_of_a_hub_folder_are_prepared_as_the_program_does(program, image_run, tmp_path):
    pytest.importorskip("PIL")
    pytest.importorskip("torchvision")
    from PIL import Image

    pixels = torch.randint(0, 256, (32, 32, 3), dtype=torch.uint8)
    picture = Image.fromarray(pixels.numpy())
    picture.save(tmp_path / "x.png")
    program("convert", image_run, tmp_path / "hub")
    model = AutoModelForImageClassification.from_pretrained(tmp_path / "hub")
    prepare = transformers.AutoImageProcessor.from_pretrained(tmp_path / "hub")
    with torch.no_grad():
        found = model(**prepare(picture, return_tensors="pt")).logits.softmax(1)[0]
    said = json.loads(program("predict", image_run, tmp_path / "x.png", "--json", "--top", 10, "--threads", 1))
    wanted = {entry["label"]: entry["probability"] for entry in said["predictions"][0]["top"]}
    assert_close(found, torch.tensor([wanted[k] for k in range(10)]), rtol=0, atol=1e-5)


def test_new_classes_are_written(program, image_run, tmp_path):
    program("convert", image_run, tmp_path / "hub")
    model = AutoModelForImageClassification.from_pretrained(
        tmp_path / "hub", num_labels=3, id2label={0: "a", 1: "b", 2: "c"}, ignore_mismatched_sizes=True
    )
    model.save_pretrained(tmp_path / "saved")
    program("convert", tmp_path / "saved", tmp_path / "model.safetensors")
    again = hf.load(tmp_path / "model.safetensors")
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"} and again.head.out_features == 3
    assert torch.equal(again.head.weight, model.head.weight)


def test_other_mixers_are_refused(program, tmp_path, image_run, language_run):
    program("convert", image_run, tmp_path / "hub")
    file = tmp_path / "hub" / "config.json"
    config = json.loads(file.read_text())
    config["mixer"] = config["tost"]["mixer"] = "xca"
    file.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="its mixer is 'xca'"):
        AutoModelForImageClassification.from_pretrained(tmp_path / "hub")
    program("convert", language_run, tmp_path / "lm")
    file = tmp_path / "lm" / "config.json"
    config = json.loads(file.read_text())
    config["tost"]["conv"] = 4
    file.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="it has conv 4, which models of this package do not have"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "lm")


# Generation and its state.


def test_cached_equals_uncached():
    model = language()
    prompt = ids(3, 7)
    found = model.generate(prompt, max_new_tokens=20, do_sample=False)
    assert found.shape == (3, 27) and len(set(found[0, 7:].tolist())) > 2
    for other in ({"use_cache": False}, {"cache_implementation": "static"}, {"prefill_chunk_size": 3}):
        assert torch.equal(found, model.generate(prompt, max_new_tokens=20, do_sample=False, **other)), other


@pytest.mark.parametrize("pieces", [(5, 1, 9, 1, 1, 4), (1, 20), (20, 1)])
def test_pieces_of_any_length_continue_the_state(pieces):
    model = language()
    text = ids(2, 21)
    cache, found = DynamicCache(config=model.config), []
    for piece in text.split(pieces, 1):
        said = model(piece, past_key_values=cache, use_cache=True)
        assert said.past_key_values is cache
        found.append(said.logits)
    assert_close(torch.cat(found, 1), model(text).logits, rtol=1e-4, atol=1e-4)
    assert cache.get_seq_length() == 21
    fresh = model(text.split(pieces, 1)[-1]).logits
    assert (fresh - found[-1]).abs().max() > 0.01  # the state counts


def test_a_conversation_continues_from_its_cache():
    model = language()
    first = ids(1, 6)
    cache = DynamicCache(config=model.config)
    said = model.generate(first, past_key_values=cache, max_new_tokens=5, do_sample=False)
    assert cache.get_seq_length() == said.shape[1] - 1
    more = torch.cat([said, ids(1, 8)], 1)
    found = model.generate(more, past_key_values=cache, max_new_tokens=9, do_sample=False)
    assert torch.equal(found, model.generate(more, max_new_tokens=9, do_sample=False))


def padded(texts, side, pad=0):
    longest = max(map(len, texts))
    rows, masks = [], []
    for text in texts:
        gap = [pad] * (longest - len(text))
        rows.append(gap + text if side == "left" else text + gap)
        masks.append([0] * len(gap) + [1] * len(text) if side == "left" else [1] * len(text) + [0] * len(gap))
    return torch.tensor(rows), torch.tensor(masks)


def test_a_padded_batch_writes_what_single_texts_do():
    model = language()
    texts = [ids(n).tolist() for n in (3, 9, 6)]
    batch, mask = padded(texts, "left")
    found = model.generate(batch, attention_mask=mask, max_new_tokens=15, do_sample=False, pad_token_id=0)
    uncached = model.generate(
        batch, attention_mask=mask, max_new_tokens=15, do_sample=False, pad_token_id=0, use_cache=False
    )
    assert torch.equal(found, uncached)
    for text, row in zip(texts, found):
        single = model.generate(torch.tensor([text]), max_new_tokens=15, do_sample=False)
        assert row[-15:].tolist() == single[0, -15:].tolist()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("positions", ["learned", "none"])
def test_padding_on_either_side_is_skipped(side, positions):
    model = language(positions=positions)
    texts = [ids(n).tolist() for n in (3, 9, 0, 6)]
    batch, mask = padded(texts, side)
    cache = DynamicCache(config=model.config)
    logits = model(batch, attention_mask=mask, past_key_values=cache, use_cache=True).logits
    other = model(torch.where(mask.bool(), batch, 7), attention_mask=mask).logits
    more = ids(4, 4)
    longer = torch.cat([mask, torch.ones_like(more)], 1)
    continued = model(more, attention_mask=longer, past_key_values=cache, use_cache=True).logits
    for i, text in enumerate(texts):
        whole = model(torch.tensor([text + more[i].tolist()])).logits[0]
        assert_close(logits[i, mask[i].bool()], whole[: len(text)], rtol=1e-4, atol=1e-4)
        assert_close(other[i, mask[i].bool()], whole[: len(text)], rtol=1e-4, atol=1e-4)
        assert_close(continued[i], whole[len(text) :], rtol=1e-4, atol=1e-4)


def test_padding_gets_no_gradient():
    model = language()
    batch, mask = padded([ids(3).tolist(), ids(8).tolist()], "left")
    x = model.get_input_embeddings()(batch).detach().requires_grad_()
    labels = batch.masked_fill(mask == 0, -100)
    labels[0, 5] = -100  # what the last column of padding would have to say
    model(inputs_embeds=x, attention_mask=mask, labels=labels).loss.backward()
    assert not x.grad[0, :5].any() and x.grad[0, 5:].any()


def test_rows_of_a_cache_move_with_their_states():
    model = language()
    texts = [ids(n).tolist() for n in (4, 7, 2)]
    batch, mask = padded(texts, "left")
    rows, more = torch.tensor([2, 0, 0, 1]), ids(4, 3)
    longer = torch.cat([mask[rows], torch.ones_like(more)], 1)
    for move in ("reorder_cache", "batch_select_indices"):
        cache = DynamicCache(config=model.config)
        model(batch, attention_mask=mask, past_key_values=cache, use_cache=True)
        getattr(cache, move)(rows)
        found = model(more, attention_mask=longer, past_key_values=cache, use_cache=True).logits
        for i, row in enumerate(rows):
            whole = model(torch.tensor([texts[row] + more[i].tolist()])).logits[0]
            assert_close(found[i], whole[-3:], rtol=1e-4, atol=1e-4)
    cache.batch_repeat_interleave(2)
    assert cache.layers[0].sums.shape[0] == 8 and cache.layers[1].tokens == [5, 5, 7, 7, 7, 7, 10, 10]


def test_beams():
    model = language()
    batch, mask = padded([ids(4).tolist(), ids(7).tolist()], "left")
    arguments = {"attention_mask": mask, "max_new_tokens": 10, "num_beams": 4, "do_sample": False, "pad_token_id": 0}
    found = model.generate(batch, **arguments)
    assert torch.equal(found, model.generate(batch, use_cache=False, **arguments))
    assert not torch.equal(found, model.generate(batch, **{**arguments, "num_beams": 1}))


def test_the_state_does_not_grow_and_can_be_forked_and_reset():
    model = language()
    cache = DynamicCache(config=model.config)
    model(ids(1, 5), past_key_values=cache, use_cache=True)
    sizes = [layer.sums.numel() for layer in cache.layers]
    assert sizes == [2 * 24 + 3] * 2
    fork = copy.deepcopy(cache)
    a, b = ids(1, 3), ids(1, 3)
    once = model(a, past_key_values=fork, use_cache=True).logits
    model(b, past_key_values=cache, use_cache=True)
    assert [layer.sums.numel() for layer in cache.layers] == sizes
    cache.reset()
    assert_close(model(a, past_key_values=cache, use_cache=True).logits, model(a).logits)
    assert (once - model(a).logits).abs().max() > 0.01


def test_what_a_cache_or_a_model_cannot_do_is_said():
    model = language()
    with pytest.raises(ValueError, match=r"make it by DynamicCache\(config=model.config\)"):
        model(ids(1, 3), past_key_values=DynamicCache(), use_cache=True)
    cache = DynamicCache(config=model.config)
    model(ids(1, 39), past_key_values=cache, use_cache=True)
    with pytest.raises(ValueError, match="learned positions for 40 tokens and cannot read token 41"):
        model(ids(1, 2), past_key_values=cache, use_cache=True)
    with pytest.raises(ValueError, match="tokens cannot be removed from sums"):
        cache.crop(-1)
    with pytest.raises(ValueError, match="attention_mask must be .* = .1, 40., but is .1, 3."):
        model(ids(1, 1), attention_mask=torch.ones(1, 3), past_key_values=cache)
    with pytest.raises(ValueError, match="position_ids cannot be chosen"):
        model(ids(1, 3), position_ids=torch.arange(3)[None])
    checkpointed = language().train()
    checkpointed.activation_checkpointing_enable()
    with pytest.raises(ValueError, match="a cache would be filled twice"):
        checkpointed(ids(1, 3), use_cache=True)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()
    with pytest.raises(ValueError, match="activation must be 'gelu' or 'gelu-tanh', but is 'relu'"):
        language(activation="relu")
    with pytest.raises(ValueError, match="its mixer is 'softmax'"):
        language(mixer="softmax")


def test_no_positions_means_no_limit():
    model = language(positions="none", bias_positions=8)
    state = model.state_dict()
    assert "transformer.wpe.weight" not in state and state["transformer.h.0.attn.denom_bias"].shape == (3, 8, 1)
    text = ids(1, 60)
    cache = DynamicCache(config=model.config)
    found = [model(piece, past_key_values=cache, use_cache=True).logits for piece in text.split(25, 1)]
    assert_close(torch.cat(found, 1), model(text).logits, rtol=1e-4, atol=1e-4)
    assert (found[1] - model(text[:, 25:50]).logits).abs().max() > 0.01  # the state counts


# What the library does with models.


@pytest.mark.parametrize("make", [language, image])
def test_saved_and_loaded(make, tmp_path):
    model = make()
    x = ids(2, 9) if make is language else torch.randn(2, 3, 32, 32)
    model.save_pretrained(tmp_path)
    assert sorted(p.suffix for p in tmp_path.iterdir() if p.name.startswith("model")) == [".safetensors"]
    other = type(model).from_pretrained(tmp_path)
    assert torch.equal(other(x).logits, model(x).logits)
    assert other.config.to_diff_dict() == model.config.to_diff_dict()
    assert torch.equal(copy.deepcopy(model)(x).logits, model(x).logits)
    again = hf.load(tmp_path)
    assert torch.equal(again(x).logits, model(x).logits)
    if make is language:
        assert other.lm_head.weight is other.transformer.wte.weight
        assert again.lm_head.weight is again.transformer.wte.weight
    half = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert half(x if make is language else x.bfloat16()).logits.dtype == torch.bfloat16


def test_saved_in_shards(tmp_path):
    model = language()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    x = ids(2, 9)
    for other in (TostForCausalLM.from_pretrained(tmp_path), hf.load(tmp_path)):
        assert torch.equal(other(x).logits, model(x).logits)


def test_initial_values_are_the_official_ones():
    torch.manual_seed(0)
    model = TostForCausalLM(TostConfig(hidden_size=96, num_hidden_layers=2, num_attention_heads=3, vocab_size=500))
    state = model.state_dict()
    for name, deviation in {"wte.weight": 0.02, "wpe.weight": 0.02, "h.0.attn.c_proj.weight": 0.01}.items():
        assert abs(float(state[f"transformer.{name}"].std()) / deviation - 1) < 0.05, name
    assert abs(float(state["transformer.h.1.mlp.c_proj.weight"].std()) / 0.01 - 1) < 0.05
    assert (state["transformer.h.0.gamma1"] == 1e-5).all() and (state["transformer.h.0.attn.temp"] == 1).all()
    assert not state["transformer.h.0.attn.denom_bias"].any()
    state = TostForImageClassification(
        TostConfig(hidden_size=96, num_hidden_layers=2, num_attention_heads=3)
    ).state_dict()
    assert (state["blocks.0.gamma1"] == 1).all() and (state["blocks.1.attn.temp"] == 1).all()
    assert abs(float(state["blocks.0.mlp.fc1.weight"].std()) / 0.02 - 1) < 0.05 and state["cls_token"].any()
    assert abs(float(state["patch_embed.proj.2.0.weight"].std()) / (1 / (3 * 12 * 9) ** 0.5) - 1) < 0.1


@pytest.mark.parametrize("make", [language, image])
def test_training_reaches_every_parameter_and_checkpointing_changes_nothing(make):
    model = make()
    model.train()
    if make is language:
        x = ids(2, 12)
        arguments = {"input_ids": x, "labels": x, "use_cache": False}
    else:
        arguments = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([1, 5])}
    found = []
    for on in (False, True):
        if on:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(**arguments).loss.backward()
        assert all(p.grad is not None and p.grad.any() for p in model.parameters())
        found.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*found):
        assert_close(a, b)


def test_hidden_states_and_tuples():
    model = language()
    said = model(ids(2, 5), output_hidden_states=True, labels=ids(2, 5))
    assert len(said.hidden_states) == 3 and said.hidden_states[0].shape == (2, 5, 24)
    assert len(model(ids(2, 5), return_dict=False)) == 2
    assert model(ids(2, 5), logits_to_keep=2).logits.shape == (2, 2, 61)
    states = image(registers=2)(torch.randn(1, 3, 32, 32), output_hidden_states=True).hidden_states
    assert [s.shape for s in states] == [(1, 66, 32)] * 3


@pytest.mark.parametrize("make", [language, image])
def test_compiled(make):
    torch._dynamo.reset()
    model = make()
    arguments = (
        {"input_ids": ids(2, 12), "use_cache": False}
        if make is language
        else {"pixel_values": torch.randn(2, 3, 32, 32)}
    )
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend="aot_eager")
    y, expected = compiled(**arguments).logits, model(**arguments).logits
    assert_close(y, expected, rtol=1e-4, atol=1e-4)
    found, wanted = (torch.autograd.grad(z.square().mean(), model.parameters()) for z in (y, expected))
    for a, b in zip(found, wanted):
        assert_close(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))


def test_a_model_made_here_is_saved_with_a_tokenizer(program, tmp_path):
    config = TostConfig(hidden_size=24, num_hidden_layers=1, num_attention_heads=3, vocab_size=257, n_positions=64)
    model = TostForCausalLM(config).eval()
    hf.save(model, tmp_path / "model.safetensors", tokenizer="bytes")
    program("generate", tmp_path / "model.safetensors", "--prompt", "Once", "--max-tokens", 3, "--stats")
    hf.save(hf.load(tmp_path / "model.safetensors"), tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    model.config.vocab_size = 256
    with pytest.raises(ValueError, match="the tokenizer bytes has 257 tokens, but the model's vocab_size is 256"):
        hf.save(model, tmp_path / "other.safetensors", tokenizer="bytes")
