"""The description of the API (OpenAPI): every route of the data plane and of the admin API with what it answers."""

from gateway.http.description.document import describe

__all__ = ["describe"]
