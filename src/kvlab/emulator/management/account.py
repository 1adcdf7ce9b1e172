"""Login and logout, who one is, and how many tokens one holds."""

from __future__ import annotations

from kvlab.emulator.management.ask import Answer, Ask
from kvlab.emulator.management.tokens import LIFETIME_S

TOKEN = "X-SDS-AUTH-TOKEN"


def login(ask: Ask) -> Answer:
    """A token in a header; with `using-cookies=true` as a cookie too."""
    token, admin = ask.array.tokens.login(ask.authorization)
    headers = {TOKEN: token, "X-SDS-AUTH-MAX-AGE": str(LIFETIME_S), "X-SDS-AUTH-USERNAME": admin.name}
    if ask.query.get("using-cookies") == "true":
        headers["Set-Cookie"] = f"{TOKEN}={token};Version=1;Path=/;Max-Age={LIFETIME_S};Secure;HttpOnly"
    return Answer({"user": admin.name}, "loggedIn", headers=headers)


def logout(ask: Ask) -> Answer:
    """End this token; with force=true all of the user's, with a username (for a system administrator) another's."""
    name = ask.query.get("username", "")
    if name and name != ask.admin.name:
        ask.need_system()
        ask.array.tokens.named(name)
    if ask.query.get("force") == "true" or (name and name != ask.admin.name):
        ask.array.tokens.logout_all(name or ask.admin.name)
    else:
        ask.array.tokens.logout(ask.token)
    return Answer({"user": name or ask.admin.name}, "loggedOut")


def whoami(ask: Ask) -> Answer:
    role = "NAMESPACE_ADMIN" if ask.admin.namespace else "SYSTEM_ADMIN"
    return Answer(
        {
            "common_name": ask.admin.name,
            "distinguished_name": "",
            "namespace": ask.admin.namespace,
            "role": [role],
            "user_must_reset_password": False,
            "user_password_has_expired": False,
            "password_expiry_day": -1,
        },
        "user",
    )


def token_count(ask: Ask) -> Answer:
    ask.need_system()
    name = ask.array.tokens.named(ask.place["user"]).name
    return Answer({"count": ask.array.tokens.count(name)}, "token_count")


def unlock(ask: Ask) -> Answer:
    ask.need_system()
    ask.array.tokens.named(ask.place["user"]).locked = False
    return Answer()
