"""Protobuf: how a message of a registered schema is read. Needs protobuf.

Layout after the frame: the path to the message's type in its file, as zigzag varints: their number, then one index a
nesting level; the single byte 0 stands for the first type.

Owns what Protobuf's types and presence mean. A field that tracks presence (`optional`, a message, a member of a oneof)
and is unset is missing; a plain field never is: unset it has its default, 0 or "", as Protobuf itself says. A repeated
field is never missing either. Enums are their names.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from streams.errors import ConfigError, PoisonError, Reason
from streams.events.formats.framed import NO_OBJECT
from streams.events.formats.schemas import Registered

_DEEPEST: Final = 32
_WELL_KNOWN: Final = "google/protobuf/"
_Getter = Callable[[Any], Any]
_Type = Any
"""A Descriptor, of which the stubs have two."""


class ProtobufPlan:
    """Reads some fields of messages of one file of types."""

    def __init__(self, registered: Registered, names: Sequence[str]) -> None:
        """Raises PoisonError if it is no Protobuf schema, ConfigError if it cannot be read at all."""
        if registered.kind != "PROTOBUF":
            raise PoisonError(Reason.UNKNOWN_SCHEMA, f"it is of kind {registered.kind}, but [format] says protobuf")
        self._names = names
        pool = descriptor_pool.DescriptorPool()
        try:
            files = [_file(part.text, part.name) for part in registered.parts]
            file = _file(registered.text, "recd/event.proto")
            given = {one.name for one in files}
            for name in _imported([*files, file]) - given:
                _add_well_known(pool, name, given)
            for one in [*files, file]:
                pool.Add(one)
            self._file = pool.FindFileByName(file.name)
        except (TypeError, KeyError, DecodeError, binascii.Error, ValueError) as error:
            raise ConfigError(
                f"a Protobuf schema in the registry cannot be read: {error}; does the registry give descriptors "
                "(GET /schemas/ids/N?format=serialized)?"
            ) from error
        self._types: dict[bytes, type[Message] | PoisonError] = {}
        self._getters: dict[tuple[type[Message], str], _Getter] = {}

    def parse(self, body: bytes) -> Message:
        kind, start = self._type(body)
        try:
            return kind.FromString(body[start:])
        except (DecodeError, RecursionError) as error:
            raise PoisonError(Reason.BROKEN_MESSAGE, f"it is not of its schema: {str(error)[:200]}") from None

    def column(self, messages: Sequence[Message], name: str) -> list[Any]:
        kinds = set(map(type, messages))
        if len(kinds) == 1:
            return list(map(self._getter(kinds.pop(), name), messages))
        return [self._getter(type(message), name)(message) for message in messages]

    def _type(self, body: bytes) -> tuple[type[Message], int]:
        """The class of a message, and where its bytes begin."""
        path, start = _path(body)
        known = self._types.get(path)
        if known is None:
            known = self._types[path] = self._find(path)
        if isinstance(known, PoisonError):
            raise known
        return known, start

    def _find(self, path: bytes) -> type[Message] | PoisonError:
        indexes = _indexes(path)
        kinds: list[_Type] = list(self._file.message_types_by_name.values())
        found: _Type | None = None
        for index in indexes:
            if not 0 <= index < len(kinds):
                return PoisonError(Reason.UNKNOWN_SCHEMA, f"its schema has no type at {indexes}")
            found = kinds[index]
            kinds = list(found.nested_types)
        assert found is not None, "a path has one index at least"
        return message_factory.GetMessageClass(found)

    def _getter(self, kind: type[Message], name: str) -> _Getter:
        getter = self._getters.get((kind, name))
        if getter is None:
            getter = self._getters[kind, name] = _getter(kind.DESCRIPTOR, name.split("."))
        return getter


def _getter(kind: _Type, path: Sequence[str]) -> _Getter:
    """Reads a field of messages of this type."""
    present: list[tuple[_Getter | None, str]] = []
    field: FieldDescriptor | None = None
    for depth, part in enumerate(path):
        if depth and (field is None or field.message_type is None or _repeated(field)):
            return lambda _: NO_OBJECT
        kind = field.message_type if field is not None else kind
        field = kind.fields_by_name.get(part)
        if field is None:
            return lambda _: None
        if field.has_presence:
            present.append((attrgetter(".".join(path[:depth])) if depth else None, part))
    assert field is not None, "a path has one part at least"
    return _present(_value(field, ".".join(path)), present)


def _present(value: _Getter, present: Sequence[tuple[_Getter | None, str]]) -> _Getter:
    """The value where all of these are set, else None."""
    if not present:
        return value
    if len(present) == 1 and present[0][0] is None:
        name = present[0][1]
        return lambda message: value(message) if message.HasField(name) else None

    def get(message: Any) -> Any:  # noqa: ANN401  (a message may hold any value)
        for parent, name in present:
            if not (message if parent is None else parent(message)).HasField(name):
                return None
        return value(message)

    return get


def _value(field: FieldDescriptor, path: str) -> _Getter:
    get = attrgetter(path)
    names = _enum_names(field)
    if _repeated(field):
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return lambda _: NO_OBJECT
        if names is not None:
            return lambda message: [names.get(number, number) for number in get(message)]
        return lambda message: list(get(message))
    if names is not None:
        return lambda message: names.get(get(message), get(message))
    return get


def _enum_names(field: FieldDescriptor) -> dict[int, str] | None:
    if field.enum_type is None:
        return None
    return {value.number: value.name for value in reversed(field.enum_type.values)}


def _repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _path(body: bytes) -> tuple[bytes, int]:
    """The bytes that name the type, and how many they are."""
    if body[:1] == b"\0":
        return b"\0", 1
    count, at = _varint(body, 0)
    if not 0 < count <= _DEEPEST:
        raise PoisonError(Reason.BROKEN_MESSAGE, "no path to a type follows the number of its schema")
    for _ in range(count):
        _, at = _varint(body, at)
    return body[:at], at


def _indexes(path: bytes) -> list[int]:
    if path == b"\0":
        return [0]
    count, at = _varint(path, 0)
    found = []
    for _ in range(count):
        index, at = _varint(path, at)
        found.append(index)
    return found


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most five bytes, and where the next one begins."""
    number = 0
    for shift, byte in enumerate(body[at : at + 5]):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + shift + 1
    raise PoisonError(Reason.BROKEN_MESSAGE, "it ends within the path to its type")


def _file(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    # Others import it under the name by which they refer to it, whatever it calls itself.
    file.name = name
    return file


def _imported(files: Sequence[descriptor_pb2.FileDescriptorProto]) -> set[str]:
    return {name for file in files for name in file.dependency}


def _add_well_known(pool: descriptor_pool.DescriptorPool, name: str, given: set[str]) -> None:
    """A file that comes with Protobuf, and what it imports itself; registries need not hold those."""
    if name in given or not name.startswith(_WELL_KNOWN):
        return
    given.add(name)
    module = __import__(f"{name.removesuffix('.proto').replace('/', '.')}_pb2", fromlist=["DESCRIPTOR"])
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    for imported in file.dependency:
        _add_well_known(pool, imported, given)
    pool.Add(file)
