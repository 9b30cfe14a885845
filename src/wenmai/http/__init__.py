"""The HTTP service: routers over one engine; handlers hold no state and no rules of their own."""
