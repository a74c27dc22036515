"""Journal: the durable record of decisions and outcomes, in SQLite or PostgreSQL."""
