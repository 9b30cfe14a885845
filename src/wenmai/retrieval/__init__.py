"""Hybrid search by words and vectors over records of any kind; see :class:`.corpus.Corpus`."""
