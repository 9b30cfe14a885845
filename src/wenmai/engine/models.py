"""The chat models that the settings name, with their prices, limits and breakers."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from wenmai.chat.steps.generate import OFFLINE
from wenmai.config.profile import Profile
from wenmai.config.settings import Settings
from wenmai.errors import InvalidInput
from wenmai.providers.models import ChatModel, Guard, ModelLimits, open_model
from wenmai.providers.pricing import Price
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy


@dataclass(frozen=True)
class Models:
    """The open chat models.

    Attributes:
        answering: the model that answers; None offline.
        verifying: the one that checks answers, which may be the same; None if there are none to check.
        replaying: further models that a replay may use, by name.
        breakers: one for each model that turns use.
    """

    answering: ChatModel | None
    verifying: ChatModel | None
    replaying: Mapping[str, ChatModel]
    breakers: Sequence[Breaker]

    async def close(self) -> None:
        """Close their connections."""
        for model in filter(None, {self.answering, self.verifying, *self.replaying.values()}):
            await model.close()


def open_models(settings: Settings, profile: Profile, policy: BreakerPolicy | None) -> Models:
    """Open the models of the settings.

    Raises:
        WenmaiError: a model is unknown, or lacks the price that a budget needs.
    """
    model_breaker = Breaker("model", kind=MODEL, policy=policy)
    verifier_breaker = Breaker("verifier", kind=MODEL, policy=policy)
    answering = _model(settings, profile, model_breaker)
    verifying = _verifying_model(settings, profile, answering, verifier_breaker)
    breakers = []
    if answering is not None:
        breakers.append(model_breaker)
    if verifying is not None and verifying is not answering:
        breakers.append(verifier_breaker)
    names = [name for name in settings.replay_models if name != settings.model]
    replaying = {name: _open_model(name, settings, profile, profile.prices.get(name), nullcontext) for name in names}
    return Models(answering, verifying, replaying, breakers)


def _model(settings: Settings, profile: Profile, breaker: Breaker) -> ChatModel | None:
    if settings.model in ("", OFFLINE):
        return None
    return _open_model(settings.model, settings, profile, _price(settings, profile), breaker.guard)


def _verifying_model(
    settings: Settings, profile: Profile, model: ChatModel | None, breaker: Breaker
) -> ChatModel | None:
    """The model that checks answers; None if there are none to check."""
    if settings.verifier != "model" or model is None:
        return None
    name = settings.verifier_model
    return _open_model(name, settings, profile, profile.prices.get(name), breaker.guard) if name else model


def _open_model(name: str, settings: Settings, profile: Profile, price: Price | None, guard: Guard) -> ChatModel:
    """A model with the limits of the settings, and their server if it has the provider of the model that answers."""
    if price is None and (cost_budgets := profile.budgets.in_dollars):
        allowed = f"usable without the price of {name}: set it in the profile's `prices`"
        raise InvalidInput(
            f"budgets.{cost_budgets[0]}.cost_usd", getattr(profile.budgets, cost_budgets[0]).cost_usd, allowed
        )
    same_server = name.partition(":")[0] == settings.model.partition(":")[0]
    return open_model(
        name,
        base_url=settings.model_base_url or None if same_server else None,
        api_key=settings.model_api_key or None if same_server else None,
        limits=ModelLimits(
            timeout_seconds=settings.model_timeout_seconds,
            first_token_seconds=settings.model_first_token_seconds,
            attempts=settings.model_attempts,
        ),
        answer_tokens=settings.model_max_tokens,
        price=price,
        guard=guard,
    )


def _price(settings: Settings, profile: Profile) -> Price | None:
    """The model's price, from the settings or else from the profile."""
    prompt, completion = settings.price_prompt, settings.price_completion
    if prompt is None and completion is None:
        return profile.prices.get(settings.model)
    if prompt is None or completion is None:
        missing = "price_prompt" if prompt is None else "price_completion"
        raise InvalidInput(missing, None, "a price: set both prices or neither")
    return Price(prompt_per_million=prompt, completion_per_million=completion)
