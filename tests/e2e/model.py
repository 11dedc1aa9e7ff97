"""A model server on loopback, in a process of its own."""

import subprocess
import sys
import urllib.request


class Model:
    """The model that a real agent talks to."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "antiphon.testing.model_server"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()

    def release(self, gate: str) -> None:
        """Let the answer that is held there go on."""
        request = urllib.request.Request(f"{self.url}/control/release/{gate}", method="POST")
        urllib.request.urlopen(request, timeout=5).close()

    def heard(self) -> str:
        """Everything that it was ever asked."""
        with urllib.request.urlopen(f"{self.url}/control/exchanges", timeout=5) as answer:
            return answer.read().decode()

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.communicate()
