"""One client's session as bytes in and bytes out (sans-IO): what is relayed, translated or answered here."""
