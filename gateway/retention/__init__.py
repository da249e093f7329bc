"""How long things are kept, and what happens to a tenant's data when it is asked for or has to go."""
