"""A filter for logs: lines and tracebacks carry no private values."""

import logging
import traceback

from wenmai.text.redact.redactor import Redactor
from wenmai.text.redact.rule import Kind

_OF_THIS_MACHINE = frozenset({"127.0.0.1", "0.0.0.0", "::1"})  # noqa: S104 — compared, not bound


class PrivateLogFilter(logging.Filter):
    """Replaces private values in log records; of addresses, only those of other machines.

    Add it to handlers: a filter of a logger does not see the records of the loggers below it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._redactor = Redactor()

    def filter(self, record: logging.LogRecord) -> bool:
        """Screen the record, which is always logged."""
        message = record.getMessage()
        screened = self._screened(message)
        if screened != message:
            record.msg, record.args = screened, None
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            record.exc_text = self._screened("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
        return True

    def _screened(self, text: str) -> str:
        text = text.encode(errors="backslashreplace").decode()
        kept = 0
        pieces: list[str] = []
        for start, end, kind in self._redactor.find(text):
            if kind != Kind.IP or text[start:end] not in _OF_THIS_MACHINE:
                pieces += [text[kept:start], f"[REDACTED_{kind}]"]
                kept = end
        return "".join([*pieces, text[kept:]])


def install_log_filter() -> None:
    """Add the filter to the handlers of all loggers of the process that have none yet."""
    loggers = [
        logging.root,
        *(each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)),
    ]
    added = PrivateLogFilter()
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        if not any(isinstance(each, PrivateLogFilter) for each in handler.filters):
            handler.addFilter(added)
