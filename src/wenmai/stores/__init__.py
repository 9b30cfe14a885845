"""Where things are kept: three small contracts, and the backends that implement them."""
