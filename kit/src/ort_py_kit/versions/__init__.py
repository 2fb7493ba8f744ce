"""Cases of single operators at every version of their schemas: what the version checks of the kit run.

ONNX's backend suite has each operator at one version, mostly its newest. `history` knows which versions exist, `draft`
holds a case while it is rewritten, `rewriting` writes it for another version of its schema, `changes` says where a
version changed an operator's meaning and how the same computation was written before; `drawn` and `drawn_ml` have
operators that the suite lacks, and `cases` puts everything together. It does not depend on providers.
"""
