"""Uses of a whole journal: logs, rebuilt agents, copies."""
