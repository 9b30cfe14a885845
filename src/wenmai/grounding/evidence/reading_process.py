"""Process that reads a large file. Input: length of the name, name, file. Output: :mod:`.messages`.

Started by :mod:`.reading`, which kills it after a timeout.
"""

import signal
import sys
from contextlib import suppress

from wenmai.grounding.evidence.messages import LENGTH_BYTES, messages


def main() -> None:
    """Read the file from standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C in a terminal the service kills this process
    data = sys.stdin.buffer.read()
    begin = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES])
    with suppress(BrokenPipeError):  # the service is gone
        for message in messages(data[begin:], data[LENGTH_BYTES:begin].decode()):
            sys.stdout.buffer.write(len(message).to_bytes(LENGTH_BYTES) + message)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
