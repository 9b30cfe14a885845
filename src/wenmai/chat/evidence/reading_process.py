"""The process that reads a large file: the name's length, the name and the file come in, messages go out.

The messages are those of :mod:`.messages`. Run by :mod:`.reading`, which ends the process when it takes too long.
"""

import signal
import sys
from contextlib import suppress

from wenmai.chat.evidence.messages import LENGTH_BYTES, messages


def main() -> None:
    """Read the file of the standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the service, which ends this process
    given = sys.stdin.buffer.read()
    begin = LENGTH_BYTES + int.from_bytes(given[:LENGTH_BYTES])
    with suppress(BrokenPipeError):  # the service is gone
        for message in messages(given[begin:], given[LENGTH_BYTES:begin].decode()):
            sys.stdout.buffer.write(len(message).to_bytes(LENGTH_BYTES) + message)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
