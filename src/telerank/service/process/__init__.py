"""The processes of the service: logs, metrics of requests, taking up changed indexes."""
