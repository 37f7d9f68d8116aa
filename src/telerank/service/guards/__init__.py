"""What stands before the routes: limits of requests, API keys, patience with slow clients."""
