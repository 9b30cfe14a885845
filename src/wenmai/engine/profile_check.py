"""What a profile's file may hold and no turn could use: refused at the start, not in each turn."""

from collections.abc import Sequence

from wenmai.config.sources import LoadedProfile
from wenmai.errors import InvalidInput
from wenmai.grounding.policy import merge_policies
from wenmai.grounding.types import DialogueAct


def check_profiles(profiles: Sequence[LoadedProfile]) -> None:
    """Refuse a policy that cannot be merged, and intents that do not exist.

    Raises:
        InvalidInput: naming the key.
    """
    acts = [act.value for act in DialogueAct]
    for _, profile in profiles:
        for field, named in (("intents", profile.intents), ("intent_policy", profile.intent_policy)):
            for intent in named:
                if intent not in acts:
                    raise InvalidInput(f"profile.{field}", intent, f"one of {', '.join(acts)}")
        merge_policies(profile.policy)
        for layer in (*(persona.policy for persona in profile.personas), *profile.intent_policy.values()):
            merge_policies(layer)
