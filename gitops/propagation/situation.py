"""What a pass knows when it decides what may move: rules, records, people's words, and how everything is. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from applier.observed import Observed
from applier.plan import Plan, SetPlan
from gitops.propagation import suspension
from gitops.propagation.gates import Change as TargetRevision
from gitops.propagation.gates import Facts
from gitops.propagation.judge import Closing, Reading, in_window, not_startable
from gitops.propagation.orders import Request
from gitops.propagation.people import Asked, first_seen
from gitops.propagation.propagation import Propagation
from gitops.propagation.rules import SourceRules
from gitops.propagation.state import State
from gitops.propagation.window import Window
from renderer.identity import GroupKind, ObjectKey
from renderer.model import Bundle
from renderer.revision import Stored


@dataclass(frozen=True, slots=True)
class Conditions:
    """What one pass begins with: `rules` by source, `states` of rollouts by name as they are stored, what people ask of these, one `reading` of
    the clock for all of it, and the commit of each source. `suspended` says why, of sources that the configuration suspends, and `depends_on`
    after which others a source is applied for the first time.
    """

    rules: Mapping[str, SourceRules]
    states: Mapping[str, State]
    reading: Reading
    cluster: str = ""
    requests: Mapping[str, tuple[Request, ...]] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    suspended: Mapping[str, str] = field(default_factory=dict)
    depends_on: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Situation:
    """How everything is; `plan` is made with `before`, which is what this pass has decided so far."""

    conditions: Conditions
    bundle: Bundle
    plan: Plan
    observed: Observed
    stored: Stored
    before: Propagation

    @property
    def now(self) -> datetime:
        return self.conditions.reading.now

    @cached_property
    def plans(self) -> Mapping[ObjectKey, SetPlan]:
        """Of instances, by their key."""
        return {one.rendered.parent: one for one in self.plan.sets if not one.rendered.is_source}

    @cached_property
    def asked(self) -> Mapping[ObjectKey, Asked]:
        """What people ask of each instance; a break-glass of its definition counts where it has none of its own."""
        return {
            key: Asked.of(one.rendered.manifest, one.parent).or_glass_of(self._definitions.get(key.group_kind))
            for key, one in self.plans.items()
        }

    @cached_property
    def suspensions(self) -> suspension.Suspensions:
        said, here = self.conditions, self.observed
        configured = {**dict(suspension.not_yet(said.depends_on, here)), **suspension.configured(said.suspended)}
        sources = suspension.sources(self.bundle, here)
        return suspension.Suspensions(sources, self._definitions, self.asked, self.plans, self.bundle, configured)

    @cached_property
    def _definitions(self) -> Mapping[GroupKind, Asked]:
        return suspension.definitions(self.bundle, self.observed)

    @property
    def requests(self) -> Mapping[str, tuple[Request, ...]]:
        """Orders that this pass has not carried out yet: each is carried out once, however often it is decided again."""
        return {} if self.before.states else self.conditions.requests

    def since(self, key: ObjectKey, name: str, word: str) -> datetime:
        """Since when this word of somebody is said of an instance, so that it can lapse."""
        return first_seen((self.plans[key].parent or {}).get("status") or {}, name, word, self.now)

    def rules_of(self, kind: GroupKind) -> SourceRules | None:
        """The rules of the source that defines a kind."""
        return self.conditions.rules.get(self.bundle.owners.get(kind, ""))

    def facts(self, kind: GroupKind) -> Facts:
        """What the gates of a definition may read of the world."""
        revisions = self.stored.revisions.get(kind)
        windows = {name: in_window(window, self.now) for name, window in self._windows(kind).items()}
        return Facts(self.now, TargetRevision(revisions[-1].number if revisions else 0), windows)

    def closings(self, kind: GroupKind) -> dict[str, Closing]:
        """Since when `inWindow` of each window is as it is, and when it changes next."""
        return {name: not_startable(window, self.now) for name, window in self._windows(kind).items()}

    def _windows(self, kind: GroupKind) -> Mapping[str, Window]:
        rules = self.rules_of(kind)
        return rules.windows if rules else {}
