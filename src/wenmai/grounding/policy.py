"""How strict grounding is, layered key by key: defaults < site < persona < intent."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from wenmai.errors import InvalidInput


class GroundingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the checks before and after the model.

    Attributes:
        min_citations: strong passages required to answer a factual question; 0 requires none.
        min_score: score, 0 to 1, from which a passage is strong.
        max_citations: citations shown with an answer; 0 shows none.
        verified_only: drop unverified passages. By default they may support a fact, always marked as hearsay.
    """

    min_citations: Annotated[int, msgspec.Meta(ge=0)] = 1
    min_score: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05
    max_citations: Annotated[int, msgspec.Meta(ge=0)] = 3
    verified_only: bool = False


_ALLOWED = {
    "min_citations": "a whole number of 0 or more",
    "min_score": "a number from 0 to 1",
    "max_citations": "a whole number of 0 or more",
    "verified_only": "true or false",
}


def merge_policies(*layers: Mapping[str, Any]) -> GroundingPolicy:
    """Merge the layers key by key, each overriding the ones before it; an explicit 0 counts.

    Args:
        layers: the weakest first.

    Raises:
        InvalidInput: a layer has an unknown key or a value that is not allowed; the error names
            ``policy.<key>``.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if key not in _ALLOWED:
                raise InvalidInput(f"policy.{key}", value, f"a setting: one of {', '.join(_ALLOWED)}")
            try:
                msgspec.convert({key: value}, GroundingPolicy)
            except msgspec.ValidationError as problem:
                raise InvalidInput(f"policy.{key}", value, _ALLOWED[key]) from problem
            merged[key] = value
    return msgspec.convert(merged, GroundingPolicy)
