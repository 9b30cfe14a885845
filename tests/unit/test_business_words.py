"""What a message says in the words of business rules, and what a profile may declare."""

import time
from typing import Any

import msgspec
import pytest

from growth import check_growth
from wenmai.business.enumeration import enumerated
from wenmai.business.rules import BusinessRules
from wenmai.business.understanding import MAX_TEXT, Recognized, Vocabulary
from wenmai.business.words import RuleWords, plain

RULES: dict[str, Any] = {
    "intents": {
        "how_to": {"words": ["怎么", "how do i"], "domains": ["manual"]},
        "rule": {"words": ["规定", "怎么规定"], "domains": ["policy"]},
    },
    "domains": {"manual": ["手册"], "policy": ["制度"]},
    "objects": {
        "押品": {"words": ["抵押物", "抵质押物品", "collateral"]},
        "合同": {"words": ["contract"]},
        "放款": {"words": ["放款申请"]},
        "客户": {"stages": []},
    },
    "stages": {"创建": ["新建", "create"], "入库": [], "审批": ["approve"], "放款": []},
    "customers": [r"客户\s*([A-Z]\d{3})", r"\b[A-Z]\d{3}\b"],
}
VOCABULARY = Vocabulary(msgspec.convert(RULES, BusinessRules))


def things(said: Recognized) -> list[tuple[str, str]]:
    """Objects with their stages."""
    return [(each.name, each.stage) for each in said.objects]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("怎么创建押品？", [("押品", "创建")]),
        ("抵押物怎么新建", [("押品", "创建")]),
        ("抵押物怎麼創建", [("押品", "创建")]),
        ("How do I CREATE the Collateral?", [("押品", "创建")]),
        ("那入库呢？", [("", "入库")]),
        ("不是押品，是合同", [("合同", "")]),
        ("是不是押品要入库", [("押品", "入库")]),
        ("入库的不是押品吗？", [("押品", "入库")]),
        ("create the contract, not the collateral", [("合同", "创建")]),
        ("不是创建，是审批", [("", "审批")]),
        ("押品和合同怎么审批", [("押品", "审批"), ("合同", "审批")]),
        ("创建押品和合同", [("押品", "创建"), ("合同", "创建")]),
        ("押品怎么创建，合同怎么审批？", [("押品", "创建"), ("合同", "审批")]),
        ("approve the collateral and create the contract", [("押品", "审批"), ("合同", "创建")]),
        ("押品怎么创建？合同呢？", [("押品", "创建"), ("合同", "")]),
        ("先创建再入库", [("", "入库")]),
        ("抵质压物品怎么入库", [("押品", "入库")]),
        ("how do I create a colateral", [("押品", "创建")]),
        ("contractor", []),
        ("放款申请怎么审批", [("放款", "审批")]),
        ("放款怎么创建", [("放款", "创建")]),
        ("合同怎么放款", [("合同", "放款")]),
        ("客户C001怎么样", []),
        ("合通怎么审皮", [("合同", "审批")]),
        ("抵亚物怎么入库", [("押品", "入库")]),
        ("我和同事怎么分工", []),
        ("押品怎么审批，何同事来批", [("押品", "审批")]),
        ("押品没入库能审批吗", [("押品", "审批")]),
        ("押品没入库怎么办", [("押品", "入库")]),
        ("要不要入库", [("", "入库")]),
        ("合同和押品的入库分别怎么办", [("合同", "入库"), ("押品", "入库")]),
        ("今天天气怎么样", []),
    ],
)
def test_objects_and_stages_of_a_message(message: str, expected: list[tuple[str, str]]) -> None:
    """Aliases, negation, enumerations, wrong characters, traditional characters, words of two meanings."""
    assert things(VOCABULARY.understand(message)) == expected


def test_a_word_of_both_meanings_continues_the_current_operation() -> None:
    """那放款呢 is the stage while another object is current, and the object where none is."""
    assert things(VOCABULARY.understand("那放款呢", current_object="合同")) == [("", "放款")]
    assert things(VOCABULARY.understand("那放款呢")) == [("放款", "")]
    assert things(VOCABULARY.understand("怎么撤销放款", current_object="合同")) == [("放款", "")]


@pytest.mark.parametrize(
    ("message", "intent", "domains", "customer"),
    [
        ("押品怎么创建", "how_to", [], ""),
        ("押品和合同分别怎么创建", "how_to", [], ""),
        ("押品丢了会怎么样", "", [], ""),
        ("客戶C001怎麼樣", "", [], "C001"),
        ("制度是怎么规定的", "rule", ["policy"], ""),
        ("客户C001的押品和客户 C002的合同", "", [], "C002"),
        ("比较C001 与 C002", "", [], "C002"),
        ("不是客户C001，是客户C002", "", [], "C002"),
        ("是客户C002，不是客户C001", "", [], "C002"),
    ],
)
def test_intent_domains_and_customer(message: str, intent: str, domains: list[str], customer: str) -> None:
    """The intent with most characters wins; the last customer that is not negated counts, in the user's spelling."""
    said = VOCABULARY.understand(message)
    assert (said.intent, said.domains, said.customer) == (intent, domains, customer)


def test_steps_references_and_rejected_objects() -> None:
    """下一步 and 上一步 are steps unless a stage is named; 它 and 那 … 呢 refer to what was said."""
    assert [VOCABULARY.understand(text).step for text in ("下一步呢", "上一步是什么", "下一步入库吗")] == [1, -1, 0]
    assert [VOCABULARY.understand(text).anaphoric for text in ("它要什么材料", "然后呢？", "材料清单")] == [
        True,
        True,
        False,
    ]
    assert VOCABULARY.understand("不是押品，是合同").rejected == ["押品"]
    assert not VOCABULARY.understand("谢谢").named


@pytest.mark.parametrize(
    ("message", "step"),
    [
        ("再往下一步呢？", 1),
        ("然后下一步是什么", 1),
        ("下一布呢", 1),
        ("办完了呢？", 1),
        ("之后找谁", 1),
        ("What is the next step?", 1),
        ("after that?", 1),
        ("前面那步呢", -1),
        ("the step before?", -1),
        ("糟糕，完了", 0),
        ("放款之后几天检查", 0),
    ],
)
def test_steps_in_other_words(message: str, step: int) -> None:
    """Some words are a step only in a message that says nothing else."""
    said = VOCABULARY.understand(message)
    assert (said.step, said.only_step) == (step, step != 0)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("押品的评估和合同的用印有什么规定？", {"押品": "押品的评估", "合同": "合同的用印有什么规定?"}),
        ("押品和合同各在哪里查", {"押品": "押品在哪里查", "合同": "合同在哪里查"}),
        ("先说抵押物的保险，再说合同的用印", {"押品": "抵押物的保险", "合同": "合同的用印"}),
        ("押品丢了，合同怎么办", {}),
        ("不是押品和合同", {}),
        ("押品怎么创建", {}),
    ],
)
def test_a_question_that_enumerates_objects_has_a_part_for_each(message: str, expected: dict[str, str]) -> None:
    """Where the first part says nothing of its own, it gets what is said of the last."""
    assert enumerated(message, VOCABULARY.understand(message)) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"intents": {}}, "intents"),
        ({"default_intent": "nobody"}, "`default_intent` names `nobody`"),
        ({"intents": {"a": {"domains": ["x"]}}}, r"`intents.a.domains` names `x`, which is not in `domains`"),
        ({"intents": {"a": {"inherits": ["mood"]}}}, r"inherits"),
        ({"objects": {"o": {"stages": ["入库", "创建"]}}}, r"`objects.o.stages` must be in the order"),
        ({"objects": {"o": {"stages": ["飞"]}}}, r"`objects.o.stages` names `飞`"),
        ({"objects": {"o": {"words": ["x1"]}, "p": {"words": ["X1"]}}}, r"`X1` is a word of both `objects.o`"),
        ({"stages": {"a": ["。"]}, "objects": {}}, r"`stages.a` has `。`, which is no word"),
        ({"customers": ["("]}, r"`customers\[0\]` is no regular expression"),
        ({"customers": ["a*"]}, r"`customers\[0\]` must match at least one character"),
        ({"stage": {}}, "stage"),
    ],
)
def test_a_mistake_in_the_rules_names_its_field(change: dict[str, Any], message: str) -> None:
    """A profile with wrong rules is refused when it is loaded."""
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(RULES | change, BusinessRules)


def test_a_question_is_understood_in_a_millisecond_of_cpu_time() -> None:
    """With two hundred words; on a machine ten times slower than a usual one the bound still holds."""
    many = {f"物品{number}号": {"words": [f"thing{number}", f"第{number}件大物品"]} for number in range(100)}
    vocabulary = Vocabulary(msgspec.convert(RULES | {"objects": RULES["objects"] | many}, BusinessRules))
    questions = [f"客户C00{number}的第{number}件大物品怎么创建，后面再怎么入库？" for number in range(10)]
    vocabulary.understand(questions[0])
    begun = time.process_time()
    for question in questions * 20:
        vocabulary.understand(question)
    assert (time.process_time() - begun) / 200 < 0.001


@pytest.mark.parametrize("unit", ["押品", "不是", "押品和", "抵质压物", "客户C001", "a", "不是的的", "放款 "])
def test_time_is_linear_in_the_text(unit: str) -> None:
    """The search for words is linear; understanding reads the beginning of a message only."""
    words = RuleWords(VOCABULARY.rules)
    check_growth(lambda text: words.find(plain(text)), unit, 100_000)
    check_growth(VOCABULARY.understand, unit, 20 * MAX_TEXT)
