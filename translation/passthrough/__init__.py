"""Groups that pass through: what their requests and the broker's answers tell, and what follows from it."""
