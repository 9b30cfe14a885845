# ruff: noqa: INP001 — a script of its own, copied alone into the image
"""Ends with 0 if the Wenmai of this container answers ``/healthz``: for HEALTHCHECK and for exec probes.

The service listens on loopback alone, so it is asked from within, at the port that it was given.
"""

import os
import urllib.request

SECONDS = 3.0

url = f"http://127.0.0.1:{os.environ.get('WENMAI_PORT', '8001')}/healthz"
# A proxy that the environment names is for the model's server, not for this.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with direct.open(url, timeout=SECONDS):
    """Any other status than 2xx raises, and so does silence: the traceback says which, and the exit status is 1."""
