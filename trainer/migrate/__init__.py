"""Migration: a checkpoint carried over to other features, tables or tasks, as the beginning of a new lineage.

plan   what changes, in words, and what is refused (pure)
carry  the old state at its places in the new one
run    a new directory beside the old one: ledger, tensors, manifest, one rename
"""
