"""A cross-encoder of two ONNX nodes: its score is the highest number of a word of question and text."""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

INT64, FLOAT = 7, 1


def write_cross_encoder(folder: Path, words: Sequence[str]) -> None:
    """Write the model; a text with a later word of the list has a higher score."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 — a token of the vocabulary
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 512, "pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]", "unk_token": "[UNK]"}))
    (folder / "model.onnx").write_bytes(_model())


def _model() -> bytes:
    """Serialised as in onnx.proto: the largest token id of each row, as a score."""
    cast = _node("Cast", "input_ids", "numbers", _text(1, "to") + _number(3, FLOAT) + _number(20, 2))
    axes = _text(1, "axes") + _number(8, 1) + _number(20, 7)
    largest = _node("ReduceMax", "numbers", "scores", axes)
    shapes = _value("input_ids", INT64, "length"), _value("scores", FLOAT, "one")
    graph = _field(1, cast) + _field(1, largest) + _text(2, "g") + _field(11, shapes[0]) + _field(12, shapes[1])
    return _number(1, 8) + _field(7, graph) + _field(8, _text(1, "") + _number(2, 13))


def _node(operator: str, source: str, target: str, attribute: bytes) -> bytes:
    return _text(1, source) + _text(2, target) + _text(4, operator) + _field(5, attribute)


def _value(name: str, kind: int, second: str) -> bytes:
    shape = _field(1, _text(2, "batch")) + _field(1, _text(2, second))
    return _text(1, name) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def _text(field: int, text: str) -> bytes:
    return _field(field, text.encode())


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
