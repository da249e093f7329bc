"""E-mail by SMTP, one message per recipient, so that a refused one is nobody else's second copy.

`smtplib` in a thread: one message is one conversation, and there are few. Every step of it has a timeout. What the
server refuses for good (5xx for the recipient or the text) is not tried again; everything else may pass.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

from gateway.alerts.channel import NotDelivered, Receipt, Undeliverable
from gateway.alerts.letters import Letter, letter_of
from gateway.alerts.types import Message, Record, Target
from gateway.db import WriteConnection
from gateway.settings import MailSettings

__all__ = ["MailChannel"]

STEPS = 8
"""Of one conversation: connect, greet, TLS, greet again, log in, sender, recipient, text."""


class MailChannel:
    name = "email"
    in_flight_max = 4
    per_target_max = 4

    def __init__(self, settings: MailSettings) -> None:
        """Without a host, what should be mailed is kept and tried again until there is one, or the schedule ends."""
        self._settings = settings
        self._password = settings.secret()
        self._domain = settings.from_address.rpartition("@")[2].rstrip(">") or "localhost"

    @property
    def lease_s(self) -> float:
        """No conversation is longer."""
        return self._settings.timeout_s * STEPS

    async def targets(self, connection: WriteConnection, record: Record) -> Sequence[Target]:
        if record.mail is None:
            return []
        prefix = record.mail.subject_prefix
        return [
            Target(to, {"to": to, "subject_prefix": prefix}) for to in sorted(set(record.mail.recipients))
        ]

    async def send(self, message: Message) -> Receipt:
        address, prefix = message.target.address, message.target.address["subject_prefix"]
        letter = letter_of(message.record)
        if prefix:
            letter = Letter(f"{prefix} {letter.subject}", letter.text)
        mail = self._compose(address["to"], letter, message.id, message.record.occurred_at)
        mail["X-Tollway-Event"] = message.record.type
        await self._post(mail)
        return Receipt()

    async def failed(
        self, connection: WriteConnection, message: Message, error: NotDelivered, *, is_over: bool
    ) -> None:
        """An address stays what it is."""

    async def post(self, to: str, letter: Letter, id: str, at: datetime) -> None:
        """For a letter that must not be stored, because of what it says: one attempt, now. Raises NotDelivered."""
        await self._post(self._compose(to, letter, id, at))

    async def _post(self, mail: EmailMessage) -> None:
        host = self._settings.host
        if host is None:
            raise NotDelivered("no SMTP server is configured: set TOLLWAY_MAIL__HOST")
        try:
            await asyncio.to_thread(self._converse, host, mail)
        except smtplib.SMTPRecipientsRefused as error:
            raise _refusal(*next(iter(error.recipients.values()))) from None
        except smtplib.SMTPDataError as error:
            raise _refusal(error.smtp_code, error.smtp_error) from None
        except smtplib.SMTPResponseException as error:  # our sender or password: the operator's to mend
            raise NotDelivered(_said(error.smtp_code, error.smtp_error)) from None
        except (smtplib.SMTPException, OSError) as error:
            raise NotDelivered(f"{type(error).__name__}: {error}") from None

    def _compose(self, to: str, letter: Letter, id: str, at: datetime) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self._settings.from_address
        mail["To"] = to
        mail["Subject"] = letter.subject
        mail["Date"] = format_datetime(at)
        mail["Message-ID"] = f"<{id}@{self._domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(letter.text)
        return mail

    def _converse(self, host: str, mail: EmailMessage) -> None:
        settings = self._settings
        context = self._context() if settings.tls != "none" else None
        if settings.tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                host, settings.port, timeout=settings.timeout_s, context=context
            )
        else:
            server = smtplib.SMTP(host, settings.port, timeout=settings.timeout_s)
        with server:
            if settings.tls == "starttls":
                server.starttls(context=context)
            if settings.username is not None:
                server.login(settings.username, self._password)
            server.send_message(mail)

    def _context(self) -> ssl.SSLContext:
        ca = self._settings.ssl_ca_file
        return ssl.create_default_context(cafile=str(ca) if ca is not None else None)


def _refusal(code: int, text: bytes | str) -> NotDelivered:
    return Undeliverable(_said(code, text)) if code >= 500 else NotDelivered(_said(code, text))


def _said(code: int, text: bytes | str) -> str:
    return f"{code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"
