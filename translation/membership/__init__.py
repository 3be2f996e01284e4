"""How a membership begins and ends: MEMBER_ID_REQUIRED, static members, sessions that expire."""
