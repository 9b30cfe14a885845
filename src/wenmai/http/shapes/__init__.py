"""The shapes of requests and responses; requests are validated by them, all are documented by them in OpenAPI."""
