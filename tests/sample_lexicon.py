"""The lexicon of the sample profile, prepared once for the tests whose sentences are of its field."""

from wenmai.config.profile import load_profile
from wenmai.config.sources import profile_path
from wenmai.grounding.lexicon import Lexicon

LEXICON = Lexicon(load_profile(profile_path("npc")).lexicon)
