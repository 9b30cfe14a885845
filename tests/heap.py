"""The heap of the test process, which is larger than that of any program under test."""

import gc

_NEW_OBJECTS = 20_000
"""So many are made between two collections, instead of 700: they took a tenth of the time of all tests."""


def suspend_collections() -> None:
    """No garbage collection, as long as modules are imported and tests collected: all of that is kept."""
    gc.disable()


def resume_collections() -> None:
    """From now on, look at what the tests make, not at the modules and at thousands of tests too."""
    gc.collect()
    freeze_heap()
    gc.set_threshold(_NEW_OBJECTS, 10, 10)
    gc.enable()


def freeze_heap() -> None:
    """Let later garbage collections look at new objects only.

    A full collection of what thousands of tests have made takes 0.2 to 0.3 s, and is not the time of the code that is
    measured.
    """
    gc.freeze()
