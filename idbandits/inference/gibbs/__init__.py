"""Gibbs sampling: the chain, its moves and its summaries."""
