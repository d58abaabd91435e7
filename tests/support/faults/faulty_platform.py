"""The platform of instances behind a server with faults."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from applier.sandbox.wire import Request, Response
from tests.support.fault_injector import FaultInjector
from tests.support.link_platform import GROUP, LinkPlatform


@dataclass
class FaultyPlatform(LinkPlatform):
    """A platform behind faults. The files of its instances are in `folder`; its definition is named `called`."""

    folder: str = ""
    called: str = f"links.{GROUP}"

    def _files(self) -> dict[str, str]:
        files = {f"{self.folder}{name}": text for name, text in super()._files().items()}
        definition = json.loads(files.pop(f"{self.folder}link.json"))
        definition["metadata"]["name"] = self.called
        return {**files, "link.json": json.dumps(definition)}

    @cached_property
    def faulty(self) -> FaultInjector:
        return FaultInjector(super()._door)

    async def _door(self, request: Request) -> Response:
        return await self.faulty.answer(request)
