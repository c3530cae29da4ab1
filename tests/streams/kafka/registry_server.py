"""A schema registry on loopback: a real HTTP server that speaks the registry's protocol, and can be turned off and on.

Owns ids, subjects and versions in memory, the answers of the protocol, and the ways in which it can fail. Protobuf
schemas come and go as descriptors in base64 (`format=serialized`), as confluent-kafka writes them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

NO_SCHEMA, NO_VERSION = 40403, 40402
_KEPT = ("schema", "schemaType", "references")


@dataclass
class RegistryServer:
    """One registry. It keeps what it knows while it is off."""

    schemas: list[dict[str, Any]] = field(default_factory=list)
    """By id, from 1 on."""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    """Ids of a subject's versions."""
    asked: list[str] = field(default_factory=list)
    """Every path that was asked for."""
    refusal: tuple[int, str] | None = None
    """A status and a body with which everything is answered."""
    port: int = 0
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def on(self) -> Self:
        """Serve, on the same port as before."""
        server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self.port, self._server = server.server_address[1], server
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def off(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The id of a schema, new or known."""
        known = {"schemaType": "AVRO", "references": [], **schema}
        if known not in self.schemas:
            self.schemas.append(known)
        schema_id = self.schemas.index(known) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        """Status and JSON."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["subjects"]:
                return 200, sorted(self.subjects)
            case "GET", ["schemas", "ids", number]:
                return self._schema(int(number), query)
            case "POST", ["subjects", subject, "versions"]:
                wanted: dict[str, Any] = {key: value for key, value in body.items() if key in _KEPT}
                return 200, {"id": self.register(subject, wanted)}
            case "GET", ["subjects", subject, "versions", number]:
                return self._version(subject, number, query)
        return 404, {"error_code": 404, "message": f"HTTP 404 Not Found: {method} {path}"}

    def _schema(self, schema_id: int, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if not 1 <= schema_id <= len(self.schemas):
            return 404, {"error_code": NO_SCHEMA, "message": f"Schema {schema_id} not found"}
        return self._told(schema_id, query)

    def _version(self, subject: str, number: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        versions = self.subjects.get(subject, [])
        at = len(versions) if number == "latest" else int(number)
        if not 1 <= at <= len(versions):
            return 404, {"error_code": NO_VERSION, "message": f"Version {number} not found."}
        status, told = self._told(versions[at - 1], query)
        return status, told | {"subject": subject, "version": at, "id": versions[at - 1]}

    def _told(self, schema_id: int, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        schema = self.schemas[schema_id - 1]
        if schema["schemaType"] == "PROTOBUF" and query.get("format") != ["serialized"]:
            return 501, {"error_code": 50101, "message": "this registry prints no .proto files"}
        return 200, dict(schema)


def _handler(registry: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self) -> None:
            self._serve({})

        def do_POST(self) -> None:
            self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _serve(self, body: dict[str, Any]) -> None:
            parts = urlsplit(self.path)
            registry.asked.append(parts.path)
            if registry.refusal is not None:
                status, text = registry.refusal
            else:
                status, found = registry.answer(self.command, parts.path, parse_qs(parts.query), body)
                text = json.dumps(found)
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return Handler


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A registry that is on; off at the end."""
    server = RegistryServer().on()
    try:
        yield server
    finally:
        server.off()
