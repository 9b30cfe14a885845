"""The error of ``estimate_tokens`` against real tokenizers, over files of real talk.

::

    pip install tiktoken tokenizers
    pip install --no-deps litellm dashscope  # the vocabularies are inside
    python -m benchmarks.token_estimate --tokenizer qwen talk.json

A ``.json`` or ``.jsonl`` file gives one message per string under ``content``, ``text``, ``query`` or
``response``; of any other file each line that is not blank is a message. Chinese and other messages are
reported apart.
"""

import argparse
import base64
import json
import os
import statistics
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wenmai.text.cjk import has_cjk
from wenmai.text.tokens import estimate_tokens

Counter = Callable[[str], int]

_MESSAGE_KEYS = ("content", "text", "query", "response")
_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the package {package} is not installed; see python -m benchmarks.token_estimate --help")
    return Path(spec.origin).parent


def _load(package: str) -> Any:
    _folder(package)
    return import_module(package)


def _tiktoken(name: str) -> Counter:
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(_folder("litellm") / "litellm_core_utils" / "tokenizers"))
    encoding = _load("tiktoken").get_encoding(name)
    return lambda text: len(encoding.encode_ordinary(text))


def _qwen(_name: str) -> Counter:
    lines = (_folder("dashscope") / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    encoding = _load("tiktoken").Encoding("qwen", pat_str=_QWEN_SPLIT, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


def _deepseek(_name: str) -> Counter:
    path = _folder("litellm") / "litellm_core_utils" / "tokenizers" / "deepseek_tokenizer.json"
    tokenizer = _load("tokenizers").Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


TOKENIZERS: dict[str, Callable[[str], Counter]] = {
    "qwen": _qwen,
    "deepseek": _deepseek,
    "o200k_base": _tiktoken,
    "cl100k_base": _tiktoken,
}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _MESSAGE_KEYS and isinstance(item, str):
                yield item
            else:
                yield from _strings(item)


def read_messages(path: Path) -> list[str]:
    """The messages of a file, in order; see the module's docstring for the shapes."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        found = _strings(json.loads(content))
    elif path.suffix == ".jsonl":
        found = _strings([json.loads(line) for line in content.splitlines() if line.strip()])
    else:
        found = iter(content.splitlines())
    return [message for message in found if message.strip()]


def _report(label: str, messages: list[str], tokenizers: list[str]) -> None:
    estimates = [estimate_tokens(message) for message in messages]
    counts = {name: [*map(TOKENIZERS[name](name), messages)] for name in tokenizers}
    counts["their mean"] = [round(sum(each) / len(each)) for each in zip(*counts.values(), strict=True)]
    print(f"{label}: {len(messages)} messages, {sum(map(len, messages))} characters")
    print(f"  {'tokenizer':12} {'tokens':>9} {'total':>7} {'median':>7} {'p90':>6}   {'len/4':>6}")
    for name, counted in counts.items():
        total = sum(counted)
        errors = [abs(e - c) / max(c, 1) for e, c in zip(estimates, counted, strict=True)]
        p90 = statistics.quantiles(errors, n=10)[-1] if len(errors) > 1 else errors[0]
        naive = sum(len(message) for message in messages) / 4
        print(
            f"  {name:12} {total:9} {sum(estimates) / total - 1:+7.1%} {statistics.median(errors):7.1%}"
            f" {p90:6.1%}   {naive / total - 1:+6.0%}"
        )


def main() -> None:
    """Print, per language and tokenizer, the error of the total and of single messages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tokenizer", action="append", choices=sorted(TOKENIZERS), default=None)
    arguments = parser.parse_args()
    messages = [message for path in arguments.files for message in read_messages(path)]
    for label, chinese in (("Chinese", True), ("Other", False)):
        chosen = [message for message in messages if has_cjk(message) is chinese]
        if chosen:
            _report(label, chosen, arguments.tokenizer or sorted(TOKENIZERS))


if __name__ == "__main__":
    main()
