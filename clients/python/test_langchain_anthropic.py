"""LangChain's standard suite on `langchain-anthropic`: `/v1/messages`."""

import os

from langchain_anthropic import ChatAnthropic
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestChat(ChatModelIntegrationTests):
    chat_model_class = ChatAnthropic
    chat_model_params = {
        "base_url": os.environ["AKUNU_URL"],
        "api_key": "none",
        "model": "chat",
        "temperature": 0,
        "max_tokens": 256,
        "max_retries": 0,
        # A small model repeats itself, and a text without end is no JSON; this API has no field of its own for it.
        "model_kwargs": {"extra_body": {"frequency_penalty": 0.5}},
    }
    supports_anthropic_inputs = False
