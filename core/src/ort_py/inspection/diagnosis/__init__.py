"""Diagnosis of an installation: each provider is tried in a process of its own, and facts about the machine are listed.

In reading order: `examine` is what the command calls; `child` is what runs in the other process, one provider each;
`files` compares installed files with their record; `machine` reads the facts; `report` holds what was found. The
process that asks imports no plug-in: whatever one does, it does to its own process.
"""
