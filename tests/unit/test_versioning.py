"""Registries of personas and prompts: versions, of which exactly one is active, per tenant and site."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import pytest

from support import engine_at
from wenmai.chat.persona import PersonaRegistry
from wenmai.chat.prompts import PromptRegistry
from wenmai.chat.turn import TurnRequest
from wenmai.chat.versioning import READ_PAGE, Version, VersionNotFound
from wenmai.clock import system_clock
from wenmai.config.profile import Persona, load_profile
from wenmai.config.sources import profile_path
from wenmai.errors import Conflict, InvalidInput, PersonaNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.opening import open_store
from wenmai.stores.records import ActiveVersion, Record
from wenmai.stores.structs import Stored

R = TypeVar("R", bound=Record)

SITE = Scope("tenant", "site", "operator")
PROFILE = load_profile(profile_path("npc"))
ANCESTOR = PROFILE.personas[0]
OTHERS = [Scope("tenant", "elsewhere", "operator"), Scope("other", "site", "operator")]


def value_of(persona: Persona = ANCESTOR, **changes: Any) -> dict[str, Any]:
    """The fields of a persona as a caller passes them."""
    fields: dict[str, Any] = msgspec.to_builtins(persona)
    del fields["npc_id"]
    return fields | changes


def named(name: str) -> dict[str, Any]:
    """A persona of that name."""
    return value_of(name={"zh": name})


@pytest.fixture
async def documents(store_url: str) -> AsyncIterator[Documents]:
    """The documents of each store."""
    async with open_store(store_url, clock=system_clock) as store:
        assert store.documents is not None
        yield store.documents


@pytest.fixture
def personas(documents: Documents) -> PersonaRegistry:
    """The registry with the profile's personas."""
    return PersonaRegistry(documents, PROFILE.personas)


@pytest.fixture
def prompts(documents: Documents) -> PromptRegistry:
    """An empty registry."""
    return PromptRegistry(documents)


async def all_versions(
    registry: PersonaRegistry | PromptRegistry, persona_id: str, *, limit: int = 20
) -> list[Version]:
    """Every version, page by page."""
    found: list[Version] = []
    cursor = None
    while True:
        page, cursor = await registry.versions(SITE, persona_id, limit=limit, cursor=cursor)
        found += page
        if cursor is None:
            return found


async def test_the_profiles_entry_is_version_1(personas: PersonaRegistry) -> None:
    """Active without being stored; it cannot be deleted, and the next version is 2."""
    active = await personas.active(SITE, "ancestor_yan")
    assert active is not None
    assert (active.number, active.active, active.author, active.created_at) == (1, True, "profile", None)
    assert (await personas.active_persona(SITE, "ancestor_yan")).persona == ANCESTOR
    second = await personas.create(SITE, "ancestor_yan", named("新先祖"), author="me", note="new name")
    assert (second.number, second.active, second.author, second.note) == (2, False, "me", "new name")
    await personas.set_active(SITE, "ancestor_yan", 2)
    with pytest.raises(Conflict, match="profile"):
        await personas.delete(SITE, "ancestor_yan", 1)
    assert (await personas.set_active(SITE, "ancestor_yan", 1)).previous == 2
    assert (await personas.active_persona(SITE, "ancestor_yan")).persona == ANCESTOR


async def test_the_first_version_of_a_new_entry_is_active_at_once(prompts: PromptRegistry) -> None:
    """Before it no version is active; later ones must be activated."""
    assert await prompts.active(SITE, "ancestor_yan") is None
    first = await prompts.create(SITE, "ancestor_yan", {"text": "one"})
    second = await prompts.create(SITE, "ancestor_yan", {"text": "two", "language": "en"})
    assert (first.number, first.active, second.number, second.active) == (1, True, 2, False)
    assert second.value == {"text": "two", "language": "en"}
    assert await prompts.active(SITE, "ancestor_yan") == first
    assert await prompts.get(SITE, "ancestor_yan", 2) == second


async def test_twenty_concurrent_creations_get_twenty_numbers(prompts: PromptRegistry, documents: Documents) -> None:
    """1 to 20, each once, by several processes; exactly one active; the list is newest first and agrees."""
    processes = [prompts, *(PromptRegistry(documents) for _ in range(3))]
    made = await asyncio.gather(*(processes[n % 4].create(SITE, "a", {"text": f"text {n}"}) for n in range(20)))
    assert sorted(version.number for version in made) == list(range(1, 21))
    listed = await all_versions(prompts, "a", limit=7)
    assert [version.number for version in listed] == list(range(20, 0, -1))
    assert [version.number for version in listed if version.active] == [1]
    text_of = {version.number: version.value["text"] for version in made}
    assert {version.number: version.value["text"] for version in listed} == text_of


async def test_versions_come_newest_first_page_by_page(personas: PersonaRegistry) -> None:
    """The profile's version is the last of the last page."""
    for number in range(2, 6):
        await personas.create(SITE, "ancestor_yan", named(f"先祖{number}"))
    for limit in (1, 2, 4, 20):
        listed = await all_versions(personas, "ancestor_yan", limit=limit)
        assert [version.number for version in listed] == [5, 4, 3, 2, 1]


async def test_activation_returns_previous_and_current(prompts: PromptRegistry) -> None:
    """And exactly one version is active afterwards."""
    for text in ("one", "two", "three"):
        await prompts.create(SITE, "a", {"text": text})
    activation = await prompts.set_active(SITE, "a", 3)
    assert (activation.previous, activation.current) == (1, 3)
    again = await prompts.set_active(SITE, "a", 3, expected=3)
    assert (again.previous, again.current) == (3, 3)
    assert [version.number for version in await all_versions(prompts, "a") if version.active] == [3]


async def test_many_creations_at_once_cost_no_more_than_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a process they do not compete for a number."""
    documents = InProcessDocuments(system_clock)
    refused, put = [], documents.put

    async def counting(*given: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        try:
            return await put(*given, **options)
        except VersionConflict as lost:
            refused.append(lost)
            raise

    monkeypatch.setattr(documents, "put", counting)
    prompts = PromptRegistry(documents)
    await asyncio.gather(*(prompts.create(SITE, "a", {"text": f"text {n}"}) for n in range(20)))
    assert refused == []


async def test_activation_is_compare_and_set(prompts: PromptRegistry) -> None:
    """With ``expected``, another active version conflicts; of ten concurrent activations from version 1 one wins."""
    for number in range(1, 12):
        await prompts.create(SITE, "a", {"text": str(number)})
    with pytest.raises(VersionConflict):
        await prompts.set_active(SITE, "a", 3, expected=2)
    results = await asyncio.gather(
        *(prompts.set_active(SITE, "a", number, expected=1) for number in range(2, 12)), return_exceptions=True
    )
    won = [result for result in results if not isinstance(result, BaseException)]
    assert len(won) == 1
    assert all(isinstance(result, VersionConflict) for result in results if result is not won[0])
    active = await prompts.active(SITE, "a")
    assert active is not None
    assert active.number == won[0].current


async def test_the_active_version_cannot_be_deleted(prompts: PromptRegistry) -> None:
    """Another one can; its number is not reused."""
    for text in ("one", "two"):
        await prompts.create(SITE, "a", {"text": text})
    with pytest.raises(Conflict, match="active"):
        await prompts.delete(SITE, "a", 1)
    await prompts.delete(SITE, "a", 2)
    for call in (prompts.get, prompts.delete, prompts.set_active):
        with pytest.raises(VersionNotFound):
            await call(SITE, "a", 2)
    assert (await prompts.create(SITE, "a", {"text": "three"})).number == 3


async def test_concurrent_deletion_and_activation_leave_an_active_version(prompts: PromptRegistry) -> None:
    """Whichever is faster, the active version exists."""
    for number in range(1, 31):
        await prompts.create(SITE, "a", {"text": str(number)})
    for number in range(2, 31):
        results = await asyncio.gather(
            prompts.set_active(SITE, "a", number), prompts.delete(SITE, "a", number), return_exceptions=True
        )
        assert all(isinstance(result, Conflict | VersionNotFound | msgspec.Struct | None) for result in results)
        active = await prompts.active(SITE, "a")
        assert active is not None
        assert active.value["text"] == str(active.number)
        if isinstance(results[1], BaseException):
            assert active.number == number


class InterleavingDocuments(InProcessDocuments):
    """Runs another writer between a caller's read and its write."""

    act: Callable[[], Awaitable[Any]] | None = None

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """As in the store, but after the other writer."""
        if self.act is not None:
            act, self.act = self.act, None
            await act()
        return await super().put(scope, record, expected=expected, keep_until=keep_until)


async def test_a_version_deleted_while_it_is_activated_is_not_activated() -> None:
    """Found, then deleted by another writer, then not found: the previous version remains active."""
    documents = InterleavingDocuments(system_clock)
    prompts = PromptRegistry(documents)
    for text in ("one", "two"):
        await prompts.create(SITE, "a", {"text": text})
    documents.act = lambda: prompts.delete(SITE, "a", 2)
    with pytest.raises(VersionNotFound):
        await prompts.set_active(SITE, "a", 2)
    active = await prompts.active(SITE, "a")
    assert active is not None
    assert active.number == 1


async def test_a_version_activated_while_it_is_deleted_is_restored() -> None:
    """The deletion conflicts because the version is active, and the version is unchanged."""
    documents = InterleavingDocuments(system_clock)
    prompts = PromptRegistry(documents)
    for text in ("one", "two"):
        await prompts.create(SITE, "a", {"text": text}, author="me", note=text)

    async def activate_from_what_was_read() -> None:
        # As if the other writer had read before the deletion and written after it.
        stored = await documents.get(SITE, ActiveVersion, "prompt:a")
        assert stored is not None
        await documents.put(SITE, msgspec.structs.replace(stored.record, number=2), expected=stored.version)

    documents.act = activate_from_what_was_read
    with pytest.raises(Conflict, match="activated meanwhile"):
        await prompts.delete(SITE, "a", 2)
    active = await prompts.active(SITE, "a")
    assert active is not None
    assert (active.number, active.value["text"], active.author, active.note) == (2, "two", "me", "two")


@pytest.mark.parametrize("number", [0, 2, 99])
async def test_an_unknown_version_is_not_found(personas: PersonaRegistry, number: int) -> None:
    """Unknown number or persona."""
    with pytest.raises(VersionNotFound):
        await personas.get(SITE, "ancestor_yan", number)
    with pytest.raises(VersionNotFound):
        await personas.set_active(SITE, "nobody", 1)
    with pytest.raises(PersonaNotFound):
        await personas.active_persona(SITE, "nobody")


@pytest.mark.parametrize("other", OTHERS)
async def test_each_site_has_its_own_versions(documents: Documents, other: Scope) -> None:
    """Another site has the profile's persona and nothing registered here; users of a site share versions."""
    personas, prompts = PersonaRegistry(documents, PROFILE.personas), PromptRegistry(documents)
    await personas.create(SITE, "ancestor_yan", named("新先祖"))
    await personas.set_active(SITE, "ancestor_yan", 2)
    await personas.create(SITE, "doctor", named("村医"))
    await prompts.create(SITE, "ancestor_yan", {"text": "ours"})
    assert (await personas.active_persona(other, "ancestor_yan")).version == 1
    assert await personas.active(other, "doctor") is None
    assert await prompts.active(other, "ancestor_yan") is None
    assert [version.persona_id for version in await personas.all_active(other)] == ["ancestor_yan", "village_elder"]
    assert (await personas.create(other, "ancestor_yan", named("别家先祖"))).number == 2
    assert (await personas.active_persona(SITE, "ancestor_yan")).persona.name == {"zh": "新先祖"}
    colleague = SITE._replace(user_id="colleague")
    assert (await personas.active_persona(colleague, "doctor")).persona.name == {"zh": "村医"}


async def test_all_active_personas_are_listed(personas: PersonaRegistry, prompts: PromptRegistry) -> None:
    """The profile's and the registered ones, by id, each once; prompts are another list."""
    await personas.create(SITE, "doctor", named("村医"))
    await prompts.create(SITE, "abbot", {"text": "x"})
    listed = await personas.all_active(SITE)
    assert [version.persona_id for version in listed] == ["ancestor_yan", "doctor", "village_elder"]
    assert [version.persona_id for version in await prompts.all_active(SITE)] == ["abbot"]


async def test_a_persona_is_listed_however_many_versions_came_after_it(
    personas: PersonaRegistry, documents: Documents
) -> None:
    """None is missing with more entries than one store page."""
    await personas.create(SITE, "doctor", named("村医"))
    for number in range(READ_PAGE):
        state = ActiveVersion(ref=f"prompt:npc-{number}", number=1, latest=1)
        await documents.put(SITE, state, expected=0)
    assert "doctor" in [version.persona_id for version in await personas.all_active(SITE)]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": None}, "persona.name"),
        ({"name": {}}, "persona.name"),
        ({"greetings": "hello"}, "persona.greetings"),
        ({"greetings": {"zh": [1]}}, "persona.greetings[0]"),
        ({"domains": "all"}, "persona.domains"),
        ({"humour": "dry"}, "persona.humour"),
        ({"policy": {"strict": True}}, "policy.strict"),
        ({"policy": {"min_score": 2}}, "policy.min_score"),
    ],
)
async def test_a_bad_persona_names_its_field(personas: PersonaRegistry, change: dict[str, Any], field: str) -> None:
    """Nothing is registered."""
    with pytest.raises(InvalidInput) as refused:
        await personas.create(SITE, "doctor", value_of() | change)
    assert refused.value.field == field
    missing = value_of()
    del missing["refusals"]
    with pytest.raises(InvalidInput) as incomplete:
        await personas.create(SITE, "doctor", missing)
    assert incomplete.value.field == "persona.refusals"
    assert await personas.active(SITE, "doctor") is None


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": "  \n"}, "text"),
        ({"text": 7}, "text"),
        ({"text": "a\0"}, "text"),
        ({"text": "x" * 20_001}, "text"),
        ({"text": "x", "language": "chinese"}, "language"),
        ({"text": "x", "language": 7}, "language"),
        ({"text": "x", "langauge": "en"}, "langauge"),
    ],
)
async def test_a_bad_prompt_names_its_field(prompts: PromptRegistry, value: dict[str, Any], field: str) -> None:
    """Nothing is registered, and a misspelt field is an error."""
    with pytest.raises(InvalidInput) as refused:
        await prompts.create(SITE, "a", value)
    assert refused.value.field == field
    assert await prompts.active(SITE, "a") is None


async def test_an_invalid_persona_id_is_rejected(personas: PersonaRegistry) -> None:
    """Persona ids are part of keys and URLs."""
    with pytest.raises(InvalidInput) as refused:
        await personas.create(SITE, "no/slash", named("x"))
    assert refused.value.field == "persona_id"


async def test_the_next_turn_uses_the_activated_version(store_url: str) -> None:
    """The trace has its number and the answer its name; the previous turn had the other version."""
    async with engine_at(store_url) as engine:
        request = TurnRequest(scope=Scope(), persona_id="ancestor_yan", query="你好")
        before = await engine.chat.ask(request)
        await engine.personas.create(Scope(), "ancestor_yan", value_of(name={"zh": "新先祖", "en": "New"}))
        await engine.personas.set_active(Scope(), "ancestor_yan", 2, expected=1)
        after = await engine.chat.ask(request)
        traces = [(await engine.traces.get(Scope(), answer.trace_id)).record for answer in (before, after)]
    assert [answer.persona_name for answer in (before, after)] == ["严氏先祖", "新先祖"]
    assert [trace.request_input.persona_version for trace in traces] == [1, 2]
    assert "新先祖" in traces[1].blocks[0].text
