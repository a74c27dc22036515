"""Several structures: predictions and weights."""
