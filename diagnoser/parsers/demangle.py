"""C++ symbol names of the Itanium ABI, read back into words.

Only what undefined symbols of Python extensions need: nested names, templates, functions and their parameter
types. Expressions, lambdas and vendor extensions are not read; whatever is not read gives None.
"""

from typing import NamedTuple

from diagnoser.facts.lazy import lazy

MAX_SYMBOL = 2048
MAX_TEXT = 4096
MAX_DEPTH = 48


class Symbol(NamedTuple):
    """name: with namespaces, without parameters. parameters: None for data. text: as c++filt prints it."""

    name: str
    parameters: tuple[str, ...] | None
    text: str


class _NotReadError(Exception):
    pass


class _Type(NamedTuple):
    """A type's text on both sides of a declared name: "int (" and ")(char)" for a function."""

    left: str
    right: str = ""

    def __str__(self) -> str:
        if self.left.endswith("(") and self.right:
            return self.left[:-1] + self.right[1:]
        return self.left + self.right


_BUILTIN = {
    **{"v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char"},
    **{"s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long"},
    **{"m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128"},
    **{"o": "unsigned __int128", "f": "float", "d": "double", "e": "long double", "g": "__float128"},
    **{"z": "...", "Dn": "decltype(nullptr)", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t"},
    **{"Da": "auto", "Dh": "half"},
}
_STD = {
    **{"St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string"},
    **{"Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream"},
}
_SPECIAL = {
    **{"TV": "vtable for ", "TT": "VTT for ", "TI": "typeinfo for ", "TS": "typeinfo name for "},
    **{"GV": "guard variable for "},
}
_OPERATOR = {
    **{"nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "pl": "+", "mi": "-", "ml": "*"},
    **{"dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=", "mI": "-=", "eq": "=="},
    **{"ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "nt": "!", "aa": "&&", "oo": "||"},
    **{"pp": "++", "mm": "--", "cm": ",", "pt": "->", "cl": "()", "ix": "[]", "ls": "<<", "rs": ">>"},
    **{"mL": "*=", "dV": "/=", "co": "~", "de": "*", "ad": "&", "ng": "-", "ss": "<=>"},
}
_SUFFIX = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul"}
_QUALIFIER = {"K": " const", "V": " volatile", "r": " restrict"}
_POINTER = {"P": "*", "R": "&", "O": "&&"}
_LENGTH = lazy(r"\d{1,4}")
_SEQUENCE = lazy(r"[0-9A-Z]{0,4}_")
_NUMBER = lazy(r"n?\d{1,20}")


class _Reader:
    def __init__(self, mangled: str) -> None:
        self.mangled = mangled
        self.at = 0
        self.depth = 0
        self.known: list[_Type] = []
        self.arguments: list[_Type] = []

    def symbol(self) -> Symbol:
        for code, words in _SPECIAL.items():
            if self.take(code):
                name = str(self.type())
                return Symbol(name, None, words + name)
        name, qualifiers, returns = self.name(top=True)
        if self.end():
            return Symbol(name, None, name)
        if returns:
            self.type()
        parameters = self.parameters()
        return Symbol(name, parameters, f"{name}({', '.join(parameters)}){qualifiers}")

    def parameters(self) -> tuple[str, ...]:
        types = []
        while not self.end() and self.peek() not in "E.@":
            types.append(str(self.type()))
        return () if types == ["void"] else tuple(types)

    def name(self, *, top: bool = False) -> tuple[str, str, bool]:
        """A name, a method's qualifiers, and whether a return type stands before its parameters."""
        if self.take("N"):
            return self.nested(top=top)
        if self.peek() == "S" and self.mangled[self.at : self.at + 2] != "St":
            scope = self.substitution()
        else:
            scope = _Type(("std::" if self.take("St") else "") + self.unqualified(""))
            if self.peek() == "I":
                self.known.append(scope)
        if self.peek() != "I":
            return str(scope), "", False
        return f"{scope}{self.template(top=top)}", "", True

    def nested(self, *, top: bool) -> tuple[str, str, bool]:
        qualifiers = ""
        while self.peek() in _QUALIFIER:
            qualifiers = _QUALIFIER[self.next()] + qualifiers
        if self.peek() in "RO" and not self.end():
            qualifiers += " " + _POINTER[self.next()]
        scope, last, templated, special = "", "", False, False
        while not self.take("E"):
            if self.peek() == "I":
                scope += self.template(top=top)
                templated = True
            elif self.peek() == "S":
                scope = str(self.substitution())
                last, templated = scope.rpartition("::")[2], False
                continue
            else:
                special = self.peek() in "CD"
                last = self.unqualified(last)
                scope, templated = f"{scope}::{last}" if scope else last, False
            if self.peek() != "E":
                self.known.append(_Type(self.bounded(scope)))
        if not top:
            self.known.append(_Type(self.bounded(scope)))
        return scope, qualifiers, templated and not special

    def unqualified(self, scope: str) -> str:
        code = self.mangled[self.at : self.at + 2]
        if code in ("C1", "C2", "C3", "D0", "D1", "D2"):
            self.at += 2
            return ("~" if code[0] == "D" else "") + scope
        if code in _OPERATOR:
            self.at += 2
            return "operator" + _OPERATOR[code]
        if self.take("L") or self.peek().isdecimal():
            name = self.source()
            while self.take("B"):
                name += f"[abi:{self.source()}]"
            return name
        raise _NotReadError

    def source(self) -> str:
        length = _LENGTH.match(self.mangled, self.at)
        if length is None:
            raise _NotReadError
        start = length.end()
        self.at = start + int(length[0])
        name = self.mangled[start : self.at]
        if self.at > len(self.mangled) or not name:
            raise _NotReadError
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N_") else name

    def substitution(self) -> _Type:
        code = self.mangled[self.at : self.at + 2]
        if code in _STD:
            self.at += 2
            return _Type(_STD[code])
        self.expect("S")
        return self.numbered(self.known)

    def numbered(self, table: list[_Type]) -> _Type:
        sequence = _SEQUENCE.match(self.mangled, self.at)
        if sequence is None:
            raise _NotReadError
        self.at = sequence.end()
        digits = sequence[0][:-1]
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(table):
            raise _NotReadError
        return table[index]

    def template(self, *, top: bool = False) -> str:
        self.expect("I")
        arguments = self.pack()
        if top:
            self.arguments = arguments
        inner = ", ".join(map(str, arguments))
        return self.bounded(f"<{inner} >" if inner.endswith(">") else f"<{inner}>")

    def pack(self) -> list[_Type]:
        arguments: list[_Type] = []
        while not self.take("E"):
            if self.take("J"):
                arguments += self.pack()
            elif self.take("L"):
                arguments.append(self.literal())
            else:
                arguments.append(self.type())
        return arguments

    def literal(self) -> _Type:
        kind = str(self.type())
        number = _NUMBER.match(self.mangled, self.at)
        if number is None:
            raise _NotReadError
        self.at = number.end()
        self.expect("E")
        value = number[0].replace("n", "-")
        if kind == "bool":
            return _Type("true" if value == "1" else "false")
        return _Type(value + _SUFFIX[kind] if kind in _SUFFIX else f"({kind}){value}")

    def type(self) -> _Type:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _NotReadError
        read = self.plain_type()
        self.bounded(str(read))
        self.depth -= 1
        return read

    def plain_type(self) -> _Type:
        for length in (2, 1):
            if (code := self.mangled[self.at : self.at + length]) in _BUILTIN:
                self.at += length
                return _Type(_BUILTIN[code])
        first = self.peek()
        if first in _POINTER:
            self.at += 1
            inner = self.type()
            return self.note(_Type(inner.left + _POINTER[first], inner.right))
        if first in _QUALIFIER:
            words = ""
            while self.peek() in _QUALIFIER:
                words = _QUALIFIER[self.next()] + words
            inner = self.type()
            return self.note(_Type(inner.left + words, inner.right))
        if self.take("F"):
            self.take("Y")
            returned, parameters = self.type(), self.parameters()
            self.expect("E")
            return self.note(_Type(f"{returned} (", f")({', '.join(parameters)})"))
        if self.take("Dp"):
            return self.note(self.type())
        if self.take("T"):
            return self.note(self.numbered(self.arguments))
        if first == "S" and self.mangled[self.at : self.at + 2] != "St":
            known = self.substitution()
            return self.note(_Type(f"{known}{self.template()}")) if self.peek() == "I" else known
        nested = first == "N"
        name = _Type(self.name()[0])
        return name if nested else self.note(name)

    def note(self, read: _Type) -> _Type:
        self.known.append(read)
        return read

    def bounded(self, text: str) -> str:
        # Substitutions may double a name again and again.
        if len(text) > MAX_TEXT:
            raise _NotReadError
        return text

    def end(self) -> bool:
        return self.at >= len(self.mangled)

    def peek(self) -> str:
        if self.end():
            return "$"
        return self.mangled[self.at]

    def next(self) -> str:
        self.at += 1
        return self.mangled[self.at - 1]

    def take(self, code: str) -> bool:
        if not self.mangled.startswith(code, self.at):
            return False
        self.at += len(code)
        return True

    def expect(self, code: str) -> None:
        if not self.take(code):
            raise _NotReadError


def demangle(symbol: str) -> Symbol | None:
    """The words of a mangled name; None for a C name and for what is not understood.

    >>> demangle("_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb").text
    'c10::cuda::c10_cuda_check_implementation(int, char const*, char const*, unsigned int, bool)'
    """
    if not symbol.startswith("_Z") or len(symbol) > MAX_SYMBOL:
        return None
    reader = _Reader(symbol[2:])
    try:
        read = reader.symbol()
    except _NotReadError:
        return None
    return read if reader.end() or reader.peek() in ".@" else None
