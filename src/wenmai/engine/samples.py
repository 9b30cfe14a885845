"""The sample evidence of the profiles, for sites that have none."""

from collections.abc import Sequence
from pathlib import Path

from wenmai.config.profile import Profile
from wenmai.config.settings import Settings
from wenmai.config.sources import LoadedProfile
from wenmai.errors import InvalidInput
from wenmai.grounding.evidence import EvidenceBase
from wenmai.grounding.evidence.parsing import BadLine, parse
from wenmai.scope import Scope
from wenmai.stores.records import EvidenceRecord


async def ingest_samples(evidence: EvidenceBase, profiles: Sequence[LoadedProfile], settings: Settings) -> None:
    """Ingest the profiles' evidence into each of their sample sites that has none, and embed what is not embedded yet.

    The sample sites of the first profile are those of the settings.
    """
    of_site: dict[str, list[LoadedProfile]] = {}
    for at, each in enumerate(profiles):
        for site in each.settings.sample_sites if at else settings.sample_sites:
            of_site.setdefault(site, []).append(each)
    for site, samples in of_site.items():
        tenant_id, _, site_id = site.partition("/")
        scope = Scope(tenant_id, site_id)
        if not (await evidence.list(scope, limit=1)).items:
            for path, profile in samples:
                await evidence.ingest(scope, sample_passages(profile, path.parent))
        evidence.start_embedding(scope)


def sample_passages(profile: Profile, folder: Path) -> list[EvidenceRecord]:
    """The passages of the profile's evidence files.

    Raises:
        InvalidInput: a line cannot be read.
    """
    records = []
    for name in profile.evidence:
        for record in parse((folder / name).read_bytes(), name):
            if isinstance(record, BadLine):
                raise InvalidInput("evidence", f"{name}:{record.line}", f"readable: {record.reason}")
            records.append(record)
    return records
