"""What the commands do, a module for each kind of thing; each is imported when one of its commands runs."""
