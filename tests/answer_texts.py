"""Strategies for model answers and for their fragments."""

from hypothesis import strategies as st

_PARTS = (
    "祠堂始建于明嘉靖二年（1523年），由严守正主持创建。",
    "祠堂建于1850年。", "后生问得好。", "家训第一条是孝悌为本，第二条是耕读传家。",
    "事见《谁是英雄？》。", "《砚田严氏族谱》有载：",
    "他说：“规矩不可旧。”", "祠堂坐北朝南！？",
    "……", "。", "（1850年）", "族" * 1300,
    "The hall was founded in 1523 by Yan Shouzheng. ", "It was built in 1850. ", "Dr. Wang said so. ",
    "See “It Was Built. In Wen Zhou”. ",
    "No. 3.14 is a number", "e.g. ", "...", "? ", "word " * 300, "[1]", " [9]", "[2] ", "March 3, 1523",
    "# 家训\n\n", "- 孝悌为本\n", "1. ", "**bold** ", "| a | b |\r\n",
    "```\ncode\n```\n", "\n\n", "  ", "\t", "😀", "👩‍👩‍👧", "é", "\u3000",
)  # fmt: skip
"""Supported and unsupported text, in two languages, with Markdown and every sentence end."""

answers = st.lists(st.sampled_from(_PARTS), min_size=1, max_size=10).map("".join).filter(str.strip)


def cut(text: str, positions: list[int]) -> list[str]:
    """The text in fragments, cut at these positions, modulo its length."""
    ends = sorted({position % (len(text) + 1) for position in positions} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start]


cuttings = st.one_of(
    st.lists(st.integers(min_value=0, max_value=5000), max_size=12),
    st.just(list(range(1500))),
)
"""A few cuts, or one after each of the first characters, beyond the longest sentence."""
