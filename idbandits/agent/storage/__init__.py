"""Files of agents."""
