"""Shapes of the health routes."""

from typing import Literal

from pydantic import ConfigDict, Field

from wenmai.http.shapes.common import Shape


class Alive(Shape):
    """The process answers."""

    status: Literal["ok"] = Field(description="Always `ok`.")


class StoreState(Shape):
    """Whether a store answers, and what is wrong if it does not."""

    model_config = ConfigDict(extra="allow")

    state: Literal["ok", "down"] = Field(description="Whether it answers.")
    error: str | None = Field(default=None, description="What is wrong if it does not.")


class BreakerState(Shape):
    """How a circuit breaker stands."""

    state: Literal["closed", "half_open", "open"] = Field(description="`open`: what it guards is left alone.")
    failures: int = Field(description="Failed calls in a row.")
    refused: int = Field(description="Calls that were not let through since the start.")


class Ready(Shape):
    """Whether requests can be served, and the state of each part."""

    status: Literal["ok", "degraded", "down"] = Field(description="`degraded`: served without some of the parts.")
    stores: dict[str, StoreState] = Field(description="Each store, by name.")
    breakers: dict[str, BreakerState] = Field(description="By the name of what they guard, such as `model`.")
    degraded: list[str] = Field(description="The parts that are left alone for now.")
