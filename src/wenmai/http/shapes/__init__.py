"""The shapes of requests and responses: what is validated, and what OpenAPI documents."""
