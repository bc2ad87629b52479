"""The caller's side: requests, the inbox of replies, large bodies, instances, fan-out."""
