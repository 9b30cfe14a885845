"""The HTTP service: routers over one engine; handlers hold neither state nor business logic."""
