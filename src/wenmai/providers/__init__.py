"""Models and embedders by name; every package they need is imported when one is opened."""
