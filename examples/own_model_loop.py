"""A chat loop with your own model: what was said survives the end of the program.

Run it twice: the second run goes on where the first one stopped.
"""

import asyncio
import sys

import wenmai


def answer_of_your_model(system: str, messages: list[dict[str, str]]) -> str:
    """Call your model here; this one only says how much it was given."""
    said = sum(message["role"] == "user" for message in messages)
    return f"You have said {said} things to me; my rules have {len(system)} letters."


async def main(path: str) -> None:
    """Answer three questions, each within 500 tokens of memory."""
    async with wenmai.open(f"sqlite:///{path}") as memory:
        session = await memory.session("visit-1")
        print("A new conversation." if session.created else "Welcome back.")
        for question in ("Hello!", "Who built the bridge?", "And when?"):
            context = await session.context(question, budget_tokens=500)
            system = "\n\n".join(block.text for block in context.blocks)
            answer = answer_of_your_model(system, context.messages)
            await session.append([{"role": "user", "content": question}, {"role": "assistant", "content": answer}])
            print(f"> {question}\n{answer}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "conversations.db"))
