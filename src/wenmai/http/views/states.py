"""Business states as the routes return them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from wenmai.http.views import view_of
from wenmai.memory.state import StateUpdate
from wenmai.stores.records import BusinessState, Operation, StateChange


class StateView(msgspec.Struct, frozen=True, kw_only=True):
    """The business state of a session."""

    session_id: Annotated[str, Meta(description="The session's id.")]
    current_customer_id: Annotated[str | None, Meta(description="The current customer.")]
    operation_chain: Annotated[
        list[Operation], Meta(description="The newest operations, oldest first; the last one is current.")
    ]
    version: Annotated[int, Meta(description="Number of changes so far.")]


class StateChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a business state."""

    changes: Annotated[list[StateChange], Meta(description="The changes, oldest first.")]


class ObjectView(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a message names."""

    name: Annotated[str, Meta(description="The object; empty if only a stage is named.")]
    stage: Annotated[str, Meta(description="The stage that is named for it; may be empty.")]


class RecognizedView(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says in the words of the business rules; empty for what it does not name."""

    intent: Annotated[str, Meta(description="The intent.")]
    domains: Annotated[list[str], Meta(description="The domains.")]
    customer: Annotated[str, Meta(description="The customer.")]
    objects: Annotated[list[ObjectView], Meta(description="The objects, in the order of the message.")]
    rejected: Annotated[list[str], Meta(description="Objects that the user said not to mean.")]
    matched: Annotated[list[str], Meta(description="The words that were recognized.")]


class UnderstoodView(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was understood."""

    recognized: Annotated[RecognizedView, Meta(description="What the message itself says.")]
    carried: Annotated[list[str], Meta(description="Object and stage that it refers to without naming them.")]
    search_text: Annotated[str, Meta(description="The message with these words, for a search.")]
    changes: Annotated[list[StateChange], Meta(description="The changes that it made, oldest first.")]
    state: Annotated[StateView, Meta(description="The state after it.")]


def state_view(state: BusinessState) -> StateView:
    """A business state."""
    return view_of(state, StateView, version=state.state_version)


def understood_view(query: str, update: StateUpdate) -> UnderstoodView:
    """A message as it was understood."""
    objects = [view_of(each, ObjectView) for each in update.recognized.objects]
    return UnderstoodView(
        recognized=view_of(update.recognized, RecognizedView, objects=objects),
        carried=update.carried,
        search_text=update.search_text(query),
        changes=update.changes,
        state=state_view(update.state),
    )
