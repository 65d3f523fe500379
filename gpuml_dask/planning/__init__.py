"""How a search is spread over workers, decided from sizes alone."""
