"""A push event of GitHub, and its signature for each provider."""

from __future__ import annotations

import hashlib
import hmac

SECRET = b"correct horse"
REPOSITORY = "https://git.example.com/shop/deploy"
GITHUB = {
    "ref": "refs/heads/main",
    "after": "9c1d2e7a5b0c",
    "repository": {
        "full_name": "shop/deploy",
        "clone_url": f"{REPOSITORY}.git",
        "ssh_url": "git@git.example.com:shop/deploy.git",
        "html_url": REPOSITORY,
    },
}


def signed(provider: str, body: bytes, secret: bytes = SECRET) -> dict[str, str]:
    """Return the header with which a provider proves the body."""
    digest = hmac.new(secret, body, hashlib.sha256).hexdigest()
    match provider:
        case "gitlab":
            return {"X-Gitlab-Token": secret.decode()}
        case "gitea":
            return {"X-Gitea-Signature": digest}
        case "bitbucket":
            return {"X-Hub-Signature": f"sha256={digest}"}
        case "generic":
            return {"X-Levelgate-Signature": f"sha256={digest}"}
    return {"X-Hub-Signature-256": f"sha256={digest}"}
