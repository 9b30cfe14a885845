"""Storage: three small contracts, and the backends that implement them."""
