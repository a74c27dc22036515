"""Find the best action under given means, with a proof where there is one."""
