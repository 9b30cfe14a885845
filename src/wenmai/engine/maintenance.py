"""What the engine repeats in the background: removing what has expired, and continuing interrupted erasures."""

import logging
from functools import partial

from wenmai.memory.library import Memory
from wenmai.resilience.background import BackgroundTasks
from wenmai.stores.contracts import Documents

SWEEP_SECONDS = 600.0

ERASURE_SECONDS = 30.0
"""Interval at which interrupted erasures are continued."""

RETENTION_SECONDS, RETENTION_DELAY = 3600.0, 60.0
"""Interval at which sessions past their retention are removed, and delay of the first time."""

_log = logging.getLogger(__name__)


def start_maintenance(documents: Documents, memory: Memory) -> BackgroundTasks:
    """Start the tasks; stop them when the engine closes."""
    tasks = BackgroundTasks()
    tasks.repeat("sweep of expired records", partial(delete_expired, documents), seconds=SWEEP_SECONDS)
    tasks.repeat(
        "sweep of what is past its retention",
        memory.retention.run,
        seconds=RETENTION_SECONDS,
        first_after=RETENTION_DELAY,
    )
    tasks.repeat("erasures that were interrupted", memory.erasures.resume, seconds=ERASURE_SECONDS)
    return tasks


async def delete_expired(documents: Documents) -> None:
    """Delete expired records from disk; readers do not see them anyway."""
    removed = await documents.sweep()
    _log.log(logging.INFO if removed else logging.DEBUG, "deleted %d expired records", removed)
