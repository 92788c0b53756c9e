"""LangChain's standard suites on `langchain-openai`: `/v1/chat/completions`, `/v1/responses` and `/v1/embeddings`."""

import os

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_tests.integration_tests import ChatModelIntegrationTests, EmbeddingsIntegrationTests

BASE = {"base_url": os.environ["AKUNU_URL"] + "/v1", "api_key": "none"}


class TestChat(ChatModelIntegrationTests):
    chat_model_class = ChatOpenAI
    chat_model_params = BASE | {
        "model": "chat",
        "temperature": 0,
        # A small model repeats itself, and a text without end is no JSON.
        "frequency_penalty": 0.5,
        "max_tokens": 256,
        "max_retries": 0,
        "stream_usage": True,
    }
    supports_json_mode = True


class TestResponses(TestChat):
    chat_model_params = BASE | {
        "model": "chat",
        "temperature": 0,
        "max_tokens": 256,
        "max_retries": 0,
        "use_responses_api": True,
        # As above; this API has no field of its own for it.
        "extra_body": {"frequency_penalty": 0.5},
    }


class TestEmbeddings(EmbeddingsIntegrationTests):
    embeddings_class = OpenAIEmbeddings
    # Without: texts would go as tokens of OpenAI's tokenizer.
    embedding_model_params = BASE | {"model": "embed", "check_embedding_ctx_length": False}
