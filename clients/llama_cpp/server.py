#!/usr/bin/env python3
"""Stands in for `llama-server` in llama.cpp's tests: translates its flags to those of `akunu serve`, and its models to ours."""

import os
import sys
import tempfile

# Flags with a value; all others have none.
VALUED = """
--host --port --temp --seed --model --model-url --model-draft --hf-repo --hf-file --models-dir --models-max --models-preset
--cors-origins --batch-size --ubatch-size --threads --n-gpu-layers --pooling --alias --tags --ctx-size --parallel -ctk -ctv -fa
--n-predict --slot-save-path --grp-attn-n --grp-attn-w --lora --spec-type --api-key --spec-draft-n-max --spec-draft-n-min
--reasoning-format --reasoning --chat-template --chat-template-file --mmproj-url --media-path --sleep-idle-seconds --cache-ram
--tools --tools-runtime --mcp-servers-config --mcp-servers-json
""".split()


def parsed(arguments):
    flags, rest = {}, iter(arguments)
    for flag in rest:
        flags[flag] = next(rest) if flag in VALUED else True
    return flags


def model(flags):
    """One of ours that can do what the model of the test is there for."""
    ours = dict(pair.split("=", 1) for pair in os.environ["AKUNU_MODELS"].split("\n"))
    if "--reranking" in flags:
        return ours["rank"]
    if "--embedding" in flags:
        return ours["embed"]
    if "stories260K" not in flags.get("--hf-repo", ""):
        sys.exit(f"not applicable: there is no model here for {flags.get('--hf-repo')}")
    # Conversations need a chat template, tools a context that is longer than the story teller's.
    talks = any(name in os.environ.get("PYTEST_CURRENT_TEST", "") for name in TALKS)
    return ours["chat"] if talks else "embedded"


TALKS = ("test_chat_completion", "test_compat", "test_tool_call", "test_template")


# Templates that llama.cpp knows by name.
NAMED = {
    "chatml": """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}""",
    "llama3": """{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}""",
    "command-r": """{% for m in messages %}<|START_OF_TURN_TOKEN|><|{{ 'CHATBOT' if m.role == 'assistant' else m.role | upper }}_TOKEN|>{{ m.content -}}
<|END_OF_TURN_TOKEN|>{% endfor %}{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}""",
}


def template(flags):
    """A file with the template; llama.cpp knows some by name."""
    if "--chat-template-file" in flags:
        return flags["--chat-template-file"]
    named = flags.get("--chat-template")
    if named is None:
        return None
    if named not in NAMED and " " not in named:
        sys.exit(f"not applicable: the template {named} is one of llama.cpp's own")
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False) as file:
        file.write(NAMED.get(named, named))
    return file.name


def command(flags):
    yield from (os.environ["AKUNU_BINARY"], "serve", f"{flags.get('--alias', 'model')}={model(flags)}")
    for theirs, ours in {
        "--host": "--host",
        "--port": "--port",
        "--api-key": "--api-key",
        "--threads": "--threads",
    }.items():
        if theirs in flags and flags[theirs] != "-1":
            yield from (ours, flags[theirs])
    if found := template(flags):
        yield from ("--template", found)
    # Theirs is for requests that say nothing, ours for all.
    yield from ("--max-answer", str(max(128, int(flags.get("--n-predict", 128)))))
    sequences = int(flags.get("--parallel", 1))
    yield from ("--sequences", str(sequences))
    if "--ctx-size" in flags:
        # Theirs is shared by all sequences, ours is that of each.
        shared = 1 if "--kv-unified" in flags else sequences
        yield from ("--context", str(int(flags["--ctx-size"]) // shared))
    # Theirs lets models think that can, where nobody says; ours leaves it to the template.
    yield from ("--think", "off" if flags.get("--reasoning") == "off" else "on")
    # Theirs answers pages of all origins unless it is told otherwise; ours none.
    yield from ("--allow-origin", flags.get("--cors-origins", "*"))


arguments = list(command(parsed(sys.argv[1:])))
print("starting", *arguments, flush=True)
os.execv(arguments[0], arguments)
