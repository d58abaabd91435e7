"""Demo of the main job on one sandbox; `python -m tests.support.demo.one_cluster` prints it.

The demo deploys, changes, rolls out, prunes and breaks `sample-repo`, and plans a pull request to it. Each step checks
the sandbox itself. The demo ends with exit code 1 at the first difference.
"""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.demo.session import SAMPLE, SOURCE, Demo, DemoDaemon, own_environment, present
from tests.support.git.repository import Repository

NAMESPACES = ("staging", "prod")
_WINDOW = """\
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {{name: soon}}
spec:
  kind: Allow
  timeZone: Etc/UTC
  selector: {{rgds: [webapps.platform.example.com]}}
  schedule:
    once:
    - {{start: '{opens:%Y-%m-%dT%H:%M:%S}', end: '{closes:%Y-%m-%dT%H:%M:%S}'}}
"""

# What must be gone before what: the graph of prod/shop, from its leaves to its roots, as the daemon names nodes.
_REVERSE = (
    ("WebApp prod/shop", "ingress", "service"),
    ("WebApp prod/shop", "service", "deployment"),
    ("WebApp prod/shop", "budget", "deployment"),
    ("WebApp prod/shop", "deployment", "settings"),
    ("Database prod/shop-db", "connection", "server"),
    ("Database prod/shop-db", "server", "service"),
    ("Product prod/shop", "web", "database"),
)


def _window(opens: datetime) -> str:
    """Open for two hours, once."""
    return _WINDOW.format(opens=opens, closes=opens + timedelta(hours=2))


def main() -> int:
    return present(show)


def show(directory: Path) -> None:
    """Go through all steps. Raises AssertionError where one is not as it should be."""
    path = directory / SOURCE
    shutil.copytree(SAMPLE, path)
    repository = Repository.create(path)
    repository.commit({}, "A platform: three definitions, five instances")
    environment = own_environment(directory)
    run = ("run", "--sandbox", "--source", f"{SOURCE}=.", "--interval", "5s")
    with DemoDaemon.start(run, path, environment) as daemon:
        demo = PlatformDemo(repository, environment, daemon, path)
        for step in (demo.deploy, demo.change, demo.roll_out, demo.remove, demo.damage, demo.propose):
            step()


class PlatformDemo(Demo):
    """The main job on `sample-repo`."""

    def deploy(self) -> None:
        self.explain("The daemon reads the repository and opens level after level, as far as what is below is ready.")
        self._until_settled()
        applied = [
            self.daemon.position(0, "Database prod/shop-db", f"{node} created") for node in ("server", "connection")
        ]
        assert applied == sorted(applied), "a level opened too early"
        self.explain("All matches Git. See for yourself, in a second terminal:")
        assert "Everything matches Git." in self.levelgate("status", "--sandbox")
        assert "Deployment prod/shop" in self.levelgate("tree", "product/shop", "-n", "prod", "--sandbox")
        self._instances()

    def change(self) -> None:
        file = "apps/prod/docs.yaml"
        old = (self.repository.path / file).read_text()
        self.explain("A commit changes an image. The daemon notices it at once; nothing but the Deployment is written.")
        since = self.commit({file: old.replace("docs:1.4.2", "docs:1.5.0")}, "docs 1.5.0 in production")
        self._until_settled()
        assert self.object("apis/apps/v1/namespaces/prod/deployments/docs")["spec"]["template"]["spec"]["containers"][
            0
        ]["image"].endswith("docs:1.5.0")
        written = [line for line in self.daemon.lines[since:] if line.endswith(("created", "updated", "deleted"))]
        assert len(written) == 2, f"more was written than the instance and its Deployment: {written}"

    def roll_out(self) -> None:
        """A changed definition waits for a window, then goes through its instances wave by wave."""
        file = "definitions/web-app.yaml"
        changed = (
            (self.repository.path / file).read_text().replace("{path: /, port: http}", "{path: /ready, port: http}")
        )
        self.explain(
            "A commit changes the definition of all web applications, and says that they change only in a window, tomorrow."
        )
        tomorrow = _window(datetime.now(UTC) + timedelta(days=1))
        since = self.commit({file: changed, "rules/soon.yaml": tomorrow}, "Ask /ready whether an application works")
        path = "apis/platform.example.com/v1alpha1/namespaces/prod/webapps/docs"
        self.until(lambda: self._propagated(path) == "WindowClosed")
        assert "window/soon" in self.levelgate("status", "--sandbox"), "the status does not name the window"
        why = self.levelgate("explain", "webapp/docs", "-n", "prod", "--sandbox")
        assert "window soon, Allow, closed" in why, "it is not explained what everything waits for"
        opens = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4)
        self.explain(
            f"Another commit moves the window: it opens at {opens:%H:%M:%S}Z. Staging goes first then, and production when staging is healthy"
            " (rules/web-apps.yaml)."
        )
        self.commit({"rules/soon.yaml": _window(opens)}, "Not tomorrow, now")
        self._until_settled()
        moved = [line for line in self.daemon.lines[since:] if "deployment updated" in line]
        assert min(moved) >= f"{opens:%Y-%m-%dT%H:%M:%SZ}", "moved before the window opened"
        staging, prod = (
            [self.daemon.position(since, f"WebApp {stage}/{name}", "deployment updated") for name in ("docs", "shop")]
            for stage in NAMESPACES
        )
        assert max(staging) < min(prod), "production went before staging"

    def remove(self) -> None:
        self.explain("A commit removes a product: an application, its database, and all that they are made of.")
        since = self.commit({"apps/prod/shop.yaml": None}, "The shop is closed")
        self._until_settled()
        self.explain("Each went only when nothing that needed it was left. Compare with the first deploy.")
        for owner, first, then in _REVERSE:
            gone = [self.daemon.position(since, owner, f"{node} deleted") for node in (first, then)]
            assert gone == sorted(gone), f"{owner}: {then} went before {first}"
        left = self.object("api/v1/namespaces/prod/configmaps")["items"]
        assert not [item for item in left if item["metadata"]["name"].startswith("shop")], "something was left over"

    def damage(self) -> None:
        docs, reports = "apps/prod/docs.yaml", "apps/prod/reports.yaml"
        old = {file: (self.repository.path / file).read_text() for file in (docs, reports)}
        self.explain(
            "A commit breaks one file and changes another. The broken one keeps what it has, the other goes on."
        )
        self.commit({docs: old[docs] + "  unclosed: [\n", reports: old[reports].replace("40", "80")}, "Two changes")
        self.until(lambda: self._record()["state"] == "Failed" and self._connections() == 80)
        assert "docs.yaml" in self.levelgate("status", "--sandbox")
        assert self.object("apis/apps/v1/namespaces/prod/deployments/docs")["metadata"]["name"] == "docs"
        self.explain("The next commit mends it.")
        self.commit({docs: old[docs]}, "Mend the docs")
        self._until_settled()
        self._instances()

    def propose(self) -> None:
        """The branch lies beside the working tree, whose HEAD the daemon follows."""
        self.explain(
            "A colleague opens a pull request: docs 1.6.0, and the reports go. This is the comment that its reviewers find."
        )
        self.repository.git("worktree", "add", "--quiet", "-b", "docs-1.6", "../proposal")
        proposal = Repository(self.repository.path.parent / "proposal")
        file = "apps/prod/docs.yaml"
        text = (proposal.path / file).read_text().replace("docs:1.5.0", "docs:1.6.0")
        proposal.commit({file: text, "apps/prod/reports.yaml": None}, "docs 1.6.0, no reports any more")
        plan = self.levelgate("plan", ".", "--source", SOURCE, "--base", "main", "--head", "docs-1.6", "-o", "markdown")
        assert plan.startswith(f"<!-- levelgate:plan source={SOURCE} -->"), "it would not be found again"
        assert "docs:1.6.0" in plan, "the plan does not show the new image"
        assert "5 **delete**" in plan, "the plan does not show all that goes"
        timeline = self.levelgate("simulate", ".", "--base", "main", "--head", "docs-1.6", "--assume", "ready=2m")
        assert "all matches Git." in timeline, "the simulation did not come to its end"

    def _instances(self) -> None:
        self.kubectl("get", "platform", "-A")

    def _until_settled(self) -> None:
        self.until(lambda: (self._record()["state"], self._record()["applied"]) == ("Settled", self.head))

    def _record(self) -> dict[str, str]:
        found = self.object(f"api/v1/namespaces/levelgate-system/configmaps/source-{SOURCE}")
        return {"state": "", "applied": "", **found.get("data", {})}

    def _propagated(self, path: str) -> str:
        """The reason of an instance's condition `Propagated`."""
        conditions = self.object(path).get("status", {}).get("conditions", [])
        return next((str(one["reason"]) for one in conditions if one["type"] == "Propagated"), "")

    def _connections(self) -> int:
        path = "apis/platform.example.com/v1alpha1/namespaces/prod/databases/reports"
        connections: int = self.object(path)["spec"]["maxConnections"]
        return connections


if __name__ == "__main__":
    sys.exit(main())
