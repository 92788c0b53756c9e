"""LangChain's standard suites on `langchain-ollama`: `/api/chat`, `/api/embed`."""

import os

from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_tests.integration_tests import ChatModelIntegrationTests, EmbeddingsIntegrationTests

URL = os.environ["AKUNU_URL"]


class TestChat(ChatModelIntegrationTests):
    chat_model_class = ChatOllama
    chat_model_params = {"base_url": URL, "model": "chat", "temperature": 0, "num_predict": 256, "repeat_penalty": 1.1}
    supports_json_mode = True
    # Ollama's API has none.
    has_tool_choice = False


class TestEmbeddings(EmbeddingsIntegrationTests):
    embeddings_class = OllamaEmbeddings
    embedding_model_params = {"base_url": URL, "model": "embed"}
