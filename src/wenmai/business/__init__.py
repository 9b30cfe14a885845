"""The business rules of a profile, and what a message says in their words; pure, without stores or models."""
