"""Who administers: the organisation's users, their memberships of projects, invites, admin keys."""
