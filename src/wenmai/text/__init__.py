"""What is done with plain text: one analysis for lexical search, and an estimate of its tokens."""
