"""Learning from rounds and logs, by one structure or several."""
