"""Everything nvidia-smi prints, one module per form."""

from diagnoser.parsers.base import Parser
from diagnoser.parsers.nvidia_smi import csv, failure, listing, mon, nvlink, query, table, topo, xml

PARSERS: tuple[Parser, ...] = (
    *table.PARSERS,
    *query.PARSERS,
    *xml.PARSERS,
    *csv.PARSERS,
    *topo.PARSERS,
    *nvlink.PARSERS,
    *listing.PARSERS,
    *mon.PARSERS,
    *failure.PARSERS,
)
