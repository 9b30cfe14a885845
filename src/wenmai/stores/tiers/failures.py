"""Failures of the cache's own code: what cannot be made, packed, measured or unpacked is dropped, never raised."""

import logging

_log = logging.getLogger(__name__)


class CopyFailures:
    """Logs such failures: the first of each kind as a warning with its traceback, the others for debugging only."""

    def __init__(self) -> None:
        self._known: set[tuple[str, type[Exception]]] = set()

    def note(self, what: str, problem: Exception) -> None:
        """Log that ``what`` could not be done."""
        kind = what, type(problem)
        if kind in self._known:
            _log.debug("a cache entry was dropped: it could not be %s: %s", what, problem)
            return
        self._known.add(kind)
        said = "a cache entry was dropped: it could not be %s (others of this kind are not logged)"
        _log.warning(said, what, exc_info=problem)
