"""Understanding of a question: its dialogue act, and its rewriting as a standalone question."""
