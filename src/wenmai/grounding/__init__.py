"""Grounding: facts in answers come from evidence. Nothing here sees memory, only question, evidence and answer.

The modules in the order of a turn: :mod:`.policy` (how strict), :mod:`.answerability` (whether to call the model),
:mod:`.verification` (which statements of its answer are supported). They share :mod:`.claims` (checkable claims of a
text), :mod:`.support` (which passages support a claim), :mod:`.answers` (which sentences answer a question) and
:mod:`.prompt_injection` (instructions inside evidence are not evidence).
"""
