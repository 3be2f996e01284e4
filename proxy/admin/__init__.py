"""The admin port: metrics, health, the status page and the HTTP API; read only, by `epochgate status` too."""
