"""What should not be done: an exception each time, never a crash, and the model still works."""

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

import pytest

import akunu


def alone(code, **more):
    """Runs a program, which must end by itself."""
    program = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, **more)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda m: m.generate(7), TypeError),
        (lambda m: m.generate(["a"]), TypeError),
        (lambda m: m.generate([-1]), (OverflowError, TypeError)),
        (lambda m: m.generate(None), TypeError),
        (lambda m: m.generate("a", temperature="hot"), TypeError),
        (lambda m: m.generate("a", temperature=float("nan")), ValueError),
        (lambda m: m.generate("a", max_tokens=-1), TypeError),
        (lambda m: m.generate("a", warmth=1), TypeError),
        (lambda m: m.generate("a", stop=[1]), TypeError),
        (lambda m: m.generate("a", grammar="root"), TypeError),
        (lambda m: m.generate("a", grammar=("martian", "")), ValueError),
        (lambda m: m.generate("a", grammar=akunu.Grammar.regex("(")), akunu.GrammarError),
        (lambda m: m.generate("a", grammar=akunu.Grammar.json_schema("{")), akunu.GrammarError),
        (lambda m: m.generate("a", speculation="always"), ValueError),
        (lambda m: m.generate([10**6]).text, akunu.PromptError),
        (lambda m: m.generate([]), akunu.PromptError),
        (lambda m: m.generate("word " * 2000), akunu.PromptTooLong),
        (lambda m: m.chat([{"content": "a"}]), TypeError),
        (lambda m: m.chat([7]), TypeError),
        (lambda m: m.chat([{"role": "user", "content": object()}]), TypeError),
        (lambda m: m.chat("a", tools=[{}]), ValueError),
        (lambda m: m.chat("a", tool_choice="required"), ValueError),
        (lambda m: m.chat("a", tool_choice="nobody"), ValueError),
        (lambda m: m.embed("a"), akunu.WrongModel),
        (lambda m: m.rerank("a", ["b"]), akunu.WrongModel),
        (lambda m: m.transcribe("a"), akunu.WrongModel),
        (lambda m: m.detokenize(["a"]), TypeError),
        (lambda m: akunu.Session.load(m, "gone"), akunu.Error),
    ],
)
def test_what_is_wrong_is_said(model, call, error):
    with pytest.raises(error) as raised:
        call(model)
    assert str(raised.value) and "\n" not in str(raised.value).strip()
    assert model.generate("The dog", max_tokens=2).wait().timings.generated_tokens == 2


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: akunu.Model("/gone/model.gguf"), akunu.LoadError),
        (lambda: akunu.Model(__file__), akunu.LoadError),
        (lambda: akunu.Model(task="dance"), ValueError),
        (lambda: akunu.Model(task="rank"), akunu.Error),
        (lambda: akunu.Model(task="transcribe"), akunu.Error),
        (lambda: akunu.Model(threads="two"), TypeError),
        (lambda: akunu.Model(threads=-1), (TypeError, OverflowError)),
        (lambda: akunu.Model(kv="q9"), ValueError),
        (lambda: akunu.Model(device="toaster"), akunu.LoadError),
        (lambda: akunu.Model(device="metal"), akunu.LoadError),
        (lambda: akunu.Model(memory=1000), akunu.OutOfMemory),
        (lambda: akunu.Model(limits={"nobody": 1}), ValueError),
        (lambda: akunu.Model(warmth=1), TypeError),
        (lambda: akunu.Model(7), TypeError),
    ],
)
def test_what_cannot_be_loaded_is_said(call, error):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value)


def test_exceptions_have_a_kind():
    assert issubclass(akunu.PromptTooLong, akunu.PromptError) and issubclass(akunu.PromptError, akunu.Error)
    assert issubclass(akunu.OutOfMemory, akunu.LoadError) and issubclass(akunu.LoadError, akunu.Error)
    assert akunu.PromptTooLong.__module__ == "akunu" and akunu.PromptTooLong.__doc__


def test_a_closed_model_says_so_and_what_ran_ends():
    model = akunu.Model(threads=2)
    reply = model.generate("Once upon a time", max_tokens=400, ignore_eos=True)
    next(reply)
    model.close()
    model.close()
    with pytest.raises(akunu.Error, match="ended"):
        reply.wait()
    for use in (lambda: model.generate("a"), lambda: model.tokenize("a"), lambda: model.context):
        with pytest.raises(akunu.ClosedError):
            use()


def test_a_reply_keeps_its_model():
    pieces = akunu.Model(threads=1).generate("Once upon a time", max_tokens=8)
    gc.collect()
    assert len(list(pieces)) == 8


def test_what_nobody_reads_any_more_is_not_computed(model):
    for _ in model.generate("Once upon a time", max_tokens=400, ignore_eos=True):
        break
    reply = model.generate("Once upon a time", max_tokens=400, ignore_eos=True)
    next(reply)
    reply.cancel()
    assert reply.finish_reason == "cancelled" and reply.timings is None and reply.tokens
    deadline = time.monotonic() + 5
    while model.load != (0, 0):
        assert time.monotonic() < deadline
        # A request that was forgotten goes with the next step.
        model.generate("a", max_tokens=1).wait()


def test_two_threads_may_read_one_reply(model):
    reply, seen = model.generate("Once upon a time", max_tokens=64, ignore_eos=True), []
    threads = [threading.Thread(target=lambda: seen.extend(p.token for p in reply)) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(seen) == sorted(reply.tokens) and len(seen) == 64


def test_a_session_that_is_damaged_or_of_another_model_is_refused(model, tmp_path):
    path = tmp_path / "session"
    path.write_bytes(b"akunuses but not really")
    with pytest.raises(akunu.SessionError):
        akunu.Session.load(model, path)
    model._writer().save_session(path, [5, 6, 7], "no JSON")
    with pytest.raises(akunu.SessionError, match="no messages"):
        akunu.Session.load(model, path)


def test_an_answer_that_was_cancelled_is_not_remembered(model):
    session = akunu.Session(model)
    reply = session.chat("Tell one.", max_tokens=300, ignore_eos=True)
    next(reply)
    reply.cancel()
    assert reply.wait() is reply and session.messages == []


def _used_in_a_child(model, embedder, reply, answers):
    said = []
    for use in (lambda: model.generate("a").text, lambda: embedder.embed("a"), lambda: next(reply), model.close):
        try:
            use()
            said.append("nothing")
        except akunu.ForkedError:
            said.append("ForkedError")
    with akunu.Model(threads=1) as own:
        said.append(own.generate("Once", max_tokens=2).finish_reason)
    answers.put(said)


def test_a_forked_process_must_load_its_own(model, embedder):
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    reply = model.generate("Once upon a time", max_tokens=50)
    child = fork.Process(target=_used_in_a_child, args=(model, embedder, reply, answers))
    child.start()
    try:
        assert answers.get(timeout=60) == ["ForkedError"] * 4 + ["length"]
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
    assert len(reply.tokens) > 0


@pytest.mark.parametrize(
    "task",
    [
        "for _ in akunu.Model(threads=2, context=512).generate('a', max_tokens=10**6, ignore_eos=True, context_shift=4): pass",
        "akunu.Model(threads=2, context=512).generate('a', max_tokens=10**6, ignore_eos=True, context_shift=4).text",
        "akunu.Model(task='embed', threads=2).embed(['a much longer text, many times'] * 10**5)",
    ],
)
def test_ctrl_c_interrupts_what_computes(task):
    code = f"""
        import akunu, os, signal, threading, time
        def press():
            time.sleep(1)
            print(time.monotonic(), flush=True)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press, daemon=True).start()
        try:
            {task}
        except KeyboardInterrupt:
            print(time.monotonic(), flush=True)
        """
    done = alone(code)
    assert done.returncode == 0, done.stderr
    pressed, stopped = map(float, done.stdout.split())
    assert stopped - pressed < 1.0


def test_an_interpreter_ends_while_something_is_computed():
    code = """
        import akunu
        model = akunu.Model(threads=2)
        reply = model.generate("Once upon a time", max_tokens=400, ignore_eos=True)
        print(next(reply).token)
        """
    done = alone(code)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_command_line_is_there():
    def akunu_command(*arguments):
        return subprocess.run([sys.executable, "-m", "akunu", *arguments], capture_output=True, text=True, timeout=60)

    assert akunu_command("--version").stdout.startswith("akunu ")
    assert "--port" in akunu_command("serve", "--help").stdout
    assert len(akunu_command("run", "-n", "4", "embedded", "Once").stdout) > 4
    assert json.loads(akunu_command("devices", "--json").stdout)["devices"]
    wrong = akunu_command("dance")
    assert wrong.returncode == 2 and "dance" in wrong.stderr


def test_the_command_line_serves_until_it_is_told_to_end():
    program = [sys.executable, "-m", "akunu", "serve", "embedded", "--port", "0", "--print-address"]
    server = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ)
    try:
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(f"{address}/health", timeout=20) as health:
            assert health.status == 200
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
    finally:
        server.kill()
