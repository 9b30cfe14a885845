"""Reads the proxy's configuration as nginx would, as far as it is used: what is let in, and with which headers.

It knows the directives that decide that (``map``, ``if`` on emptiness, ``return``, exact locations,
``proxy_set_header``, ``proxy_pass``) and fails on an ``if`` that it does not know. It is a reading, not nginx.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TOKEN = re.compile(r"""\s+|\#[^\n]*|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([{};])|([^\s{};"']+)""")
_VARIABLE = re.compile(r"\$(\w+)")


class Directive(NamedTuple):
    """A directive with what stands in its braces, if it has any."""

    words: tuple[str, ...]
    block: tuple["Directive", ...] | None

    @property
    def name(self) -> str:
        """Its first word."""
        return self.words[0]

    def all(self, name: str) -> list["Directive"]:
        """The directives of its block with this name."""
        return [each for each in self.block or () if each.name == name]

    def within(self) -> Iterator["Directive"]:
        """All directives below it, at any depth."""
        for each in self.block or ():
            yield each
            yield from each.within()


class Outcome(NamedTuple):
    """What becomes of a request: a status of the proxy's own, or the headers with which it is passed on."""

    status: int | None
    headers: Mapping[str, str]


def parse(text: str) -> Directive:
    """The configuration as one directive without words around everything."""
    tokens = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found, f"not understood: {text[position : position + 40]!r}"
        position = found.end()
        quoted, other, mark, word = found.groups()
        if mark is not None:
            tokens.append((mark, True))
        elif any(part is not None for part in (quoted, other, word)):
            tokens.append((next(part for part in (quoted, other, word) if part is not None), False))
    block, rest = _block(tokens)
    assert not rest, "a brace too many"
    return Directive(("",), block)


def _block(tokens: list[tuple[str, bool]]) -> tuple[tuple[Directive, ...], list[tuple[str, bool]]]:
    directives: list[Directive] = []
    words: list[str] = []
    while tokens:
        (text, mark), tokens = tokens[0], tokens[1:]
        if not mark:
            words.append(text)
        elif text == ";":
            directives.append(Directive(tuple(words), None))
            words = []
        elif text == "{":
            inner, tokens = _block(tokens)
            directives.append(Directive(tuple(words), inner))
            words = []
        else:
            break
    assert not words, f"not ended: {words}"
    return tuple(directives), tokens


class Nginx:
    """The proxy with this configuration.

    Args:
        included: the text of each file that a map includes, by its path.
    """

    def __init__(self, text: str, included: Mapping[str, str]) -> None:
        (self.http,) = parse(text).all("http")
        self._maps = {each.words[2].removeprefix("$"): each for each in self.http.all("map")}
        self._included = included

    def request(self, port: int, method: str, uri: str, headers: Mapping[str, str]) -> Outcome:
        """What becomes of it."""
        given = {f"http_{name.lower().replace('-', '_')}": value for name, value in headers.items()}
        variables = {"request_method": method, "request_uri": uri, **given}
        (server,) = (each for each in self.http.all("server") if each.all("listen")[0].words[1] == str(port))
        for condition in server.all("if"):
            left, sign, right, end = condition.words[1:]
            assert (sign, right, end) == ("=", "", ")"), f"an if that is not known: {condition.words}"
            if self._value(left.removeprefix("("), variables) == "":
                return Outcome(int(condition.all("return")[0].words[1]), {})
        path = uri.partition("?")[0]
        exact = [each for each in server.all("location") if each.words[1:] == ("=", path)]
        location = (exact or [each for each in server.all("location") if each.words[1:] == ("/",)])[0]
        if location.all("return"):
            return Outcome(int(location.all("return")[0].words[1]), {})
        assert location.all("proxy_pass")
        passed = {name.lower(): value for name, value in headers.items()}
        for directive in self.http.all("proxy_set_header"):
            passed[directive.words[1].lower()] = self._value(directive.words[2], variables)
        return Outcome(None, {name: value for name, value in passed.items() if value})

    def _value(self, text: str, variables: dict[str, str]) -> str:
        return _VARIABLE.sub(lambda found: self._variable(found[1], variables), text)

    def _variable(self, name: str, variables: dict[str, str]) -> str:
        if name not in self._maps:
            return variables.get(name, "")
        declared = self._maps[name]
        source = self._value(declared.words[1], variables)
        entries = [entry.words for entry in self._entries(declared)]
        exact = [words[1] for words in entries if words[0] != "default" and words[0].lower() == source.lower()]
        if exact:
            return self._value(exact[0], variables)
        for pattern, value in entries:
            if pattern.startswith("~") and (found := re.search(pattern[1:].replace("(?<", "(?P<"), source)):
                return self._value(value, {**variables, **found.groupdict()})
        return self._value(next((words[1] for words in entries if words[0] == "default"), ""), variables)

    def _entries(self, declared: Directive) -> Iterator[Directive]:
        for entry in declared.block or ():
            if entry.name == "include":
                yield from parse(self._included[entry.words[1]]).block or ()
            else:
                yield entry
