"""Wenmai 文脉: conversation memory in which facts come from evidence, never from memory."""
