"""Inferences other than Gibbs sampling, one file each."""
