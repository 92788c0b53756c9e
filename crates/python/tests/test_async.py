"""Coroutines: many replies in one event loop, and none of them holds it up."""

import asyncio
import time

import akunu

PROMPTS = ["Once upon a time", "The dog", "A bird", "Tom and Lily", "The sun", "One day"]


async def test_many_at_once_give_what_each_gives_alone(model):
    alone = [model.generate(prompt, max_tokens=16).text for prompt in PROMPTS]

    async def told(prompt):
        return "".join([piece.text async for piece in model.generate(prompt, max_tokens=16)])

    assert await asyncio.gather(*map(told, PROMPTS)) == alone
    replies = await asyncio.gather(*(model.generate(prompt, max_tokens=16) for prompt in PROMPTS))
    assert [reply.text for reply in replies] == alone


async def test_the_loop_goes_on_while_a_reply_is_computed(model):
    late = []

    async def tick():
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - begun)

    ticking = asyncio.create_task(tick())
    await model.generate("Once upon a time", max_tokens=200, ignore_eos=True)
    ticking.cancel()
    assert late and max(late) < 0.5


async def test_a_task_that_is_cancelled_leaves_the_model_usable(model):
    async def forever():
        async for _ in model.generate("Once upon a time", max_tokens=400, ignore_eos=True):
            pass

    task = asyncio.create_task(forever())
    await asyncio.sleep(0.02)
    task.cancel()
    assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    del task
    assert (await model.generate("The dog", max_tokens=4)).finish_reason == "length"


async def test_errors_come_out_of_coroutines_too(model):
    try:
        await model.generate("word " * 2000)
        raise AssertionError("it was too long")
    except akunu.PromptTooLong:
        pass


def test_every_event_loop_has_its_own_bell(model):
    async def told():
        return (await model.generate("The dog", max_tokens=8)).text

    assert asyncio.run(told()) == asyncio.run(told()) == model.generate("The dog", max_tokens=8).text
