"""Live service: decisions and outcomes with a durable journal, in one process or over HTTP."""
