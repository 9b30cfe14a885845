"""x."""
from collections.abc import Sequence
from struct import pack
def to_bytes(vector: Sequence[float]) -> bytes:
    """32-bit floats in network byte order."""
    return pack(f">{len(vector)}f", *vector)
