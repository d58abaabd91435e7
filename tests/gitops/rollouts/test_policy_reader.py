"""PropagationPolicy in Git: what is read, what is refused and how that is said, and which policy governs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from applier.plan.model import Barrier
from gitops.durations import parse_duration
from gitops.rollouts.policy import (
    DEFAULT_POLICY,
    ApprovalPoint,
    Availability,
    ItemOrder,
    Mode,
    NewInstances,
    OnHalt,
    OnNewRevision,
    OnViolation,
    Policy,
    PolicyScope,
    Rollback,
    WindowRules,
    select_policy,
)
from gitops.rollouts.policy_reader import read_policies, read_policy
from gitops.rollouts.shapes import CountOrPercent, Exponential, Linear
from gitops.windows.window import Openness
from renderer import documents
from renderer.catalog.catalog import load
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from renderer.label_selector import LabelSelector

HEAD = """\
apiVersion: levelgate.dev/v1alpha1
kind: PropagationPolicy
metadata:
  name: webapps
"""
CANARY = LabelSelector.from_object({"matchLabels": {"tier": "canary"}})


def declared(text: str, name: str = "webapps") -> DeclaredObject:
    (document,), problems = documents.load("p.yaml", (HEAD.replace("webapps", name) + text).encode())
    assert problems == []
    return DeclaredObject(document.value, SourceLocation("p.yaml", document.line), document)


def policy(text: str = "", name: str = "webapps") -> Policy:
    found = read_policy(declared(text, name))
    assert isinstance(found, Policy), found
    return found


def mistakes(text: str) -> list[str]:
    found = read_policy(declared(text))
    assert isinstance(found, list), found
    return [str(problem) for problem in found]


def test_everything_that_a_policy_can_say() -> None:
    found = policy("""\
spec:
  selector:
    rgds: [webapp.kro.run, "job.*"]
    instances: {matchExpressions: [{key: tier, operator: NotIn, values: [dev]}]}
  governs: All
  barrier: Level
  shape: {linear: {n: "25%"}}
  mode: Sliding
  bake: 5m
  progressDeadline: 1h30m
  maxFailures: 10%
  maxFlaps: 1
  onHalt: RollBack
  minAvailable: 3
  order: ShufflePerRevision
  waves:
  - name: canary
    selector: {matchLabels: {tier: canary}}
    shape: {linear: {n: 2}}
    bake: 30m
    windows: [dba-hours]
  - name: prod
  approvals:
  - {after: {wave: canary}, by: [leads]}
  - after: {settled: 10}
  rollback: {shape: {exponential: {factor: 3}}, skipBake: false, ignoreApprovals: false}
  newInstances: Latest
  onNewRevision: Pipeline
  pipelineMax: 3
  maxHold: 2d
""")
    assert found.selector.rgds == ("webapp.kro.run", "job.*")
    assert found.selector.instances == LabelSelector.from_object(
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["dev"]}]}
    )
    assert (found.governs, found.barrier, found.mode) == (PolicyScope.ALL, Barrier.LEVEL, Mode.SLIDING)
    assert found.shape == Linear(CountOrPercent(25, is_percent=True))
    assert (found.bake, found.progress_deadline) == (timedelta(minutes=5), timedelta(minutes=90))
    assert (found.max_failures, found.max_flaps) == (CountOrPercent(10, is_percent=True), 1)
    assert (found.on_halt, found.min_available, found.order) == (
        OnHalt.ROLL_BACK,
        CountOrPercent(3),
        ItemOrder.SHUFFLE_PER_REVISION,
    )
    canary, prod = found.waves
    assert (canary.name, canary.selector, canary.shape) == ("canary", CANARY, Linear(CountOrPercent(2)))
    assert (canary.bake, canary.windows) == (timedelta(minutes=30), ("dba-hours",))
    assert (prod.name, prod.selector, prod.shape, prod.bake) == ("prod", LabelSelector(), None, None)
    assert found.approvals == (ApprovalPoint(after_wave="canary", by=("leads",)), ApprovalPoint(after_settled=10))
    assert found.rollback == Rollback(Exponential(3), skip_bake=False, ignore_approvals=False)
    assert (found.new_instances, found.on_new_revision) == (NewInstances.LATEST, OnNewRevision.PIPELINE)
    assert (found.pipeline_max, found.max_hold) == (3, timedelta(days=2))


@pytest.mark.parametrize("text", ["", "spec: {}\n"])
def test_what_is_not_said_is_the_default(text: str) -> None:
    """S1-7: exponential, factor 2."""
    found = policy(text)
    assert (found.shape, found.mode, found.bake) == (Exponential(2), Mode.BATCH, timedelta())
    assert (found.progress_deadline, found.max_failures, found.max_flaps) == (
        timedelta(minutes=10),
        CountOrPercent(0),
        3,
    )
    assert (found.governs, found.barrier, found.on_halt) == (PolicyScope.REVISIONS, Barrier.PATH, OnHalt.STOP)
    assert (found.order, found.new_instances) == (ItemOrder.STABLE, NewInstances.LAST_COMPLETED)
    assert (found.on_new_revision, found.max_hold) == (OnNewRevision.SUPERSEDE, timedelta(hours=72))
    assert found.rollback == Rollback(None, skip_bake=True, ignore_approvals=True)
    assert found.is_explicit
    assert not DEFAULT_POLICY.is_explicit


def test_the_default_policy_of_a_source_says_what_holds_for_windows() -> None:
    found = policy("""\
spec:
  windows:
    defaultWhenNoWindow: Closed
    expiredAllow: Open
    availability: {atLeast: 48h, per: 32d, contiguous: 4h, onViolation: Reject}
""")
    assert found.windows == WindowRules(
        Openness.CLOSED,
        Openness.OPEN,
        Availability(timedelta(hours=48), timedelta(days=32), timedelta(hours=4), OnViolation.REJECT),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spec: {shape: {linear: {n: 0}}}", "spec.shape.linear.n: n is 0; it must be at least 1, or a percentage"),
        ("spec: {shape: {linear: {n: 0%}}}", "spec.shape.linear.n: n is 0%; it must be at least 1"),
        ("spec: {shape: {exponential: {factor: 1}}}", "spec.shape.exponential.factor: 1 is below the minimum 2"),
        ("spec: {shape: {}}", "spec.shape: must be exactly one of linear"),
        ("spec: {shape: {linear: {}, exponential: {}}}", "spec.shape: must be exactly one of linear"),
        ("spec: {bake: 5 minutes}", "spec.bake: '5 minutes' is not a duration; write for example 90s, 30m"),
        ("spec: {bake: 300}", "spec.bake: 300 is not text; put it in quotes"),
        ("spec: {maxFailures: -1}", "spec.maxFailures: -1 is below 0"),
        ("spec: {maxFailures: ten}", "spec.maxFailures: 'ten' is neither a whole number nor a percentage such as 25%"),
        (
            "spec: {onHalt: Rollback}",
            "spec.onHalt: 'Rollback' is not one of Stop, ProposeRevert, RollBack; did you mean 'RollBack'?",
        ),
        ("spec: {bakes: 5m}", "spec.bakes: no field 'bakes'; did you mean 'bake'?"),
        ("specs: {bake: 5m}", "specs: no field 'specs'; write the fields of the policy under spec"),
        ("spec: [bake]", 'spec: ["bake"] is not an object'),
        ("spec: {pipelineMax: 3}", "spec.pipelineMax: requires onNewRevision: Pipeline"),
        ("spec: {waves: [{name: Canary}]}", "spec.waves[0].name: 'Canary': must be a lower-case name with a letter"),
        ("spec: {waves: [{name: rest}]}", "spec.waves[0].name: 'rest' is the name of a built-in wave"),
        (
            "spec: {waves: [{name: a}, {name: a}]}",
            "spec.waves[0].name: 2 waves are called 'a'; give each wave its own name",
        ),
        ("spec: {waves: [{selector: {}}]}", "spec.waves[0].name: is required and not given"),
        (
            "spec: {waves: [{name: a, selector: {matchExpressions: [{key: t, operator: In}]}}]}",
            "spec.waves[0].selector: label t: operator In needs values",
        ),
        (
            "spec: {waves: [{name: a, selector: {matchExpressions: [{key: t, operator: Exists, values: [x]}]}}]}",
            "spec.waves[0].selector: label t: operator Exists takes no values",
        ),
        (
            "spec: {approvals: [{after: {wave: a}}]}",
            "spec.approvals[0].after.wave: wave 'a' is not declared in this policy; declare it under spec.waves",
        ),
        ("spec: {approvals: [{after: {}}]}", "spec.approvals[0].after: must be exactly one of wave: NAME and settled"),
        ("spec: {selector: {rgds: [Web App]}}", "spec.selector.rgds[0]: 'Web App' is not the name of a definition"),
        (
            "spec: {selector: {rgds: [a]}, windows: {expiredAllow: Open}}",
            "spec.windows: belongs in the default policy of the source",
        ),
        (
            "spec: {windows: {availability: {atLeast: 4d, per: 1d}}}",
            "spec.windows.availability: must satisfy contiguous <= atLeast <= per",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_what_is_valid(text: str, expected: str) -> None:
    found = mistakes(text + "\n")
    assert found[0].startswith(f"p.yaml:5: {expected}")


@pytest.mark.parametrize("text", ["{linear: {n: 3}}", '{linear: {"n": 3}}'])
def test_n_may_be_written_without_quotes(text: str) -> None:
    """YAML 1.1 reads a plain n as false."""
    assert policy(f"spec: {{shape: {text}}}\n").shape == Linear(CountOrPercent(3))


def test_all_mistakes_are_reported_together_each_on_its_line() -> None:
    found = mistakes("""\
spec:
  bake: long
  maxHold: longer
  shape:
    linear:
      n: 0
""")
    assert [text.split(":")[1] for text in found] == ["6", "7", "10"], found


def test_another_version_is_refused() -> None:
    found = declared("spec: {}\n")
    found.manifest["apiVersion"] = "levelgate.dev/v9"
    assert isinstance(problems := read_policy(found), list)
    assert problems[0].message == "'levelgate.dev/v9' is not known; write levelgate.dev/v1alpha1"


def test_the_policies_of_a_commit() -> None:
    """What cannot be read is named, so that its last accepted version stays in force; of two with one name none counts."""
    files = {
        "a.yaml": HEAD + "spec: {bake: 5m}\n",
        "b.yaml": HEAD + "spec: {bake: 9m}\n",
        "c.yaml": HEAD.replace("webapps", "jobs") + "spec: {bake: long}\n",
        "d.yaml": HEAD.replace("PropagationPolicy", "PropagationWindow"),
    }
    found = read_policies(load({name: text.encode() for name, text in files.items()}))
    assert not found.rules
    assert found.broken == {"webapps": SourceLocation("a.yaml", 1), "jobs": SourceLocation("c.yaml", 1)}
    assert [str(problem).split(";")[0] for problem in found.problems] == [
        "a.yaml:4: metadata.name: policy 'webapps' is declared at a.yaml:1 and b.yaml:1",
        "b.yaml:4: metadata.name: policy 'webapps' is declared at a.yaml:1 and b.yaml:1",
        "c.yaml:5: spec.bake: 'long' is not a duration",
    ]


# ---- which one governs


def chosen(policies: list[Policy], definition: str = "webapp.kro.run", **labels: str) -> str:
    found = select_policy(policies, definition, labels)
    return found.name if isinstance(found, Policy) else f"problem: {found.message}"


EVERYTHING = policy(name="everything")
BY_PATTERN = policy('spec: {selector: {rgds: ["web*"]}}\n', "pattern")
BY_NAME = policy("spec: {selector: {rgds: [webapp.kro.run]}}\n", "name")
BY_LABEL = policy("spec: {selector: {instances: {matchLabels: {tier: prod}}}}\n", "label")
BY_BOTH = policy("spec: {selector: {rgds: [webapp.kro.run], instances: {matchLabels: {tier: prod}}}}\n", "both")


def test_the_most_specific_policy_wins() -> None:
    everyone = [EVERYTHING, BY_PATTERN, BY_NAME, BY_LABEL, BY_BOTH]
    assert chosen(everyone, tier="prod") == "both"
    assert chosen(everyone, tier="dev") == "name"
    assert chosen([EVERYTHING, BY_PATTERN, BY_LABEL], tier="prod") == "pattern"
    assert chosen(everyone, "job.kro.run", tier="prod") == "label"
    assert chosen(everyone, "job.kro.run") == "everything"


def test_without_a_policy_the_default_holds() -> None:
    """S1-7."""
    assert select_policy([BY_NAME], "job.kro.run", {}) is DEFAULT_POLICY


def test_two_policies_that_are_equally_specific_are_a_mistake() -> None:
    other = policy("spec: {selector: {rgds: [webapp.kro.run]}}\n", "other")
    assert chosen([BY_NAME, other]) == (
        "problem: policy other selects webapp.kro.run exactly as specifically as name (p.yaml:1); "
        "name the definition in one policy, or narrow the selector of one policy"
    )


def test_instances_of_no_wave_or_of_several_are_warned_about() -> None:
    found = policy("""\
spec:
  waves:
  - {name: canary, selector: {matchLabels: {tier: canary}}}
  - {name: eu, selector: {matchLabels: {region: eu}}}
""")
    instances = {"prod/a": {"tier": "canary"}, "prod/b": {"tier": "canary", "region": "eu"}, "prod/c": {}}
    warnings = found.find_stragglers(instances)
    assert all(isinstance(warning, Problem) for warning in warnings)
    assert [warning.message.split(";")[0] for warning in warnings] == [
        "prod/b fits canary and eu",
        "prod/c fits no wave",
    ]
    assert EVERYTHING.find_stragglers(instances) == []


# ---- texts


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("90m", 5400), ("1h30m", 5400), ("2d", 172800), ("0s", 0)])
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "1.5h", "-5m", "5 m", "1w"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["36526d", "999999999d", "999999999d" * 3])
def test_no_duration_leaves_the_calendar(text: str) -> None:
    """What is reckoned from it is a time; a bake that ends after the year 9999 ended every pass."""
    with pytest.raises(ValueError, match="is longer than 36525d"):
        parse_duration(text)
