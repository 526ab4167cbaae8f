"""Where text comes from: files, folders, archives and standard input become named streams of clean lines."""

from diagnoser.sources.base import Chunk, Limits, Note, RecordStart, SourceError, Transform, Unreadable
from diagnoser.sources.clean import clean, escaped, label, printable
from diagnoser.sources.lines import record_start
from diagnoser.sources.opening import open_sources
from diagnoser.sources.source import Source

__all__ = [
    "Chunk",
    "Limits",
    "Note",
    "RecordStart",
    "Source",
    "SourceError",
    "Transform",
    "Unreadable",
    "clean",
    "escaped",
    "label",
    "open_sources",
    "printable",
    "record_start",
]
