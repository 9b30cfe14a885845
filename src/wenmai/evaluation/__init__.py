"""Evaluation: labelled questions asked through the engine, and labelled statements put to the verification."""
