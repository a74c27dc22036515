"""Off-policy evaluation."""
