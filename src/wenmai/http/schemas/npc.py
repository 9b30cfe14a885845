"""Models of the chat with personas: turns, session summaries, preferences, traces."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictStr

from wenmai.chat.turn import QUERY_LIMIT
from wenmai.http.schemas.common import Count, Id, RequestBody
from wenmai.http.scope import SCOPE_NAME_PATTERN, ScopeHeaders

REASON_LIMIT = 500

ROLE_LIMIT = 64

PolicyModeName = Literal["normal", "conservative", "refuse"]
RoleName = Annotated[StrictStr, Field(min_length=1, max_length=ROLE_LIMIT)]
ScopeName = Annotated[StrictStr, Field(pattern=SCOPE_NAME_PATTERN)]


def _stripped_query(query: str) -> str:
    query = query.strip()
    if not 1 <= len(query) <= QUERY_LIMIT or "\0" in query:
        raise ValueError(f"1 to {QUERY_LIMIT} characters, not counting surrounding whitespace")
    return query


Question = Annotated[
    StrictStr,
    Field(json_schema_extra={"pattern": r"^[^\x00]*\S[^\x00]*$", "minLength": 1, "maxLength": QUERY_LIMIT}),
    AfterValidator(_stripped_query),
]


class ChatBody(RequestBody):
    """A question to a persona."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "tenant_id": "default",
                    "site_id": "default",
                    "npc_id": "keeper",
                    "query": "灯塔是哪一年建的？",
                }
            ]
        }
    )

    tenant_id: ScopeName | None = Field(default=None, description="The tenant, if there is no `X-Tenant-ID`.")
    site_id: ScopeName | None = Field(default=None, description="The site, if there is no `X-Site-ID`.")
    user_id: ScopeName | None = Field(default=None, description="The user, if there is no `X-User-ID`.")
    persona_id: Id = Field(alias="npc_id", description="The persona to ask.")
    query: Question = Field(description="The question, 1 to 4000 characters.")
    session_id: Id | None = Field(default=None, description="The session to continue; default: a new session.")
    role: RoleName | None = Field(
        default=None, description="The user's role, one of the profile's; it chooses tone and scope."
    )
    incognito: StrictBool = Field(default=False, description="Neither use nor change preferences.")
    stream: StrictBool = Field(
        default=False, description="Stream the answer as server-sent events, like `Accept: text/event-stream`."
    )
    on_conflict: Literal["wait", "reject"] = Field(
        default="wait", description="If another turn of the thread is running: wait for it, or answer 409."
    )

    def scope_fields(self) -> ScopeHeaders:
        """The scope given in the body."""
        return ScopeHeaders(self.tenant_id, self.site_id, self.user_id)


Tag = Annotated[str, Field(strict=True, pattern=r"^[^\x00-\x1f]+$")]


class PreferenceBody(RequestBody):
    """A change of preferences; omitted fields are not changed."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"verbosity": "detailed", "add_interest_tags": ["航海"]}]}
    )

    verbosity: Literal["brief", "normal", "detailed"] | None = Field(
        default=None, description="`brief`, `normal` or `detailed`."
    )
    tone: Literal["casual", "formal", "respectful"] | None = Field(
        default=None, description="`casual`, `formal` or `respectful`."
    )
    language: StrictStr | None = Field(default=None, max_length=40, description="A BCP 47 tag, such as `zh`.")
    interest_tags: list[Tag] | None = Field(default=None, max_length=100, description="Replaces all tags.")
    add_interest_tags: list[Tag] = Field(default=[], max_length=100, description="Tags to add.")
    remove_interest_tags: list[Tag] = Field(default=[], max_length=100, description="Tags to remove.")
    clear: list[Literal["verbosity", "tone", "language"]] = Field(
        default=[], max_length=3, description="Fields that get their default again, and are open to inference."
    )


class ReplayBody(RequestBody):
    """What a replay does otherwise than the original turn; omitted fields are the same."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="One of the models for replays."
    )
    prompt_version: Count | None = Field(default=None, description="A version of the persona's registered prompt.")


class FeedbackBody(RequestBody):
    """Feedback on an answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"rating": "down", "reason": "The year is missing."}]}
    )

    rating: Literal["up", "down"] = Field(description="`up` or `down`.")
    reason: Annotated[StrictStr, Field(max_length=REASON_LIMIT)] = Field(default="", description="Why, briefly.")
