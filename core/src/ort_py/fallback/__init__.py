"""What to do when a provider fails: three named fallbacks, each in the session's report, none silent.

Selection and initialisation fallbacks happen in `discovery` while providers are chosen and created; assignment
fallback gives the nodes of a region that does not compile to the next provider; run fallback plans again without a
provider that failed in a run. This room holds the rules; the session applies them.
"""
