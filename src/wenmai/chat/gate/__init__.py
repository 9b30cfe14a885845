"""What may be said: nothing here sees memory, only the question, the evidence and the answer.

The modules, in the order in which a turn uses them: :mod:`.policy` (how strict), :mod:`.before` (whether a
model may be asked), :mod:`.after` (whether its answer stands). They share :mod:`.claims` (what a text
states), :mod:`.grounds` (where a statement stands), :mod:`.relevance` (which sentence answers which question)
and :mod:`.quotable` (evidence that gives orders is not evidence).
"""
