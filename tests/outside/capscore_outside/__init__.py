"""One of everything that another package can add to capscore."""
