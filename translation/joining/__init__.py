"""Whose JoinGroup this is, when the member's record is not here: adopted, resumed, replaced, or a new client's."""
