"""Who may do what: principals, and the API keys that name them."""
