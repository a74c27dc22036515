"""HTTP interface of the service: an ASGI application, its worker processes, and access tokens."""
