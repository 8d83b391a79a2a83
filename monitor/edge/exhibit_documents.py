"""Exhibits ↔ JSON documents, in the manner of `documents`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.edge.documents import Document, time_from, time_text
from monitor.exhibits import Example, Exhibit, Gone, Link, NewValue


def exhibit_document(exhibit: Exhibit) -> Document:
    """As it is stored and served."""
    return {
        "at": time_text(exhibit.at),
        "links": [_link(link) for link in exhibit.links],
        "came": [_link(link) for link in exhibit.came],
        "went": [
            {"source": g.source, "target": g.target, "weight": g.weight, "at": time_text(g.at)}
            for g in exhibit.went
        ],
        "columns": list(exhibit.columns),
        "examples": [
            {"values": list(e.values), "rows": e.rows, "newest": time_text(e.newest)}
            for e in exhibit.examples
        ],
        "new_values": [{"node": v.node, "at": time_text(v.at)} for v in exhibit.new_values],
        "new_links": [_link(link) for link in exhibit.new_links],
    }


def exhibit_from(document: Mapping[str, Any]) -> Exhibit:
    """Inverse of `exhibit_document`."""
    return Exhibit(
        at=time_from(document["at"]),
        links=tuple(map(_link_from, document["links"])),
        came=tuple(map(_link_from, document["came"])),
        went=tuple(
            Gone(g["source"], g["target"], float(g["weight"]), time_from(g["at"]))
            for g in document["went"]
        ),
        columns=tuple(document["columns"]),
        examples=tuple(
            Example(tuple(e["values"]), e["rows"], time_from(e["newest"]))
            for e in document["examples"]
        ),
        # Not in documents of older releases.
        new_values=tuple(
            NewValue(v["node"], time_from(v["at"])) for v in document.get("new_values", ())
        ),
        new_links=tuple(map(_link_from, document.get("new_links", ()))),
    )


def _link(link: Link) -> Document:
    return {
        "source": link.source,
        "target": link.target,
        "weight": link.weight,
        "since": None if link.since is None else time_text(link.since),
    }


def _link_from(document: Mapping[str, Any]) -> Link:
    since = document["since"]
    return Link(
        document["source"],
        document["target"],
        float(document["weight"]),
        None if since is None else time_from(since),
    )
