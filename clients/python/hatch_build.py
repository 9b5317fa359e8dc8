"""Adds the program to the wheel, so that `pip install tradewind` also installs the command `tradewind`.

$TRADEWIND_PROGRAMS is a folder with the programs tradewind and tradewind-agent, statically linked,
$TRADEWIND_AGENTS is a folder with the agents of bought machines, ARCH/tradewind-agent, and
$TRADEWIND_PLATFORM is the platform in the wheel's name, such as manylinux_2_17_x86_64. Without them the wheel has only
the client, for every platform."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the programs that exist to the wheel's scripts."""
        folder = os.environ.get("TRADEWIND_PROGRAMS")
        if not folder or self.target_name != "wheel" or version == "editable":
            return
        for name in ("tradewind", "tradewind-agent"):
            program = Path(folder, name).resolve(strict=True)
            build_data["shared_scripts"][str(program)] = name
        agents = str(Path(os.environ["TRADEWIND_AGENTS"]).resolve(strict=True))
        build_data["shared_data"][agents] = "lib/tradewind/agent"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["TRADEWIND_PLATFORM"]
