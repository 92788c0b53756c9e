"""What programs that were written for sentence-transformers ask of a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

import numpy as np

from ._model import Model

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import LoadOptions


class SentenceEncoder:
    """An embedding model with the `encode` of sentence-transformers.

    prompts: what is put before texts, by name.
    default_prompt_name: which of them, where `encode` is given none.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str], Model],
        *,
        prompts: Optional[Mapping[str, str]] = None,
        default_prompt_name: Optional[str] = None,
        **options: Unpack[LoadOptions],
    ) -> None:
        self.model = path if isinstance(path, Model) else Model(path, task="embed", **options)
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name

    def encode(
        self,
        sentences: Union[str, Sequence[str]],
        prompt_name: Optional[str] = None,
        prompt: Optional[str] = None,
        batch_size: int = 32,
        show_progress_bar: Optional[bool] = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: Optional[int] = None,
    ) -> Any:
        """Vectors of texts, as sentence-transformers gives them; texts that are too long lose their end.

        The engine sorts texts by length and fills its steps by itself: `batch_size` and `show_progress_bar` do nothing.
        """
        del batch_size, show_progress_bar
        name = prompt_name or self.default_prompt_name
        if prompt is None and name is not None:
            if name not in self.prompts:
                raise ValueError(f"there is no prompt called {name!r}, only {sorted(self.prompts)}")
            prompt = self.prompts[name]
        vectors = self.model.embed(
            sentences, prefix=prompt or "", normalize=normalize_embeddings, truncate=True, dimensions=truncate_dim
        )
        if convert_to_tensor:
            import torch  # type: ignore[import-not-found,unused-ignore] # pyright: ignore

            return torch.from_numpy(vectors)  # pyright: ignore
        return vectors if convert_to_numpy or isinstance(sentences, str) else list(vectors)

    def get_sentence_embedding_dimension(self) -> int:
        """Numbers of a vector."""
        return self.model.width

    @staticmethod
    def similarity(a: Any, b: Any) -> Any:
        """The cosines of all pairs."""
        rows, columns = np.atleast_2d(a), np.atleast_2d(b)
        lengths = np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(columns, axis=1))
        return rows @ columns.T / np.where(lengths == 0, 1, lengths)
