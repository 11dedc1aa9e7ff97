"""What tests of the client and the command line share: plans on a virtual clock, connections that break on purpose."""
