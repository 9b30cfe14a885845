"""Encryption of what users say, under a key for each user.

A wrapper around the three store contracts, below the policy ``encrypt``: the private fields of records and messages are
encrypted with AES-256-GCM, and the terms of a user's search entries are keyed digests. The user's data key is stored
wrapped by a key of the tenant, which derives from a master key of the settings; the master key is in no store. See
``docs/decisions/0041-encryption.md``.
"""
