"""The dashboard's web server: pages and data over HTTP, changes as server-sent events. Standard library only.

On the loopback address anybody on the machine may look; elsewhere a token is needed. It changes nothing unless it was started to control.

Invariant: a request without the right to it gets neither a page nor data, and is counted.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from perseid.dashboard import control, views
from perseid.dashboard.exposition import exposition
from perseid.dashboard.watched import WatchedRoot
from perseid.errors import PerseidError, SettingsError

PORT = 4848
PORTS_TRIED = 20
STREAMS = 32
"""Browsers that follow at once."""
EVENT_S = 1.0
"""Changes are told at most so often."""
KEEPALIVE_S = 15.0
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}  # fmt: skip
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
COOKIE = "perseid-dashboard"


class Refused(Exception):
    """A request that is not answered with what it asked for."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Dashboard:
    """A running server over some roots."""

    def __init__(
        self,
        roots: Sequence[WatchedRoot],
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        token: str | None = None,
        may_control: bool = False,
    ) -> None:
        self.roots, self.may_control = list(roots), may_control
        self.loopback = is_loopback(host)
        self.token = token if token is not None or self.loopback else secrets.token_urlsafe(18)
        self.refused = 0
        self.busy_ports: list[int] = []
        self.streams = threading.BoundedSemaphore(STREAMS)
        self.ended = threading.Event()
        self._server = self._bound(host, port)
        self._thread = threading.Thread(target=self._server.serve_forever, name="perseid-dashboard", daemon=True)

    def start(self) -> None:
        for root in self.roots:
            root.start()
        self._thread.start()

    def close(self) -> None:
        self.ended.set()
        for root in self.roots:
            root.close()
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What to open in a browser, with the token where one is needed."""
        host = str(self._server.server_address[0])
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def _bound(self, host: str, port: int) -> ThreadingHTTPServer:
        """On the first port from there on that is free."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            dashboard = self

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A browser that goes away is no error."""

        for candidate in range(port, port + PORTS_TRIED) if port else [0]:
            try:
                return Server((host, candidate), Handler)
            except OSError as error:
                if candidate and error.errno in (13, 98, 48):  # not allowed, in use (Linux, macOS)
                    self.busy_ports.append(candidate)
                    continue
                raise SettingsError(f"the dashboard cannot listen on {host}:{candidate}: {error}") from error
        raise SettingsError(f"the dashboard found no free port on {host} from {port} to {port + PORTS_TRIED - 1}")


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "perseid", ""
    timeout = 60

    @property
    def dashboard(self) -> Dashboard:
        return self.server.dashboard  # type: ignore[attr-defined, no-any-return]

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    # -- requests -------------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_HEAD(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def _answered(self, answer: Any) -> None:
        try:
            self._check_sender()
            answer()
        except Refused as refused:
            self.close_connection = True
            self._json({"error": str(refused)}, refused.status)
        except (BrokenPipeError, ConnectionError, TimeoutError):
            self.close_connection = True
        except PerseidError as error:
            self._json({"error": str(error)}, 422)

    def _check_sender(self) -> None:
        """The token, and where there is none, that the page was not made to ask by another site (DNS rebinding)."""
        dashboard = self.dashboard
        if dashboard.token is None:
            name = (self.headers.get("Host") or "").rpartition(":")[0] or (self.headers.get("Host") or "")
            if not is_loopback(name.strip("[]")):
                self._refuse(403, f"this dashboard answers on the loopback address only, not as {name!r}")
            return
        given = parse_qs(urlsplit(self.path).query).get("token", [""])[0]
        bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ").strip()
        if not any(
            hmac.compare_digest(dashboard.token.encode(), said.encode()) for said in (given, bearer, self._cookie)
        ):
            self._refuse(401, "wrong or missing token: open the address that the dashboard printed")
        if given and self.command == "GET" and urlsplit(self.path).path == "/":
            self.send_response(303)
            self.send_header("Set-Cookie", f"{COOKIE}={dashboard.token}; HttpOnly; SameSite=Strict; Path=/")
            self.send_header("Location", "/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            raise ConnectionAbortedError  # it comes again, without the token in its address

    @property
    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie") or "").get(COOKIE)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    def _refuse(self, status: int, message: str) -> None:
        self.dashboard.refused += 1
        raise Refused(status, message)

    def _get(self) -> None:
        address = urlsplit(self.path)
        parts = [unquote(part) for part in address.path.split("/") if part]
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        match parts:
            case []:
                self._file("index.html")
            case ["metrics"]:
                text = exposition(self.dashboard.roots, self.dashboard.refused)
                self._send(text.encode(), "text/plain; version=0.0.4; charset=utf-8")
            case ["api", "roots"]:
                self._json(self._roots())
            case ["api", number, *rest]:
                self._data(self._root(number), rest, query)
            case [*_] if len(parts) <= 2 and all(part and not part.startswith(".") for part in parts):
                self._file("/".join(parts))
            case _:
                raise Refused(404, f"there is no {address.path}")

    def _roots(self) -> dict[str, Any]:
        shown = [
            {"number": number, "root": root.store.root, "app": root.shown(lambda picture: picture.app)}
            for number, root in enumerate(self.dashboard.roots)
        ]
        return {"roots": shown, "control": self.dashboard.may_control}

    def _root(self, number: str) -> WatchedRoot:
        if number.isdigit() and int(number) < len(self.dashboard.roots):
            return self.dashboard.roots[int(number)]
        raise Refused(404, f"there is no root {number}; there are {len(self.dashboard.roots)}")

    def _data(self, root: WatchedRoot, path: list[str], query: Mapping[str, str]) -> None:
        first, last = _number(query, "from"), _number(query, "to")
        match path:
            case ["events"]:
                self._stream(root)
            case ["now"]:
                self._json(_now(root))
            case ["time"]:
                self._json(root.shown(lambda picture: views.time_curves(picture, first, last)))
            case ["state"]:
                self._json(root.shown(lambda picture: views.state_curves(picture, first, last)))
            case ["checkpoints"]:
                self._json(root.shown(lambda picture: views.checkpoints(picture, picture.at_ms)))
            case ["checkpoints", key]:
                found = root.shown(lambda picture: views.checkpoint(c) if (c := picture.checkpoints.get(key)) else None)
                self._found(found, f"checkpoint {key}")
            case ["incidents"]:
                self._json(root.shown(views.incidents))
            case ["incidents", id]:
                story = root.shown(lambda picture: views.incident(i) if (i := picture.incidents.get(id)) else None)
                self._found(story, f"incident {id}")
            case _:
                raise Refused(404, f"there is no /{'/'.join(path)} of a root")

    def _found(self, found: dict[str, Any] | None, what: str) -> None:
        if found is None:
            raise Refused(404, f"there is no {what}; what is old leaves the journal")
        self._json(found)

    def _stream(self, root: WatchedRoot) -> None:
        """Server-sent events until the browser goes away: the overview whenever it has changed."""
        dashboard = self.dashboard
        if not dashboard.streams.acquire(blocking=False):
            raise Refused(503, f"{STREAMS} browsers follow already")
        try:
            self.send_response(200)
            self._headers("text/event-stream", None)
            self.close_connection = True
            revision = -1
            while not dashboard.ended.is_set():
                newest = root.wait(revision, KEEPALIVE_S)
                if newest == revision:
                    self.wfile.write(b": still here\n\n")
                else:
                    revision = newest
                    self.wfile.write(b"data: " + _dumped(_now(root)) + b"\n\n")
                self.wfile.flush()
                dashboard.ended.wait(EVENT_S)
        finally:
            dashboard.streams.release()

    def _post(self) -> None:
        parts = [part for part in urlsplit(self.path).path.split("/") if part]
        size = int(self.headers.get("Content-Length") or 0)
        if size > 10_000:
            raise Refused(413, "too much")
        body = self.rfile.read(size)
        match parts:
            case ["api", number, "control"]:
                root = self._root(number)
            case _:
                raise Refused(404, "there is nothing to post to")
        if not self.dashboard.may_control:
            self._refuse(403, "this dashboard only shows: start it with --control to let it change something")
        if self.headers.get("X-Perseid") != "control":  # no other site can set it
            self._refuse(403, "the request does not come from the dashboard's page")
        try:
            wanted = json.loads(body)
            assert isinstance(wanted, dict)
        except (ValueError, AssertionError):
            raise Refused(400, "expected a JSON object") from None
        self._json(control.ask(root.store, wanted))

    # -- answers --------------------------------------------------------------------------------------------------

    def _file(self, name: str) -> None:
        suffix = "." + name.rpartition(".")[2]
        try:
            data = resources.files("perseid.dashboard").joinpath("page", *name.split("/")).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise Refused(404, f"there is no {name}") from None
        self._send(data, TYPES.get(suffix, "application/octet-stream"))

    def _json(self, data: Any, status: int = 200) -> None:
        self._send(_dumped(data), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self._headers(kind, len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def _headers(self, kind: str, size: int | None) -> None:
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()


def is_loopback(host: str) -> bool:
    """Does this name mean the machine itself?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _now(root: WatchedRoot) -> dict[str, Any]:
    life, told = root.life, {"trouble": root.trouble, "older": root.older, "torn": root.torn, "revision": root.revision}
    return {**root.shown(lambda picture: views.overview(picture, life)), **told}


def _dumped(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


def _number(query: Mapping[str, str], name: str) -> float | None:
    try:
        return float(query[name]) if name in query else None
    except ValueError:
        raise Refused(400, f"{name}={query[name]!r}: expected milliseconds") from None
