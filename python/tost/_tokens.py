"""GPT-2's vocabulary files, as transformers reads them, from the tokenizer of a model file."""

import base64
import json

END_OF_TEXT = "<|endoftext|>"


def _alphabet():
    """The visible character that stands for each byte in GPT-2's vocabulary files."""
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**{byte: chr(byte) for byte in visible}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


def _parts_before(token, rank, ranks):
    """What is left of `token` when neighbours are joined by every token before `rank`, the lowest first."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        joined = [(ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1)]
        best, at = min(joined)
        if best >= rank:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def gpt2_files(tokenizer, block):
    """vocab.json, merges.txt and tokenizer_config.json; ValueError where the tokens are not those of merges."""
    tokens = [base64.b64decode(text) for text in tokenizer["tokens"].split(" ")]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    alphabet = _alphabet()
    words = ["".join(alphabet[byte] for byte in token) for token in tokens]
    lines = ["#version: 0.2"]
    for rank, token in enumerate(tokens):
        if len(token) == 1:
            continue
        parts = _parts_before(token, rank, ranks)
        if len(parts) != 2:
            raise ValueError(f"token {rank} of the vocabulary cannot be made by joining two before it.")
        lines.append(" ".join(words[ranks[part]] for part in parts))
    vocabulary = {**{word: rank for rank, word in enumerate(words)}, END_OF_TEXT: len(tokens)}
    settings = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": block, "bos_token": END_OF_TEXT,
                "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT, "add_prefix_space": False}
    return {"vocab.json": json.dumps(vocabulary, separators=(",", ":"), ensure_ascii=False),
            "merges.txt": "\n".join(lines) + "\n", "tokenizer_config.json": json.dumps(settings, indent=2) + "\n"}
