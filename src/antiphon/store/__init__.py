"""Where sessions are kept: one package an engine, all of them proven by `antiphon.testing.store_contract`."""
