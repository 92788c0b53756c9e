"""A chat model and embeddings for LangChain: `pip install akunu[langchain]`."""

from __future__ import annotations

import json
from typing import Any, AsyncIterator, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    UsageMetadata,
    convert_to_openai_messages,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field

from . import Model, Piece, Reply, Timings

__all__ = ["AkunuEmbeddings", "ChatAkunu"]


class ChatAkunu(BaseChatModel):
    """A chat model in this process.

    >>> from akunu.langchain import ChatAkunu
    >>> chat = ChatAkunu(model=akunu.Model("model.gguf"), temperature=0)   # doctest: +SKIP
    >>> chat.invoke("Why is the sky blue?")                                # doctest: +SKIP

    It streams, calls tools (`bind_tools`; calls are valid by construction), and gives structured output
    (`with_structured_output`). Options of `Model.chat` that have no field go into `options`, or come with `bind`, such as
    `chat.bind(grammar=…)`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: Model
    temperature: Optional[float] = None
    max_tokens: Optional[int] = None
    seed: Optional[int] = None
    stop: Optional[List[str]] = None
    options: Dict[str, Any] = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "akunu"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model": str(self.model.path), "temperature": self.temperature, "max_tokens": self.max_tokens}

    def _get_ls_params(self, stop: Optional[List[str]] = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_model_name"] = str(kwargs.get("model") or self.model.path or "embedded")
        return params

    def _ask(self, messages: List[BaseMessage], stop: Optional[List[str]], options: Dict[str, Any]) -> Reply:
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        all_options: Dict[str, Any] = {**own, **self.options, "stop": stop or self.stop, **options}
        # What LangChain's tracing passes along.
        all_options.pop("ls_structured_output_format", None)
        return self.model.chat(convert_to_openai_messages(messages), **all_options)

    def _generate(
        self,
        messages: List[BaseMessage],
        stop: Optional[List[str]] = None,
        run_manager: Optional[CallbackManagerForLLMRun] = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._result(self._ask(messages, stop, kwargs).wait())

    async def _agenerate(
        self,
        messages: List[BaseMessage],
        stop: Optional[List[str]] = None,
        run_manager: Optional[AsyncCallbackManagerForLLMRun] = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._result(await self._ask(messages, stop, kwargs))

    def _stream(
        self,
        messages: List[BaseMessage],
        stop: Optional[List[str]] = None,
        run_manager: Optional[CallbackManagerForLLMRun] = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._ask(messages, stop, kwargs)
        for piece in reply:
            chunk = _chunk(piece)
            if chunk is not None:
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        yield self._last(reply)

    async def _astream(
        self,
        messages: List[BaseMessage],
        stop: Optional[List[str]] = None,
        run_manager: Optional[AsyncCallbackManagerForLLMRun] = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self._ask(messages, stop, kwargs)
        async for piece in reply:
            chunk = _chunk(piece)
            if chunk is not None:
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        yield self._last(reply)

    def bind_tools(
        self,
        tools: Sequence[Union[Dict[str, Any], type, Callable[..., Any], BaseTool]],
        *,
        tool_choice: Optional[Union[str, bool, Dict[str, Any]]] = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Lets the model call tools; `tool_choice`: `auto`, `none`, `any`, or the name of one."""
        if tool_choice is True or tool_choice == "any":
            tool_choice = "required"
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs)

    def _metadata(self, reply: Reply) -> Dict[str, Any]:
        return {"finish_reason": reply.finish_reason, "model_name": str(self.model.path or "embedded")}

    def _last(self, reply: Reply) -> ChatGenerationChunk:
        message = AIMessageChunk(
            content="",
            response_metadata=self._metadata(reply),
            usage_metadata=_usage(reply.timings),
            chunk_position="last",
        )
        return ChatGenerationChunk(message=message)

    def _result(self, reply: Reply) -> ChatResult:
        calls: List[ToolCall] = []
        broken: List[InvalidToolCall] = []
        for number, call in enumerate(reply.tool_calls):
            try:
                calls.append(tool_call(name=call.name, args=json.loads(call.arguments), id=_call_id(number)))
            except ValueError as error:
                # A call that the end of the reply cut off.
                broken.append(
                    invalid_tool_call(name=call.name, args=call.arguments, id=_call_id(number), error=str(error))
                )
        message = AIMessage(
            content=reply.text,
            tool_calls=calls,
            invalid_tool_calls=broken,
            additional_kwargs={"reasoning_content": reply.thoughts} if reply.thoughts else {},
            response_metadata=self._metadata(reply),
            usage_metadata=_usage(reply.timings),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


class AkunuEmbeddings(Embeddings):
    """Embeddings in this process.

    query_prefix, document_prefix: what the model wants before texts, such as `query: ` and `passage: `.
    """

    def __init__(self, model: Model, *, query_prefix: str = "", document_prefix: str = "") -> None:
        self.model = model
        self.query_prefix = query_prefix
        self.document_prefix = document_prefix

    def embed_documents(self, texts: List[str]) -> List[List[float]]:
        """Vectors of documents; what is too long loses its end."""
        vectors: List[List[float]] = self.model.embed(texts, prefix=self.document_prefix, truncate=True).tolist()
        return vectors

    def embed_query(self, text: str) -> List[float]:
        """The vector of a query."""
        vector: List[float] = self.model.embed(text, prefix=self.query_prefix, truncate=True).tolist()
        return vector


def _call_id(number: int) -> str:
    return f"call_{number}"


def _usage(timings: Optional[Timings]) -> Optional[UsageMetadata]:
    if timings is None:
        return None
    read, wrote = timings.prompt_tokens, timings.generated_tokens
    return UsageMetadata(
        input_tokens=read,
        output_tokens=wrote,
        total_tokens=read + wrote,
        input_token_details={"cache_read": timings.cached_tokens},
    )


def _chunk(piece: Piece) -> Optional[ChatGenerationChunk]:
    """None where there is nothing to see."""
    index = piece.index or 0
    if piece.kind == "call":
        call = tool_call_chunk(name=piece.text, args="", id=_call_id(index), index=index)
        message = AIMessageChunk(content="", tool_call_chunks=[call])
    elif not piece.text:
        return None
    elif piece.kind == "arguments":
        message = AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(args=piece.text, index=index)])
    elif piece.kind == "thought":
        message = AIMessageChunk(content="", additional_kwargs={"reasoning_content": piece.text})
    else:
        message = AIMessageChunk(content=piece.text)
    return ChatGenerationChunk(message=message)
