"""Models of the health routes."""

from typing import Literal

from pydantic import ConfigDict, Field

from wenmai.http.schemas.common import ResponseModel


class Liveness(ResponseModel):
    """The process is alive."""

    status: Literal["ok"] = Field(description="Always `ok`.")


class StoreHealth(ResponseModel):
    """Whether a store is reachable, and the error if not."""

    model_config = ConfigDict(extra="allow")

    state: Literal["ok", "down"] = Field(description="Whether the store is reachable.")
    error: str | None = Field(default=None, description="The error if it is not reachable.")


class BreakerView(ResponseModel):
    """State of a circuit breaker."""

    state: Literal["closed", "half_open", "open"] = Field(description="`open`: calls are rejected.")
    failures: int = Field(description="Consecutive failures.")
    refused: int = Field(description="Calls rejected since the process started.")


class DerivedLag(ResponseModel):
    """Derived memory (titles, inferred preferences) that is behind; readiness does not depend on it."""

    threads: int = Field(description="Threads known to this process whose derived memory is behind their messages.")
    oldest_seconds: float = Field(description="For how long the oldest of them has been behind.")


class Readiness(ResponseModel):
    """Whether requests can be served, and the state of each dependency."""

    status: Literal["ok", "degraded", "down"] = Field(
        description="`degraded`: served without some optional dependencies."
    )
    stores: dict[str, StoreHealth] = Field(description="Each store, by name.")
    breakers: dict[str, BreakerView] = Field(description="By the name of the guarded dependency, such as `model`.")
    degraded: list[str] = Field(
        description="Dependencies that are not called at present, because their breaker is not closed."
    )
    derived: DerivedLag = Field(description="How far derived memory is behind.")
