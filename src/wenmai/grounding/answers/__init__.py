"""Answers in the evidence: what a question asks, and which sentence of a passage holds it."""
