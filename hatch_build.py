"""What is made when the package is built or installed for development: compiled rules, so that the first call is fast,
the manual page and completions for shells."""

import compileall
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface[Any]):
    """Puts `diagnoser/compiled` and `share` into wheels; for an editable install compiles in the checkout."""

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
        self._folder = tempfile.TemporaryDirectory()
        try:
            self._share(Path(self._folder.name, "share"), build_data)
        except ImportError as error:
            self.app.display_warning(f"neither manual page nor completions are made: {error}")
        if version == "editable":
            shipped.write(package / "compiled", book.stamp())
            # Where Python is told to write no bytecode, every call would compile every module.
            compileall.compile_dir(str(package), quiet=2)
            return
        tables = Path(self._folder.name, "compiled")
        tables.mkdir()
        shipped.write(tables, __version__)
        for table in tables.iterdir():
            build_data["force_include"][str(table)] = f"diagnoser/compiled/{table.name}"

    def _share(self, folder: Path, build_data: dict[str, Any]) -> None:
        """The manual page and the completions, where the shells and man look for them."""
        from diagnoser.cli.manual.grammar import grammar
        from diagnoser.cli.manual.page import as_man
        from diagnoser.cli.manual.shells import completions

        main = grammar()
        files = {
            "man/man1/diagnose.1": as_man(main),
            "bash-completion/completions/diagnose": completions(main, "bash"),
            "zsh/site-functions/_diagnose": completions(main, "zsh"),
            "fish/vendor_completions.d/diagnose.fish": completions(main, "fish"),
        }
        for name, text in files.items():
            target = folder / name
            target.parent.mkdir(parents=True)
            target.write_text(text, "utf-8")
            build_data["shared_data"][str(target)] = f"share/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
