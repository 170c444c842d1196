"""The same calls over HTTP, for programs and for a browser, on loopback by default."""
