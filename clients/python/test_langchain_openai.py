"""LangChain's standard suites on `langchain-openai`: `/v1/chat/completions`, `/v1/responses` and `/v1/embeddings`."""

import os

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_tests.integration_tests import ChatModelIntegrationTests, EmbeddingsIntegrationTests

BASE = {"base_url": os.environ["AKUNU_URL"] + "/v1", "api_key": "none"}


class TestChat(ChatModelIntegrationTests):
    chat_model_class = ChatOpenAI
    # SmolLM2 talks on; what it says is not asked here.
    chat_model_params = BASE | {"model": "chat", "temperature": 0, "max_tokens": 96, "max_retries": 0, "timeout": 100}
    supports_json_mode = True


class TestResponses(TestChat):
    chat_model_params = TestChat.chat_model_params | {"use_responses_api": True}


class TestEmbeddings(EmbeddingsIntegrationTests):
    embeddings_class = OpenAIEmbeddings
    # Without: texts would go as tokens of OpenAI's tokenizer.
    embedding_model_params = BASE | {"model": "embed", "check_embedding_ctx_length": False}
