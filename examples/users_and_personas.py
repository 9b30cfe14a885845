"""Many users, several personas: a thread for each persona, preferences for the session, nothing of another user."""

import asyncio

import wenmai


async def main() -> None:
    """Two users take the same session id without meeting."""
    async with wenmai.open("memory://") as memory:
        alice, bob = (wenmai.Scope(tenant_id="acme", site_id="shop", user_id=name) for name in ("alice", "bob"))

        support = await memory.session("s-1", scope=alice, persona_id="support")
        await support.append(
            [
                {"role": "user", "content": "My parcel is late."},
                {"role": "assistant", "content": "I am sorry. It arrives tomorrow."},
            ]
        )
        await support.prefer(language="en", verbosity="brief")

        sales = support.with_persona("sales")
        assert (await sales.window()).messages == []  # what was said to support is not told to sales
        assert (await sales.preferences()).values.verbosity == "brief"  # how to answer is

        other = await memory.session("s-1", scope=bob)
        assert other.session_id != support.session_id  # the id is Alice's, so Bob gets a fresh one
        print(f"Alice: {support.session_id}, Bob: {other.session_id}")


if __name__ == "__main__":
    asyncio.run(main())
