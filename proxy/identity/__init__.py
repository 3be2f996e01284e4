"""Who a client with a certificate is, and how the proxy speaks for it: by delegation tokens or mapped credentials."""
