"""What a rule file may hold: messages (text to fact) and causes (facts to judgement)."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from diagnoser.rulebook.words import ACTIONS, Effect, Kind, Mark, Risk, Severity, Status, Strength

Identifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.]*(?:-[a-z0-9.]+)*$", max_length=80)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Wording(_Model):
    """One wording of a message.

    ``text`` is what the software prints, with captures in angle brackets: ``<name>`` runs to the next fixed
    text, ``<name:int|float|word|name|quoted|lower>`` takes one token, ``<...>`` drops what it takes; a literal
    ``<`` is written ``\\<``. ``pattern`` is a regular expression with named groups for what a template cannot
    say; it then needs ``literal``. ``since`` and ``until`` are the outermost releases in which it was seen.
    """

    text: str | None = Field(default=None, min_length=8)
    pattern: str | None = None
    literal: str | None = None
    since: str | None = None
    until: str | None = None
    level: str | None = None

    @model_validator(mode="after")
    def _one_form(self) -> "Wording":
        if (self.text is None) == (self.pattern is None):
            raise ValueError("a wording has either `text` or `pattern`")
        if self.pattern is not None and self.literal is None:
            raise ValueError(
                "a wording with `pattern` needs `literal`, a fixed text of 8 or more letters in it"
            )
        return self

    @field_validator("since", "until", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int | float) else value


class Message(_Model):
    """Something software says, in all its wordings. It yields `facts.engine.Message` and what ``gives`` says.

    engine: whose versions ``since`` and ``until`` count; None: no engine's.
    gives: facts it states besides itself; values may hold captures ("<backend>").
    marks: what the line says about the life of the server (a launch opens, makes progress, is ready, exits).
    """

    id: Identifier
    engine: str | None = None
    level: str | None = None
    wordings: Annotated[list[Wording], Field(min_length=1)]
    gives: list[dict[str, Any]] = []
    marks: Mark | None = None
    about: str | None = None
    source: list[str] = []

    @field_validator("gives", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value


class Signs(_Model):
    """A condition: all of ``all``, at least one of ``any`` where given, and none of ``none``."""

    all: list[dict[str, Any]] = []
    any: list[dict[str, Any]] = []
    none: list[dict[str, Any]] = []

    @model_validator(mode="after")
    def _not_empty(self) -> "Signs":
        if not self.all and not self.any:
            raise ValueError("`when` needs at least one sign under `all` or `any`")
        return self


class Fix(_Model):
    """One way to undo a cause: exactly one action, with its risk and its undo.

    Actions: set_flag / unset_flag (a server option), set_env / unset_env (an environment variable),
    install (a pip requirement), run (a host command), do (a step that no command expresses). restart: whether the
    server must be started again; by default all but run and do need it.
    """

    set_flag: str | None = None
    unset_flag: str | None = None
    set_env: str | None = None
    unset_env: str | None = None
    install: str | None = None
    run: str | None = None
    do: str | None = None
    value: str | None = None
    risk: Risk = "low"
    restart: bool | None = None
    undo: str | None = None
    note: str | None = None
    when: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> "Fix":
        if sum(getattr(self, name) is not None for name in ACTIONS) != 1:
            raise ValueError(f"a fix has exactly one of {', '.join(ACTIONS)}")
        return self

    @field_validator("value", mode="before")
    @classmethod
    def _value_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int | float) else value


class Gain(_Model):
    """What the fix brought where it was measured. ``change`` is relative ("+10.4%") or a ratio ("4x")."""

    metric: str
    change: str
    where: str
    source: str


class Ask(_Model):
    """The question that would decide this cause, and the command that answers it."""

    question: str
    command: str


class RaisedSeverity(_Model):
    """The severity this rule has when ``when`` holds as well."""

    when: dict[str, Any]
    severity: Severity


class RuleTest(_Model):
    """An example that is also the rule's test.

    log: lines as software prints them; lines that begin with ``>!`` must be among the evidence.
    gpu: a GPU model that is known besides the log (a name such as "rtx-pro-6000" or "h200").
    facts: further facts, as {fact: kind, field: value}.
    """

    name: str
    log: str = ""
    gpu: str | None = None
    facts: list[dict[str, Any]] = []
    fires: bool


class Cause(_Model):
    """One rule, read like a card. Kind tells whether it is a cause, a symptom or a bystander."""

    id: Identifier
    title: str
    kind: Kind = "cause"
    status: Status = "stable"
    category: str | None = None
    effect: Effect
    severity: Severity
    severity_if: list[RaisedSeverity] = []
    applies: dict[str, Any] = {}
    when: Signs
    supports: list[dict[str, Any]] = []
    weakens: list[dict[str, Any]] = []
    strength: Strength = "medium"
    explains: list[str] = []
    excludes: list[str] = []
    why: str = ""
    gain: Gain | None = None
    fixes: list[Fix] = []
    confirm: dict[str, Any] | None = None
    ask: list[Ask] = []
    references: list[str] = []
    messages: list[Message] = []
    tests: list[RuleTest] = []

    @field_validator("ask", mode="before")
    @classmethod
    def _ask_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value


class CauseFile(Cause):
    """A file with one cause; the schema that editors use to complete it."""


class MessagesFile(_Model):
    """A ``messages.yaml``: a list of messages under one default engine."""

    engine: str | None = None
    messages: list[Message]
