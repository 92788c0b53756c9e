"""A deployment for Ray Serve that streams and grows with its load: `serve run deploy:app`, then

    curl -N localhost:8000 -d '{"prompt": "Once upon a time", "max_tokens": 64}'

A replica decodes up to `parallel` replies at once; Ray Serve adds replicas where more than `target_ongoing_requests` run on
each, and takes them away again. The settings come from the environment: AKUNU_MODEL, AKUNU_THREADS.
"""

import json
import os

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

import akunu


@serve.deployment(
    max_ongoing_requests=32,
    autoscaling_config={"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 8},
    ray_actor_options={"num_cpus": float(os.environ.get("AKUNU_THREADS", 1))},
)
class Stories:
    """One replica: a loaded model."""

    def __init__(self, model=os.environ.get("AKUNU_MODEL"), threads=int(os.environ.get("AKUNU_THREADS", 1))):
        self.model = akunu.Model(model, threads=threads, parallel=32)

    async def __call__(self, request: Request):
        asked = await request.json()
        try:
            messages = asked.pop("messages", None)
            reply = self.model.chat(messages, **asked) if messages else self.model.generate(**asked)
        except (akunu.Error, TypeError, ValueError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return StreamingResponse(self.lines(reply), media_type="application/x-ndjson")

    async def lines(self, reply):
        """A line of JSON a piece. Who goes away cancels the request: nobody holds its reply any more."""
        async for piece in reply:
            if piece.text:
                yield json.dumps({"text": piece.text}) + "\n"
        yield json.dumps({"finish_reason": reply.finish_reason, "tokens": len(reply.tokens)}) + "\n"


app = Stories.bind()
