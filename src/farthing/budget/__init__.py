"""Budgets: amounts and units, the ledger, the price of machine time."""
