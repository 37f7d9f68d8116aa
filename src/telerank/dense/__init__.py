"""The dense first stage: encoding to disk, exact search over memory-mapped vectors, approximate search."""
