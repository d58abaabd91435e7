"""The comment on a pull request: within the limit of a forge, and safe whatever the commit says."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from applier.causes import Reason
from applier.state.structural_diff import FieldDiff
from gitops.cli import plan_text
from gitops.plan.grouping import fold_changes, group_changes
from gitops.plan.report import (
    InterimChange,
    Obstacle,
    PlannedAction,
    PlannedChange,
    PlanStep,
    PlanWarning,
    Report,
    RevisionMove,
    WarningKind,
    WindowCapacity,
)
from gitops.plan.report_markdown import GITHUB_COMMENT_LIMIT, format_code, format_comment, marker
from gitops.text import TimeFormat
from renderer.errors import Problem
from renderer.identity import ObjectKey
from tests.support.commonmark import marks, outside_of_code

NOW = datetime(2026, 11, 20, 12, 5, tzinfo=UTC)
HOSTILE = [
    "</summary></details><img src=x onerror=alert(1)>",
    "@everyone [click](javascript:alert(1)) #1 !1 owner/repo@abcdef0",
    "```\n</details>\n# shouting",
    "`|` **bold** ![x](http://evil.example.com/x.png)",
    "a\u202eb\u200bc\x00d\r\n- [ ] task",
    "<!-- levelgate:plan source=other -->",
    "</code></b></summary></details>\n\n@acme/admins [x][y]\n\n[y]: javascript:alert(1)",
    "```` a ``` b `` c ` <script>alert(1)</script> ~~~",
    "--> <!-- levelgate:state head=1 -->",
    "a\u3164b\u034fc\ufe0fd\u2800e\u2028f\u2066g\U000e0041",
]


def change(number: int, text: str = "1") -> PlannedChange:
    key = ObjectKey("apps", "Deployment", "prod", f"app-{number}")
    instance = ObjectKey("kro.run", "WebApp", "prod", f"app-{number}")
    diff = (FieldDiff("spec.replicas", f"{text}{number}", f"{text}{number + 1}"),)
    return PlannedChange(PlannedAction.UPDATE, key, "Deployment.apps", instance, "deployment", 1, "a.yaml", 3, diff)


def report(*changes: PlannedChange, **more: object) -> Report:
    return Report("platform", "9c1d2e7" * 5, NOW, "4e01b7a" * 5, hash="7f3c9a1012345678", changes=changes, **more)  # type: ignore[arg-type]


def test_nothing_to_do_is_one_line() -> None:
    assert format_comment(report()).splitlines() == [
        "<!-- levelgate:plan source=platform -->",
        "### Levelgate plan: no changes · `platform`",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"problems": (Problem("a.yaml", 3, "spec", "is wrong"),)}, "- `a.yaml:3: spec: is wrong`"),
        ({"warnings": (PlanWarning(WarningKind.RULES, "window w goes"),)}, "> - `window w goes`"),
        (
            {"changes": (PlannedChange(PlannedAction.FAILED, None, "Job.batch", message="Invalid: no"),)},
            "  Invalid: no",
        ),
        ({"moves": (RevisionMove("webapps", 1, 2, 3),)}, "`webapps` r1 → r2 over 3 instances  "),
        ({"problems": (Problem("a.yaml", 3, "spec", "is wrong"),)}, "### Levelgate plan: 1 problem · `platform`"),
    ],
    ids=["problem", "warning", "failure", "revision", "title"],
)
def test_where_nothing_changes_what_is_wrong_is_told_all_the_same(more: dict[str, Any], said: str) -> None:
    assert said in format_comment(replace(report(), **more)).splitlines()


def test_the_title_counts_all_that_happens_and_shows_what_goes() -> None:
    found = format_comment(
        report(*(replace(change(number), action=action) for number, action in enumerate(PlannedAction)))
    )
    counts = "1 create, 1 update, 1 replace, 1 adopt, 1 release, 1 **delete**, 1 keep, 1 unknown, 1 failed"
    assert f"### Levelgate plan: {counts} \u00b7 `platform`" in found.splitlines()
    assert {line.partition(" ")[0] for line in found.splitlines() if " level 1  delete" in line} == {"-"}


@pytest.mark.parametrize(
    ("head", "said"),
    [("9c1d2e7" * 5, "9c1d2e7"), (f"{'9c1d2e7' * 5}-dirty", "working tree of 9c1d2e7"), ("", "working tree")],
    ids=["commit", "changed since", "no commit"],
)
def test_what_is_planned_is_named(head: str, said: str) -> None:
    found = format_comment(replace(report(change(1)), head=head)).splitlines()
    assert f"`4e01b7a` → `{said}` · Git only, no cluster asked" in found


def test_a_terminal_counts_all_that_happens_as_well() -> None:
    told = plan_text.text(
        report(*(replace(change(number), action=action) for number, action in enumerate(PlannedAction))), TimeFormat()
    )
    more = "1 to adopt, 1 to release, 1 not in Git that remain, 1 not knowable yet, 1 that cannot be done"
    assert f"1 to create, 1 to update, 1 to replace, 1 to delete, 0 unchanged, {more}." in told


def test_the_title_of_a_group_names_what_holds_it() -> None:
    """Windows, persons and waves hold changes too, so the label does not call them gates."""
    obstacles = (
        Obstacle(Reason.WINDOW_CLOSED, "window dba-hours is closed", "dba-hours"),
        Obstacle(Reason.HELD, "held by ana", "ana"),
        Obstacle(Reason.BAKING, "bakes", ""),
    )
    found = format_comment(report(replace(change(1), obstacles=obstacles)))
    names = "<code>Baking</code>, <code>ana</code>, <code>dba-hours</code>"
    assert f"1 update \u00b7 held by {names}</summary>" in found


def test_a_change_is_told_with_what_holds_it_and_step_by_step() -> None:
    gate = Obstacle(Reason.WINDOW_CLOSED, "window w is closed", "w", datetime(2026, 11, 23, 8, tzinfo=UTC))
    early = InterimChange(1, PlannedAction.UPDATE, (FieldDiff("data.a", "1", "2"),), (), "drifted")
    users, diff = tuple(f"Job/prod/{number}" for number in range(6)), (FieldDiff("data.b", None, "3"),)
    held = replace(
        change(1), obstacles=(gate,), users=users, interim=(early,), later_action=PlannedAction.DELETE, later_diff=diff
    )
    room = WindowCapacity(timedelta(hours=2), timedelta(minutes=160))
    found = format_comment(
        report(held, steps=(PlanStep("window w:", ("prod/app-1",), gate.until, "", room),))
    ).splitlines()
    assert found[found.index("```diff") + 1 : found.index("```")] == [
        "  level 1  update deployment  Deployment.apps/prod/app-1",
        "  at r1 until it moves; drifted",
        "  data.a",
        "- 1",
        "+ 2",
        "- level 1  delete deployment  Deployment.apps/prod/app-1",
        "  used by Job/prod/0, Job/prod/1, Job/prod/2, Job/prod/3, Job/prod/4 and 1 more",
        "  WindowClosed: window w is closed, not before Mon 2026-11-23 08:00Z",
        "  data.b",
        "+ 3",
    ]
    told = "window open for 2h, needs 2h40m at most: too short, the rest continues when it opens again"
    assert f"| 1 | Mon 2026-11-23 08:00Z | window w: `prod/app-1`<br>{told} |" in found


def test_of_more_than_are_shown_it_is_said_how_many() -> None:
    problems = tuple(Problem("a.yaml", number, "", "is wrong") for number in range(13))
    warnings = tuple(PlanWarning(WarningKind.RULES, f"window w{number} goes") for number in range(26))
    told = format_comment(report(problems=problems, warnings=warnings)).splitlines()
    assert ("- and 1 more" in told, "> - and 2 more" in told) == (True, True)


@pytest.mark.parametrize(
    ("against", "kept", "said"),
    [
        ("git", "", "Valid for these two commits."),
        (
            "cluster prod-eu",
            "",
            "Valid for Git and the cluster at that time: if either changes, `--require-plan` rejects",
        ),
        ("snapshot of cluster prod-eu", "", "Valid for Git and the cluster at that time"),
        ("git", "Marked **stale** when `main` moves.", "Marked **stale** when `main` moves.</sub>"),
    ],
)
def test_a_comment_says_for_what_it_is_true_and_promises_no_more(against: str, kept: str, said: str) -> None:
    last = format_comment(report(change(1), against=against), update_note=kept).splitlines()[-1]
    assert f" Secrets are masked. {said}" in last
    assert ("stale" in last) == bool(kept)


@pytest.mark.parametrize("limit", [GITHUB_COMMENT_LIMIT, 4_000])
def test_a_thousand_changes_fit_and_what_is_left_out_is_said(limit: int) -> None:
    found = format_comment(report(*(change(number, "\u00fc" * 90) for number in range(1000))), limit=limit)
    assert len(found.encode()) <= limit
    assert "The comment leaves out" in found
    assert found.count("<details>") == found.count("</details>") > 5
    assert found.startswith("<!-- levelgate:plan source=platform -->\n### Levelgate plan: 1000 update")
    assert found.endswith("</sub>")


def config(number: int, *, level: str = "debug") -> PlannedChange:
    key = ObjectKey("", "ConfigMap", "prod", f"app-{number}")
    return PlannedChange(
        PlannedAction.UPDATE, key, "ConfigMap", None, "", 0, diff=(FieldDiff("data.level", "info", level),)
    )


def test_a_thousand_plain_objects_with_the_same_change_are_shown_once() -> None:
    found = format_comment(report(*map(config, range(1000)), config(1000, level="warn")))
    assert len(found) < 2_000
    assert "  level 0  update 1000 x ConfigMap prod/app-0, prod/app-1" in found
    assert "and 988 more" in found
    assert "  level 0  update ConfigMap/prod/app-1000" in found
    assert (found.count("+ debug"), found.count("+ warn")) == (1, 1)


@pytest.mark.parametrize("limit", [GITHUB_COMMENT_LIMIT, 8_000])
def test_of_a_thousand_plain_objects_as_many_are_shown_as_there_is_room_for(limit: int) -> None:
    found = format_comment(report(*(config(number, level="x" * number) for number in range(1000))), limit=limit)
    assert limit / 4 < len(found.encode()) <= limit
    assert "The comment leaves out" in found


def test_items_of_a_collection_with_the_same_change_are_shown_once() -> None:
    """By their instance; those that another gate holds are others."""
    shop = ObjectKey("kro.run", "WebApp", "prod", "shop")
    gate = Obstacle(Reason.WINDOW_CLOSED, "closed", "dba-hours")

    def worker(number: int) -> PlannedChange:
        held = (gate,) if number > 6 else ()
        return replace(config(number), instance=shop, node=f"workers/{number}", obstacles=held)

    told = [(one.node, len(one.keys)) for one in fold_changes(map(worker, range(10)))]
    assert told == [("workers", 7), ("workers", 3)]


def test_instances_stand_together_where_nothing_differs_but_their_names() -> None:
    """A name of one or two letters is part of too much; a kind of another group is another kind."""

    def of(name: str, group: str = "kro.run") -> PlannedChange:
        instance = ObjectKey(group, "WebApp", "prod", name)
        return replace(change(1), instance=instance, diff=(FieldDiff("image", f"{name}:1", f"{name}:2"),))

    told = group_changes(report(of("cart"), of("a"), of("shop"), of("b"), of("shop", "other.test")))
    names = [[one.name for one in group.instances] for group in told]
    assert names == [["cart", "shop"], ["a"], ["b"], ["shop"]]


def test_what_uses_one_of_them_alone_is_not_hidden_behind_another() -> None:
    """Blast radius: what a deletion takes along may not be told of its namesakes, nor left out."""

    def gone(namespace: str, name: str, *more: str) -> PlannedChange:
        instance = ObjectKey("kro.run", "WebApp", namespace, name)
        users = (f"Service/{namespace}/{name}", *more)
        return replace(change(1), action=PlannedAction.DELETE, instance=instance, diff=(), users=users)

    told = group_changes(
        report(gone("prod", "cart"), gone("staging", "shop"), gone("prod", "docs", "Ingress/prod/docs"))
    )
    assert [[one.name for one in group.instances] for group in told] == [["cart", "shop"], ["docs"]]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_commit_writes_nothing_but_code(text: str) -> None:
    key = ObjectKey("", "ConfigMap", text, text)
    gates = (Obstacle(Reason.GATE_CLOSED, text, text),)
    hostile = PlannedChange(
        PlannedAction.FAILED,
        key,
        text,
        key,
        text,
        0,
        text,
        1,
        (FieldDiff(text, text, text),),
        gates,
        (text,),
        (text,),
        text,
    )
    found = format_comment(
        report(
            hostile,
            warnings=(PlanWarning(WarningKind.HOLDS_BACK, text, text, text),),
            steps=(PlanStep(text, (text,), None, text),),
            against=text,
        )
    )
    outside = outside_of_code(found)
    for sign in (
        "<img",
        "javascript:",
        "@everyone",
        "evil.example.com",
        "# shouting",
        "- [ ]",
        "source=other",
        "**bold**",
        "@acme",
        "<script",
        "levelgate:state",
    ):
        assert sign not in outside, outside
    assert not set("\u202e\u200b\x00\r\u3164\u034f\ufe0f\u2800\u2028\u2066\U000e0041") & set(found)


def test_nobody_hides_what_is_told_by_telling_a_lot() -> None:
    """A message, a name, or a section of any length leaves room for what comes after it."""
    long = "x" * 300_000
    hazards = (
        PlanWarning(WarningKind.PRIVILEGES, long),
        PlanWarning(WarningKind.NAMESPACE_GOES, "namespace shop goes"),
    )
    moves = tuple(RevisionMove(f"{number}{long}", 1, 2, 3) for number in range(500))
    wide = [
        replace(config(number, level=str(number)), users=(long,) * 5, message=long, immutable=(long,))
        for number in range(40)
    ]
    other = replace(change(1), instance=ObjectKey("kro.run", "WebApp", "prod", "shop"))
    found = format_comment(report(*wide, other, warnings=hazards, moves=moves))
    assert len(found.encode()) <= GITHUB_COMMENT_LIMIT
    assert "namespace shop goes" in found
    assert "and 488 more definitions" in found
    assert "WebApp</code> <b><code>prod/shop</code>" in found
    assert "The comment leaves out 40 changes: a comment has at most 65,536 bytes" in found


def test_changes_of_all_instances_that_stand_together_are_counted_where_they_are_left_out() -> None:
    """Three alike, of two objects each."""
    whole = [replace(change(number), diff=(), message="x" * 300) for number in range(101, 104)]
    pairs = [part for one in whole for part in (one, replace(one, node="service"))]
    found = format_comment(report(*pairs), limit=800)
    assert ("<details>" in found, len(next(group_changes(report(*pairs))).instances)) == (False, 3)
    assert "The comment leaves out 6 changes: a comment has at most 800 bytes" in found


def test_of_many_steps_it_is_said_how_many_are_left_out() -> None:
    steps = tuple(
        PlanStep(f"wave w{number}:", ("prod/shop",), None, "after the wave before it") for number in range(50)
    )
    found = format_comment(report(change(1), steps=steps))
    assert "| 48 | after the wave before it | wave w47: `prod/shop` |\n| | | and 2 more |\n" in found


@pytest.mark.parametrize(
    "text", ["wave www.example.com:", "window GH-26:", "wave deadbeef:", "a@example.com", "#1", "_x_"]
)
def test_what_a_forge_could_make_a_link_of_is_code_in_a_step(text: str) -> None:
    assert f"| `{text}` `prod/shop` |" in format_comment(report(change(1), steps=(PlanStep(text, ("prod/shop",)),)))


def test_a_terminal_is_told_no_lines_of_others() -> None:
    text = "\x1b[2J\x1b]0;title\x07\x9b2J\u202e\nPlan deadbeef."
    key = ObjectKey("", "ConfigMap", text, text)
    hostile = replace(change(1), key=key, kind=text, message=text, users=(text,), diff=(FieldDiff(text, text, text),))
    steps, warnings = (PlanStep(text, (text,), None, text),), (PlanWarning(WarningKind.HOLDS_BACK, text, text, text),)
    told = "\n".join(
        plan_text.text(
            report(hostile, warnings=warnings, steps=steps, moves=(RevisionMove(text, 1, 2, 3),)), TimeFormat(utc=True)
        )
    )
    assert click.unstyle(told).replace("\n", "").isprintable()
    assert [line for line in told.splitlines() if line.startswith("Plan ")] == ["Plan 7f3c9a1012345678."]


PARTS = [
    *HOSTILE,
    *(
        "```",
        "~~~",
        "`",
        "|",
        "\\",
        "\\`",
        "]]>",
        "&#x3c;",
        "*",
        "_",
        "\n",
        "\t",
        "  ",
        "[x]: http://e",
        "<a@b.c>",
        "www.e.com",
    ),
]


def test_a_reader_of_markdown_finds_our_marks_and_no_others() -> None:
    """Whatever is put together in names, paths, values, messages and rules."""
    dice = random.Random(4711)

    def word() -> str:
        return "".join(dice.choice(PARTS) for _ in range(dice.randint(1, 5)))

    found = set[str]()
    for _ in range(200):
        key = ObjectKey("", "ConfigMap", word(), word())
        difference, gates = FieldDiff(word(), word(), word()), (Obstacle(Reason.GATE_CLOSED, word(), word()),)
        action, of = dice.choice([*PlannedAction]), dice.choice([key, None])
        hostile = PlannedChange(
            action, key, word(), of, word(), 0, word(), 1, (difference,), gates, (word(),), (word(),), word()
        )
        said = report(
            hostile,
            warnings=(PlanWarning(WarningKind.HOLDS_BACK, word(), word(), word()),),
            steps=(PlanStep(word(), (word(),), None, word()),),
            moves=(RevisionMove(word(), 1, 2, 3),),
            problems=(Problem(word(), 1, word(), word()),),
            against=word(),
        )
        text = format_comment(said)
        found |= marks(text)
        assert not re.search(r"@|http|www|#\d|\.com", outside_of_code(text))
    structure = {one for one in found if one.endswith(("_open", "_close")) and not one.startswith(("t", "paragraph"))}
    assert structure <= {
        f"{name}_{end}"
        for name in ("heading", "bullet_list", "list_item", "blockquote", "strong")
        for end in ("open", "close")
    }
    tags = {one.strip("</>") for one in found if one.startswith("<")}
    assert tags <= {"!--", "details", "summary", "b", "code", "sub", "br"}


def test_code_that_holds_ticks_ends_where_it_should() -> None:
    assert format_code("a`b``c") == "```a`b``c```"
    assert format_code("`a") == "`` `a ``"
    assert format_code("a`") == "`` a` ``"
    told = format_comment(report(replace(change(1), diff=(FieldDiff("````", 1, 2),)))).splitlines()
    assert ("`````diff" in told, "  ````" in told, told.count("`````")) == (True, True, 1)


def test_a_mark_ends_where_it_should() -> None:
    assert marker("a --> <b>") == "<!-- levelgate:plan source=a--b -->"
