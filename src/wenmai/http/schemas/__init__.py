"""Request and response models: what is validated, and what OpenAPI documents."""
