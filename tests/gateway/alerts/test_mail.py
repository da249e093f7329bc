"""E-mail against a real SMTP server: what arrives, over TLS and with a login, and what each refusal means."""

from __future__ import annotations

import datetime as dt
import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.alerts.channel import NotDelivered, Undeliverable
from gateway.alerts.mail import MailChannel
from gateway.alerts.types import Message, Record, Target
from gateway.events import Mail
from gateway.settings import MailSettings, SettingsError
from tests.gateway.alerts.mailserver import Mailbox, serve_mail
from tests.gateway.alerts.test_letters import FACTS
from tests.gateway.alerts.tls import Certificate, self_signed

AT = dt.datetime(2026, 11, 29, 20, 15, tzinfo=dt.UTC)
RECORD = Record(
    "alert_1", "budget.exhausted", "proj_a", FACTS, AT, Mail(("b@x.org", "a@x.org", "b@x.org"), "[büro]")
)


def channel(port: int, **changes: Any) -> MailChannel:
    settings = {
        "host": "127.0.0.1",
        "port": port,
        "tls": "none",
        "from_address": "Tollway <alerts@tollway.test>",
        "timeout_s": 60,
    }
    return MailChannel(MailSettings(**(settings | changes)))


def message(to: str = "a@x.org", attempt: int = 1) -> Message:
    target = Target(to, {"to": to, "subject_prefix": "[büro]"})
    return Message("delivery_7", attempt, "email", target, RECORD)


async def test_every_recipient_is_a_target_once() -> None:
    targets = await channel(1).targets(None, RECORD)  # type: ignore[arg-type]  # e-mail asks no database
    assert [target.key for target in targets] == ["a@x.org", "b@x.org"]
    assert targets[0].address == {"to": "a@x.org", "subject_prefix": "[büro]"}
    silent = Record("alert_2", "x", None, {}, AT)
    assert await channel(1).targets(None, silent) == []  # type: ignore[arg-type]  # the same


async def test_what_arrives() -> None:
    mailbox = Mailbox()
    async with serve_mail(mailbox) as port:
        await channel(port).send(message())
        await channel(port).send(message(attempt=2))
    [(to, mail), (_, again)] = mailbox.taken
    assert (to, mail["To"], mail["From"]) == ("a@x.org", "a@x.org", "Tollway <alerts@tollway.test>")
    assert mail["Subject"] == "[büro] Budget used up: project proj_a"
    assert mail["Message-ID"] == again["Message-ID"] == "<delivery_7@tollway.test>"
    assert mail["Date"].datetime == AT
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "spent $80.50 in the monthly period 2026-11" in mail.get_content()


@pytest.mark.parametrize(
    ("answer", "final"),
    [("451 try later", False), ("552 too large for ever", True), ("421 going down", False)],
)
async def test_a_refused_text(answer: str, final: bool) -> None:
    async with serve_mail(Mailbox(answers=[answer])) as port:
        with pytest.raises(NotDelivered, match=answer) as caught:
            await channel(port).send(message())
    assert isinstance(caught.value, Undeliverable) is final


@pytest.mark.parametrize(("answer", "final"), [("450 mailbox busy", False), ("550 no such user", True)])
async def test_a_refused_recipient(answer: str, final: bool) -> None:
    async with serve_mail(Mailbox(refused={"a@x.org": answer})) as port:
        with pytest.raises(NotDelivered, match=answer) as caught:
            await channel(port).send(message())
        await channel(port).send(message("b@x.org"))
    assert isinstance(caught.value, Undeliverable) is final


async def test_no_server_and_a_silent_one() -> None:
    with pytest.raises(NotDelivered, match="TOLLWAY_MAIL__HOST"):
        await channel(1, host=None).send(message())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(NotDelivered, match="imed out"):
            await channel(port, timeout_s=0.3).send(message())
    with pytest.raises(NotDelivered, match="ConnectionRefusedError"):
        await channel(port).send(message())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("tls"))


async def test_tls_and_login(certificate: Certificate, tmp_path: Path) -> None:
    mailbox = Mailbox()
    password = tmp_path / "password"
    password.write_text("right\n")
    secure = {
        "tls": "starttls",
        "ssl_ca_file": certificate.file,
        "username": "tollway",
        "password_file": password,
    }
    options = {
        "tls_context": certificate.server,
        "require_starttls": True,
        "authenticator": mailbox.authenticate,
        "auth_required": True,
    }
    async with serve_mail(mailbox, **options) as port:
        await channel(port, **secure).send(message())
        with pytest.raises(NotDelivered, match="535") as caught:
            await channel(port, **(secure | {"password_file": None, "password": "wrong"})).send(message())
        assert not isinstance(caught.value, Undeliverable), "the operator can mend a password"
        assert "wrong" not in str(caught.value)
        with pytest.raises(NotDelivered, match="certificate verify failed"):
            await channel(port, **(secure | {"ssl_ca_file": None})).send(message())
        with pytest.raises(NotDelivered, match="530"):
            await channel(port).send(message())
    assert len(mailbox.taken) == 1
    assert set(mailbox.logins) == {"tollway"}


async def test_tls_from_the_first_byte(certificate: Certificate) -> None:
    mailbox = Mailbox()
    async with serve_mail(mailbox, tls=certificate.server) as port:
        await channel(port, tls="tls", ssl_ca_file=certificate.file).send(message())
    assert len(mailbox.taken) == 1


def test_a_user_needs_a_password() -> None:
    with pytest.raises(SettingsError, match="PASSWORD_FILE"):
        channel(1, username="tollway")
