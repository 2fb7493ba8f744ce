"""A rewrite rule for ort-py: `softsign` is the rule, `plugin` contributes it."""
