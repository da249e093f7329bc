"""The engine's OpenAPI document, made of the tables that its requests are read by."""

from engine.server.openapi.document import document

__all__ = ["document"]
