"""A real SMTP server that keeps what it takes, and refuses what it is told to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

__all__ = ["Mailbox", "serve_mail"]


@dataclass
class Mailbox:
    """aiosmtpd's handler. `answers` are given to the next messages instead of 250; `refused` are recipients."""

    answers: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    taken: list[tuple[str, EmailMessage]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802  (the server's name for it)
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(message, EmailMessage)
            self.taken.append((envelope.rcpt_tos[0], message))
        return answer

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append(data.login.decode())
        return AuthResult(success=data.password == b"right", handled=False)


@asynccontextmanager
async def serve_mail(
    mailbox: Mailbox, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[int]:
    """The port on 127.0.0.1 while it runs, in the loop of the test. `tls`: from the first byte on."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(mailbox, hostname="mail.test", loop=loop, **options), "127.0.0.1", 0, ssl=tls
    )
    async with server:
        yield int(server.sockets[0].getsockname()[1])
