"""Answers to a dataset of questions with Ray Data: `chat.py [--model MODEL] [--actors N]`.

Every actor hands a whole batch to its model, which decodes all answers at once (continuous batching).
"""

import argparse
import time

import ray

import akunu


class Answer:
    """One actor: a loaded model."""

    def __init__(self, model, threads, options):
        self.model = akunu.Model(model, threads=threads, parallel=32)
        self.options = options

    def __call__(self, batch):
        # All are asked before the first is waited for.
        replies = [self.ask(question) for question in batch["question"]]
        batch["answer"] = [reply.text for reply in replies]
        batch["tokens"] = [reply.timings.generated_tokens for reply in replies]
        return batch

    def ask(self, question):
        """The model inside the package has no chat template: it continues texts."""
        if self.model.path is None:
            return self.model.generate(str(question), **self.options)
        return self.model.chat(str(question), **self.options)


def answers(dataset, model=None, actors=1, threads=None, batch_size=32, **options):
    """The dataset with columns `answer` and `tokens` beside its column `question`."""
    return dataset.map_batches(
        Answer,
        fn_constructor_kwargs={"model": model, "threads": threads, "options": options},
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=threads or 1,
        batch_size=batch_size,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a model file or a name [default: the one inside the package]")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--threads", type=int, help="of each actor [default: all, divided among the actors]")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    ray.init(ignore_reinit_error=True)
    threads = options.threads or max(1, int(ray.cluster_resources()["CPU"]) // options.actors)
    names = ("dog", "bird", "sun", "boat", "cat", "tree")
    asked = [{"question": f"Tell me a story about a {names[i % 6]} and {i} friends."} for i in range(options.questions)]
    begun = time.perf_counter()
    done = answers(ray.data.from_items(asked), options.model, options.actors, threads, max_tokens=options.tokens)
    tokens = done.sum("tokens")
    seconds = time.perf_counter() - begun
    print(f"{tokens} tokens, {options.actors} actors, {threads} threads each: {seconds:.2f} s, {tokens / seconds:.0f} tokens/s")


if __name__ == "__main__":
    main()
