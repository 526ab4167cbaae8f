"""Diagnoses for browsers, programs and agents: the web page, its REST API, and the MCP server."""
