"""The engine: builds all components from the settings and owns their lifetimes."""

from wenmai.config.sources import load_engine_settings, profile_path
from wenmai.engine.opening import Engine, open_engine

__all__ = ["Engine", "load_engine_settings", "open_engine", "profile_path"]
