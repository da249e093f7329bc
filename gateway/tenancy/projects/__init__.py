"""Projects (tenants) as the admin API lists them."""
