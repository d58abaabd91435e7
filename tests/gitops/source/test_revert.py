"""Taking commits back without a work tree: what git-revert(1) would do, below one directory, on a branch of its own (S1-33)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitops.errors import SourceError, Unauthorized
from gitops.source import BranchRef, Credentials, Mirror, RevertError, RevertRequest, SourceTarget, Tip
from tests.support.git.repository import WorkTree
from tests.support.git.server import GitServer

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
TEN = "".join(f"line {number}\n" for number in range(10))


@dataclass
class RevertedRepository:
    """A repository whose definition `apps/web.yaml` went from good to bad, and a mirror of it."""

    work: WorkTree
    cache: Path

    def __post_init__(self) -> None:
        self.good = self.work.commit("good", **{"apps/web": TEN, "apps/other": "one\n", "elsewhere": "one\n"})

    def bad(self, **files: str) -> str:
        return self.work.commit("bad", **{"apps/web": TEN.replace("line 2", "bad 2"), **files})

    def mirror(self, target: SourceTarget | None = None) -> Mirror:
        found = Mirror(target or SourceTarget(str(self.work.path), BranchRef("main")), self.cache)
        found.fetch()
        return found

    def reversal(self, halted: str, *, path: str = "", file: str = "apps/web.yaml") -> RevertRequest:
        return RevertRequest(self.work.git("rev-parse", "main"), self.good, halted, file, path, "Take it back\n", AT)

    def reverted(self, halted: str, *, path: str = "", file: str = "apps/web.yaml") -> str:
        """The commit, on a branch `back` of the repository."""
        mirror = self.mirror()
        commit = mirror.create_revert(self.reversal(halted, path=path, file=file))
        mirror.push(commit, "back", Credentials())
        assert self.work.git("rev-parse", "back") == commit
        return commit

    def show(self, path: str) -> str:
        return self.work.git("show", f"back:{path}") + "\n"


@pytest.fixture
def story(work: WorkTree, cache: Path) -> RevertedRepository:
    return RevertedRepository(work, cache)


def test_what_came_after_and_beside_it_stays(story: RevertedRepository) -> None:
    """The commit is taken back whole, files that it made and took away too; commits that do not touch the definition are left alone."""
    (story.work.path / "apps/old.yaml").write_text("old\n")
    story.good = story.work.commit("good")
    story.work.commit("unrelated", **{"apps/other": "two\n"})
    (story.work.path / "apps/old.yaml").unlink()
    halted = story.bad(**{"apps/new": "new\n"})
    story.work.commit(
        "later", **{"apps/web": TEN.replace("line 2", "bad 2").replace("line 9", "better 9"), "more": "1\n"}
    )
    story.reverted(halted)
    assert story.show("apps/web.yaml") == TEN.replace("line 9", "better 9")
    assert (story.show("apps/other.yaml"), story.show("apps/old.yaml"), story.show("more.yaml")) == (
        "two\n",
        "old\n",
        "1\n",
    )
    assert "apps/new.yaml" not in story.work.git("ls-tree", "-r", "--name-only", "back").split()
    assert (
        story.work.git("log", "-1", "--format=%an %ae %at %s", "back")
        == f"levelgate levelgate@localhost {int(AT.timestamp())} Take it back"
    )
    assert story.work.git("rev-parse", "back^") == story.work.git("rev-parse", "main")


def test_it_is_what_git_revert_makes(story: RevertedRepository) -> None:
    halted = story.bad(**{"apps/other": "two\n"})
    story.work.commit("later", more="1\n")
    story.reverted(halted)
    story.work.git("checkout", "--quiet", "-b", "by-hand")
    story.work.git("revert", "--no-edit", halted)
    assert story.work.git("rev-parse", "by-hand^{tree}") == story.work.git("rev-parse", "back^{tree}")


def test_all_commits_since_the_last_good_one_and_what_a_merge_brought(story: RevertedRepository) -> None:
    git = story.work.git
    story.bad()
    git("checkout", "--quiet", "-b", "topic")
    story.work.commit("on a branch", **{"apps/web": TEN.replace("line 2", "worse 2")})
    story.work.commit("with it", **{"apps/with": "1\n"})
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "-m", "merge", "topic")
    story.reverted(git("rev-parse", "main"))
    assert git("rev-parse", "back^{tree}") == git("rev-parse", f"{story.good}^{{tree}}")


def test_nothing_outside_of_the_directory_of_the_source(story: RevertedRepository) -> None:
    halted = story.bad(elsewhere="two\n")
    story.reverted(halted, path="apps")
    assert (story.show("apps/web.yaml"), story.show("elsewhere.yaml")) == (TEN, "two\n")


def test_the_same_reversal_is_the_same_commit(story: RevertedRepository) -> None:
    """So a process that was killed and one that takes over from it push the same."""
    halted = story.bad()
    mirror = story.mirror()
    assert mirror.create_revert(story.reversal(halted)) == mirror.create_revert(story.reversal(halted))


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (
            {"apps/web": TEN.replace("line 2", "mended 2")},
            "a later commit changes the same lines of apps/web.yaml",
        ),
        ({"apps/web": TEN}, "the changes of the rollout are already undone"),
    ],
)
def test_what_cannot_be_taken_back(story: RevertedRepository, later: dict[str, str], why: str) -> None:
    halted = story.bad()
    story.work.commit("later", **later)
    with pytest.raises(RevertError, match=why):
        story.mirror().create_revert(story.reversal(halted))


def test_a_file_that_is_in_the_way(story: RevertedRepository) -> None:
    (story.work.path / "apps/old.yaml").write_text("old\n")
    story.good = story.work.commit("good")
    (story.work.path / "apps/old.yaml").unlink()
    halted = story.bad()
    story.work.commit("later", **{"apps/old.yaml/x": "1\n"})
    with pytest.raises(RevertError, match="its path is in use"):
        story.mirror().create_revert(story.reversal(halted))


def test_a_binary_file_that_was_changed_again(story: RevertedRepository) -> None:
    story.bad()
    story.work.write("apps/logo.yaml", b"\0one")
    story.good = story.work.commit("good")
    story.work.write("apps/logo.yaml", b"\0two")
    halted = story.work.commit("bad", **{"apps/web": "x\n"})
    story.work.write("apps/logo.yaml", b"\0three")
    story.work.commit("later")
    with pytest.raises(RevertError, match=r"apps/logo\.yaml"):
        story.mirror().create_revert(story.reversal(halted))


def test_a_branch_that_is_there_is_left_as_it_is(story: RevertedRepository) -> None:
    halted = story.bad()
    story.work.git("branch", "back", story.good)
    mirror = story.mirror()
    commit = mirror.create_revert(story.reversal(halted))
    with pytest.raises(SourceError):
        mirror.push(commit, "back", Credentials())
    assert story.work.git("rev-parse", "back") == story.good


def test_over_http_with_a_token_of_its_own(story: RevertedRepository, server: GitServer, tmp_path: Path) -> None:
    """Who may read need not be who may push; the token stands in no message."""
    story.work.git("config", "http.receivepack", "true")
    halted = story.bad()
    mirror = story.mirror(SourceTarget(server.url(), BranchRef("main")))
    commit = mirror.create_revert(story.reversal(halted))
    token = tmp_path / "token"
    token.write_text("guessed-t0ken\n")
    server.token = "s3cret-t0ken"
    with pytest.raises(Unauthorized) as refused:
        mirror.push(commit, "back", Credentials(token))
    assert "t0ken" not in str(refused.value)
    token.write_text("s3cret-t0ken\n")
    mirror.push(commit, "back", Credentials(token))
    assert story.work.git("rev-parse", "back") == commit


def test_the_ref_of_a_branch_is_asked_for_by_name(story: RevertedRepository) -> None:
    halted = story.bad()
    assert story.mirror().list_refs("refs/heads/main", "refs/heads/back") == {"refs/heads/main": halted}
    assert story.mirror().fetch(Tip("refs/heads/main", halted)) == halted
