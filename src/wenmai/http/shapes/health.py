"""Shapes of the health routes."""

from typing import Literal

from pydantic import ConfigDict

from wenmai.http.shapes.common import Shape


class Alive(Shape):
    """The process answers."""

    status: Literal["ok"]


class StoreState(Shape):
    """Whether a store answers, and what is wrong if it does not."""

    model_config = ConfigDict(extra="allow")

    state: Literal["ok", "down"]
    error: str | None = None


class Ready(Shape):
    """Whether requests can be served, and the state of each store."""

    status: Literal["ok", "down"]
    stores: dict[str, StoreState]
