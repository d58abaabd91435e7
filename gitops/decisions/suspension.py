"""Of what nothing at all is written: a person has suspended it, or something wider that it belongs to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from applier.causes import Cause, CauseRef, Reason
from applier.state.observed import Observed
from gitops.records.installation import INSTALLATION
from gitops.rollouts.directives import Directives


def installation_suspension(observed: Observed, now: datetime) -> Cause | None:
    """The word that nothing is written anywhere, on the record of the installation."""
    return Directives.from_objects(None, observed.objects.get(INSTALLATION)).active_suspension(now, "everything is")


def configured_suspension(source: str, why: str) -> Cause:
    """Return the cause that the operator's configuration suspends a source."""
    message = f"source {source} is suspended by the configuration: {why}"
    return Cause(Reason.SUSPENDED, message, references=(CauseRef("Source", source, Reason.SUSPENDED),))


def missing_sources_cause(source: str, missing: Sequence[str]) -> Cause:
    """Return the cause that a source waits until the sources `missing` have been applied once."""
    verb = "has" if len(missing) == 1 else "have"
    message = f"source {source} waits until {', '.join(missing)} {verb} been applied once"
    references = tuple(CauseRef("Source", one, Reason.PROGRESSING) for one in missing)
    return Cause(Reason.DEPENDENCY_NOT_READY, message, references=references)


def wide_suspension(asked: Directives, what: str, name: str, now: datetime) -> Cause | None:
    """Return the cause of the suspension of something wider than one instance, or None."""
    wait = asked.active_suspension(now, f"{what} {name} is")
    return wait and replace(wait, references=(CauseRef(what.capitalize(), name, Reason.SUSPENDED, until=wait.until),))
