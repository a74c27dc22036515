"""What is made of a whole journal: logs, rebuilt agents, copies."""
