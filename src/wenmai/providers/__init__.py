"""Chat models and embedders by name; the packages that they need are imported when one is opened."""
