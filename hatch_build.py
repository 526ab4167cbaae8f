"""Compiles the rules when the package is built or installed for development, so that the first call is fast."""

import compileall
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface[Any]):
    """Puts `diagnoser/compiled` into wheels, and into the checkout for an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        try:
            from diagnoser.inference import shipped
            from diagnoser.rulebook import book
            from diagnoser.version import __version__
        except ImportError as error:
            # Without the libraries at hand the package still works: rules are compiled at the first call.
            self.app.display_warning(f"rules are not compiled ahead: {error}")
            return
        package = Path(self.root) / "diagnoser"
        if version == "editable":
            shipped.write(package / "compiled", book.stamp())
            # Where Python is told to write no bytecode, every call would compile every module.
            compileall.compile_dir(str(package), quiet=2)
            return
        self._folder = tempfile.TemporaryDirectory()
        shipped.write(Path(self._folder.name), __version__)
        for table in Path(self._folder.name).iterdir():
            build_data["force_include"][str(table)] = f"diagnoser/compiled/{table.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
