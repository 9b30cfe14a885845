"""A server of OpenAI's protocol that says what a test tells it to say, and remembers what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

PROMPT_TOKENS, COMPLETION_TOKENS = 100, 10
"""What each of its answers is said to have used."""

_TITLE = "You give a conversation its title"
_SUMMARY = ("You keep the summary of a conversation", "你负责维护一段对话的摘要")
_UNDERSTAND = "You understand what a user of a business system means"
_RERANK, _DECOMPOSE = "You order messages by", "You prepare a search in"
_VERIFIER = "You check statements against passages"


class ScriptedModel:
    """What it says, and what it was asked.

    Attributes:
        base_url: of the running server, with its ``/v1``.
        model: the name to ask for.
        answer, title: what it says when it is asked a question, or for a title.
        summary: what it says when it is asked for a summary.
        breaks_off: whether an answer ends in the middle, without its end and its usage.
        pieces: how an answer is cut; in two halves if it is empty.
        reason: why it says that an answer ends; it just closes the connection if that is empty.
        titles, answers: let titles or questions be answered; a test clears one to hold them.
        order, questions: what it says when it is asked to order messages, or to split a question; None never answers.
        asked_to_help: what it was shown for these.
        understood: what it says that a message means; None never answers.
        asked_to_understand: what it was shown for that.
        verdicts: what it says when it is asked to verify an answer; None never answers.
        asked, asked_for_titles, asked_for_summaries, asked_to_verify: what it was shown, request by request.
        title_wanted, answer_wanted: set when a title or an answer has been asked for.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.model = "openai:scripted"
        self.answer = "老夫不知。"
        self.title = "Yan Ancestral Hall Built"
        self.summary = "- The user asked about the hall."
        self.breaks_off = False
        self.pieces: list[str] = []
        self.reason = "stop"
        self.titles = asyncio.Event()
        self.titles.set()
        self.title_wanted = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.answer_wanted = asyncio.Event()
        self.verdicts: str | None = '{"verdicts": []}'
        self.order: str | None = '{"order": []}'
        self.understood: str | None = "{}"
        self.questions: str | None = '{"questions": []}'
        self.asked_to_help: list[str] = []
        self.asked_to_understand: list[str] = []
        self.asked: list[str] = []
        self.asked_to_verify: list[str] = []
        self.asked_for_titles: list[str] = []
        self.asked_for_summaries: list[str] = []

    @property
    def settings(self) -> dict[str, Any]:
        """For an engine with this model."""
        return {"model": self.model, "model_base_url": self.base_url, "model_attempts": 1}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length:")[2].split()[0])
            body = json.loads(await reader.readexactly(length))
            shown = "\n".join(message["content"] for message in body["messages"])
            for frame in await self._frames(shown):
                writer.write(frame)
            await writer.drain()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _helps(self) -> tuple[tuple[str, list[str], str | None], ...]:
        """For each way in which it helps: the beginning of the task, what it was shown, what it says."""
        return (
            (_UNDERSTAND, self.asked_to_understand, self.understood),
            (_RERANK, self.asked_to_help, self.order),
            (_DECOMPOSE, self.asked_to_help, self.questions),
            (_VERIFIER, self.asked_to_verify, self.verdicts),
        )

    async def _frames(self, shown: str) -> list[bytes]:
        reason = "stop"
        pieces: list[str] = []
        if _TITLE in shown:
            self.asked_for_titles.append(shown)
            self.title_wanted.set()
            await self.titles.wait()
            text = self.title
        elif any(task in shown for task in _SUMMARY):
            self.asked_for_summaries.append(shown)
            text, reason = self.summary, self.reason
        elif helps := [each for each in self._helps() if each[0] in shown]:
            [(_, seen, wanted)] = helps
            seen.append(shown)
            if wanted is None:
                await asyncio.Event().wait()
            text = wanted or ""
        else:
            self.asked.append(shown)
            self.answer_wanted.set()
            await self.answers.wait()
            text, pieces, reason = self.answer, self.pieces, self.reason
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        half = len(text) // 2
        frames = [
            _event({"choices": [{"index": 0, "delta": {"content": piece}}]})
            for piece in pieces or (text[:half], text[half:])
        ]
        if self.breaks_off:
            return [head.replace(b"Connection", b"Content-Length: 100000\r\nConnection"), frames[0]]
        if not reason:
            return [head, *frames]
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS, "total_tokens": 110}
        end = _event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        return [head, *frames, end, _event({"choices": [], "usage": usage}), b"data: [DONE]\n\n"]


def _event(data: dict[str, Any]) -> bytes:
    frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"} | data
    return f"data: {json.dumps(frame)}\n\n".encode()


@asynccontextmanager
async def scripted_model() -> AsyncIterator[ScriptedModel]:
    """The running server."""
    script = ScriptedModel()
    serving: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(script.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        script.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield script
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
