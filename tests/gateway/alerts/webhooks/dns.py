"""A little name server and a little resolver that asks it, over real sockets: names change their minds as told."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["Names", "UdpResolver", "serve_names"]

HEADER = struct.Struct("!6H")
RECORD = struct.Struct("!HHHLH4s")


@dataclass
class Names(asyncio.DatagramProtocol):
    """`answers`: for each name, what each question after the other is answered; the last answer stays."""

    answers: dict[str, list[list[str]]]
    asked: list[str] = field(default_factory=list)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        number = HEADER.unpack(data[:12])[0]
        name = _name_in(data[12:])
        self.asked.append(name)
        script = self.answers.get(name, [[]])
        addresses = script.pop(0) if len(script) > 1 else script[0]
        records = b"".join(
            RECORD.pack(0xC00C, 1, 1, 0, 4, IPv4Address(address).packed) for address in addresses
        )
        code = 0x8180 if addresses else 0x8183  # NXDOMAIN
        self._transport.sendto(HEADER.pack(number, code, 1, len(addresses), 0, 0) + data[12:] + records, addr)


class UdpResolver(AbstractResolver):
    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        question = b"".join(bytes([len(part)]) + part.encode() for part in host.split(".")) + b"\0\0\1\0\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            asking.connect(("127.0.0.1", self._port))
            await loop.sock_sendall(asking, HEADER.pack(7, 0x0100, 1, 0, 0, 0) + question)
            data = await loop.sock_recv(asking, 512)
        count = HEADER.unpack(data[:12])[3]
        found = [
            str(IPv4Address(RECORD.unpack_from(data, 12 + len(question) + 16 * place)[-1]))
            for place in range(count)
        ]
        if not found:
            raise OSError(f"no such name: {host}")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in found
        ]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def serve_names(names: Names) -> AsyncIterator[int]:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: names, local_addr=("127.0.0.1", 0)
    )
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()


def _name_in(question: bytes) -> str:
    parts, place = [], 0
    while length := question[place]:
        parts.append(question[place + 1 : place + 1 + length].decode())
        place += 1 + length
    return ".".join(parts)
