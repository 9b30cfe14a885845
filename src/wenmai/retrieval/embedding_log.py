"""Log lines about passages being embedded: at the beginning, every ten seconds, and at the end with the rate."""

import logging
import time

from wenmai.scope import Scope

LOG_SECONDS = 10.0

_log = logging.getLogger(__name__)


class EmbeddingLog:
    """The log of one pass over an owner; a pass that finds nothing to embed logs nothing."""

    def __init__(self, owner: Scope, corpus: str) -> None:
        self._owner = f"{owner.tenant_id}/{owner.site_id} ({corpus})"
        self._began = self._last = 0.0
        self._first = self._embedded = 0

    def show(self, embedded: int, passages: int) -> None:
        """Note that so many passages of all have their vectors."""
        now = time.monotonic()
        self._embedded = embedded
        if not self._began:
            self._began = self._last = now
            self._first = embedded
            _log.info("embedding %d passages of %s", passages - embedded, self._owner)
        elif now - self._last >= LOG_SECONDS:
            self._last = now
            _log.info("embedded %d of %d passages of %s", embedded, passages, self._owner)

    def end(self) -> None:
        """Note the end of the pass."""
        if self._began:
            done, seconds = self._embedded - self._first, time.monotonic() - self._began
            rate = done / max(seconds, 0.001)
            _log.info("embedded %d passages of %s in %.1f s, %.1f/s", done, self._owner, seconds, rate)
