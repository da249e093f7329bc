"""OpenAI's responses as chat completions: what is asked, the whole answer, and the stream of events.

A subset without state: nothing is stored, so what would have to be looked up again is refused. Pure.
"""

from gateway.wire.responses.answer import response_of_chat
from gateway.wire.responses.request import AskedResponse, parse_response
from gateway.wire.responses.stream import EventWriter

__all__ = ["AskedResponse", "EventWriter", "parse_response", "response_of_chat"]
