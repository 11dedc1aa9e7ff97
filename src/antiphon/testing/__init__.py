"""What others import to prove theirs: contract suites for stores and agents, fakes of every port, a model server."""
