"""What the client's and the command line's tests share: plans on a virtual clock, and connections that break on purpose."""
