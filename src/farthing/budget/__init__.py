"""Budgets: amounts and units, the ledger, rates of machine time."""
