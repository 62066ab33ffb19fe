"""Access control: who may read, who may change, and the headers of every answer."""

import asyncio
from dataclasses import replace

import pytest

from farthing.dashboard.guard import HEADERS, Guard

HOST = "127.0.0.1:8080"


class Answer:
    def __init__(self, messages):
        self.status = messages[0]["status"]
        self.headers = {k.decode(): v.decode() for k, v in messages[0]["headers"]}
        self.text = b"".join(m.get("body", b"") for m in messages[1:]).decode()


async def inside(scope, receive, send):
    headers = [(b"content-type", b"text/html"), (b"cache-control", b"public")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"inside"})


@pytest.fixture
def guard():
    return Guard(inside, frozenset({HOST, "localhost:8080"}), "secret")


def ask(guard, path="/", *, method="GET", query="", host=HOST, cookie=None, origin=None):
    headers = [(b"host", host.encode())]
    headers += [(b"cookie", cookie.encode("latin-1"))] if cookie is not None else []
    headers += [(b"origin", origin.encode())] if origin is not None else []
    folder = "" if cookie is None else guard.folder  # where a browser sends the cookie
    scope = {"type": "http", "method": method, "path": folder + path, "headers": headers}
    scope["query_string"] = query.encode()
    messages = []

    async def send(message):
        messages.append(message)

    asyncio.run(guard(scope, None, send))
    return Answer(messages)


def cookie_of(guard):
    return f"{guard.cookie}={guard.session}"


def test_the_token_becomes_a_cookie_and_leaves_the_address(guard):
    answer = ask(guard, "/study", query="name=a%26b&token=secret&page=2")
    assert answer.status == 303
    assert answer.headers["location"] == f"{guard.folder}/study?name=a%26b&page=2"
    again = ask(guard, f"{guard.folder}/study", query="token=secret")
    assert again.headers["location"] == f"{guard.folder}/study"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "secret" not in cookie
    assert ask(guard, cookie=cookie.split(";")[0]).text == "inside"


def test_other_servers_on_this_machine_do_not_get_the_cookie(guard):
    """A browser sends a cookie to every port, but only below its path."""
    cookie = ask(guard, query="token=secret").headers["set-cookie"]
    assert cookie.endswith(f"; Path={guard.folder}/")
    assert len(guard.folder) > 20
    assert Guard(inside, guard.hosts, "secret").folder != guard.folder
    headers = [(b"host", HOST.encode()), (b"cookie", cookie_of(guard).encode())]
    for path in ("/", "/study", guard.folder, f"{guard.folder}x/"):
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
        messages = []

        async def send(message, messages=messages):
            messages.append(message)

        asyncio.run(guard({**scope, "query_string": b""}, None, send))
        assert Answer(messages).status == 403


@pytest.mark.parametrize("token", ["", "Secret", "secret1", "%00", "%F0%9F%92%A9", "s" * 10_000])
def test_a_wrong_token_is_refused(guard, token):
    answer = ask(guard, query=f"token={token}")
    assert (answer.status, answer.text) == (
        *(403, "The token is wrong. Open the address that was printed."),
    )
    assert "set-cookie" not in answer.headers
    # A valid cookie does not help, because the request is a login.
    assert ask(guard, query=f"token={token}", cookie=cookie_of(guard)).status == 403


@pytest.mark.parametrize(
    "cookie", [None, "", "farthing-8080=", "farthing-8080=wrong", "farthing-9=x", '="', "\xff=\xff"]
)
def test_a_request_without_the_cookie_is_refused(guard, cookie):
    answer = ask(guard, cookie=cookie)
    assert answer.status == 403
    assert "inside" not in answer.text
    assert "`farthing dashboard` printed" in answer.text


@pytest.mark.parametrize("host", ["evil.example:8080", "127.0.0.1", "", "127.0.0.1:8080.evil"])
def test_a_forged_host_is_refused(guard, host):
    for query in ("", "token=secret"):
        answer = ask(guard, host=host, cookie=cookie_of(guard), query=query)
        assert answer.status == 403
        assert "not the host" in answer.text
        assert "set-cookie" not in answer.headers


def test_another_page_is_refused(guard):
    for origin in (
        "http://evil.example",
        "null",
        "https://127.0.0.1:8080",
        "http://localhost:8080",
    ):
        answer = ask(guard, cookie=cookie_of(guard), origin=origin)
        assert (answer.status, answer.text) == (403, "The request comes from another page.")
    assert ask(guard, cookie=cookie_of(guard), origin=f"http://{HOST}").status == 200


def test_a_permitted_request_is_passed_on_unchanged(guard):
    seen = []

    async def application(scope, receive, send):
        seen.append((scope, await receive()))
        await inside(scope, receive, send)

    async def receive():
        return {"type": "http.request", "body": b"what was sent"}

    headers = [(b"host", HOST.encode()), (b"cookie", cookie_of(guard).encode())]
    scope = {"type": "http", "method": "GET", "path": "/study", "headers": headers}
    scope["query_string"] = b"name=a"
    messages = []

    async def send(message):
        messages.append(message)

    given = {**scope, "path": f"{guard.folder}/study"}
    asyncio.run(replace(guard, app=application)(given, receive, send))
    assert Answer(messages).text == "inside"
    assert seen == [(scope, {"type": "http.request", "body": b"what was sent"})]


def test_changes_need_permission(guard):
    ours = {"cookie": cookie_of(guard), "origin": f"http://{HOST}"}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = ask(guard, method=method, **ours)
        assert answer.status == 403
        assert "--allow-changes" in answer.text
    allowed = replace(guard, changes=True)
    assert ask(allowed, method="POST", **ours).text == "inside"
    without = ask(allowed, method="POST", cookie=cookie_of(allowed))
    assert (without.status, "Origin" in without.text) == (403, True)
    assert ask(allowed, method="POST", origin=f"http://{HOST}").status == 403


def test_every_answer_has_the_security_headers(guard):
    for answer in (
        ask(guard),
        ask(guard, cookie=cookie_of(guard)),
        ask(guard, query="token=secret"),
    ):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "/a\r\nx: y"])
def test_a_login_never_redirects_to_another_host(guard, path):
    location = ask(guard, path, query="token=secret").headers["location"]
    assert location[0] == "/"
    assert location[1] not in "/\\"
    assert "\n" not in location


def test_two_dashboards_have_two_cookies(guard):
    other = Guard(inside, frozenset({"127.0.0.1:9090"}), "secret")
    assert other.cookie != guard.cookie
    assert other.session != guard.session
