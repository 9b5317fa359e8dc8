"""Finds the broker like the command line: the argument, then the environment, then the state folder."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from .errors import TradewindError


class BrokerNotFound(TradewindError):
    """No broker is named and none runs on the state folder, or the name of the broker is invalid."""


_GATEWAY = re.compile(r"^[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$")


@dataclass(frozen=True)
class Endpoint:
    """The address of a broker, and the credentials: a token, or the AWS region for which requests are signed."""

    url: str
    token: str = field(default="", repr=False)
    region: str = ""

    @classmethod
    def find(cls, url: str | None = None, token: str | None = None, state: str | Path | None = None) -> Endpoint:
        """Finds the broker at url, else of the folder state, else at $TRADEWIND_ENDPOINT, else of the default state
        folder ($TRADEWIND_STATE). Raises BrokerNotFound."""
        if url is not None and state is not None:
            raise BrokerNotFound("state is of a broker on this computer, url of one elsewhere: leave out one of them")
        if url is None and state is None:
            url = os.environ.get("TRADEWIND_ENDPOINT") or None
        if url is None:
            return cls._of_state(Path(state) if state is not None else default_state())
        base, region = _checked(url, os.environ.get("TRADEWIND_SIGN_REGION", ""))
        return cls(base, "" if region else (token or os.environ.get("TRADEWIND_TOKEN", "")), region)

    @classmethod
    def _of_state(cls, folder: Path) -> Endpoint:
        try:
            running = json.loads((folder / "running.json").read_text())
            return cls(str(running["url"]).rstrip("/"), (folder / "token").read_text().strip())
        except FileNotFoundError:
            raise BrokerNotFound(
                f"no broker runs on {folder}: `tradewind up` starts one, and $TRADEWIND_ENDPOINT names one elsewhere"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise BrokerNotFound(f"the state folder {folder} cannot be read: {err}") from err

    def auth(self) -> httpx.Auth:
        """Adds the credentials to requests."""
        return _Signed(self.region) if self.region else _Bearer(self.token)


def default_state() -> Path:
    """The default state folder of a broker on this computer."""
    if folder := os.environ.get("TRADEWIND_STATE"):
        return Path(folder)
    if folder := os.environ.get("XDG_STATE_HOME"):
        return Path(folder) / "tradewind"
    return Path.home() / ".local" / "state" / "tradewind"


def _checked(raw: str, sign: str) -> tuple[str, str]:
    """Returns the URL of a broker, and the AWS region for which requests to it are signed ("" for none)."""
    if raw.startswith("kubernetes://"):
        raise BrokerNotFound(
            "brokers in a cluster are reached by `kubectl port-forward`: name the address it listens on"
        )
    try:
        u = urlsplit(raw.strip())
        host = u.hostname or ""
    except ValueError:
        host = ""
    if not host or u.scheme not in ("http", "https"):
        raise BrokerNotFound(
            f"{raw!r} is no URL of a broker, such as https://abc123.execute-api.us-east-1.amazonaws.com"
        )
    if u.query or u.fragment or u.username:
        raise BrokerNotFound("the URL of a broker ends before ? and #, and has no user")
    if u.scheme == "http" and host != "localhost" and not _loopback(host):
        raise BrokerNotFound(f"{raw!r} would send tokens and jobs in the clear: https:// keeps them to oneself")
    gateway = _GATEWAY.match(host)
    return u.geturl().rstrip("/"), sign or (gateway.group(1) if gateway else "")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Bearer(httpx.Auth):
    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = "Bearer " + self._token
        yield request


class _Signed(httpx.Auth):
    """Signs each request by AWS Signature Version 4, with the credentials that AWS's tools find."""

    requires_request_body = True

    def __init__(self, region: str) -> None:
        try:
            from botocore.session import Session
        except ImportError:
            raise BrokerNotFound("brokers on AWS need botocore: pip install 'tradewind[aws]'") from None
        self._region = region
        self._credentials = Session().get_credentials()
        if self._credentials is None:
            raise BrokerNotFound("no AWS credentials to sign requests with: `aws configure` gives some")

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        headers = {"Host": request.url.netloc.decode(), "X-Amz-Content-SHA256": _sha256(request.content)}
        signed = AWSRequest(request.method, str(request.url), data=request.content, headers=headers)
        SigV4Auth(self._credentials.get_frozen_credentials(), "execute-api", self._region).add_auth(signed)
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-SHA256"):
            if name in signed.headers:
                request.headers[name] = signed.headers[name]
        yield request


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
