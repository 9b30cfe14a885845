"""Verification denies by default: each form of a lie is stopped, and what is true in other words stays."""

import pytest

from wenmai.grounding.types import Passage, PolicyMode
from wenmai.grounding.verification import verify_answer
from wenmai.grounding.verified_answer import VerifiedAnswer, reject_statements

LOAN = (
    "借书证由读者本人持身份证到一楼服务台办理，押金一百元，退证时退还。每人一次可借五册，借期三十天，可以续借一次。"
    "工具书不外借。逾期每册每天收费两角，由管理员李兰登记。还书时先交给管理员检查，再放回书架。"
)
LOAN_EN = (
    "The reading room opens at 8:30 on weekdays and is closed on Sunday. Visitors must not bring food. "
    "The librarian hands the key to the guard in the evening. "
    "Maps, atlases and newspapers are kept on the second floor."
)


def passage(text: str, number: int, title: str) -> Passage:
    """A passage of a field without a lexicon."""
    language = "en" if text.isascii() else "zh"
    return Passage(
        evidence_id=f"e-{number}",
        title=title,
        text=text,
        source_ref="",
        score=0.8,
        number=number,
        language=language,
    )


ROOM = "阅览室有六台电脑，十分钟无人使用就关机。未满六周岁的儿童须有家长陪同。室内不得饮食和吸烟。"
DOGS = "Dogs are admitted only to the garden on weekdays. A visit lasts a year and a half, or 24 hours."
LINK = "The link uses 2.4 GHz and reaches 2,000 metres."
LORRIES = "发货方负责装车，收货方负责卸车。运费一车三百元，装车费另收。押金在两周内退还。"
MILL = (
    "Waxed boats are dried for seven days, and oiled ones for two. The boxes of weights are lent for a fortnight. "
    "The mill is open until five; after that only the shop is."
)
CANAL = "水渠由陈立出资修建，他年轻时做过木材生意，把积蓄都用在水渠和义学上。"
SCHOOL = "The school was founded in 1902 by Ada Moore."
PASSAGES = [
    passage(LOAN, 1, "借书办法"),
    passage(LOAN_EN, 2, "The reading room"),
    passage(ROOM, 3, "阅览室须知"),
    passage(LINK, 4, "The link"),
    passage(DOGS, 5, "Dogs"),
    passage(LORRIES, 6, "运输"),
    passage(MILL, 7, "The mill"),
    passage(CANAL, 8, "水渠"),
    passage(SCHOOL, 9, "The school"),
]


def check(answer: str, question: str = "", language: str = "zh") -> VerifiedAnswer:
    """The answer, verified against the passages."""
    return verify_answer(answer, question=question, passages=PASSAGES, language=language, persona_names=[])


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ("每人一次可借五册，借期六十天[1]。", "value"),
        ("逾期每册每月收费两角[1]。", "value"),
        ("借书办法写着「书是人的朋友」[1]。", "quotation"),
        ("办证要带身份证、户口簿和押金[1]。", "list_item"),
        ("阅览室有八台电脑[3]。", "value"),
        ("阅览室有一百间房[1]。", "value"),
        ("A visit lasts a fortnight [5].", "value"),
        ("Waxed boats are dried for two days [7].", "value"),
        ("工具书不外借，因为价钱太贵[1]。", "coverage"),
        ("狗任何时候都可以进花园[5]。", "coverage"),
        ("二楼存放地图、报纸和信件[2]。", "list_item"),
        ("收货方负责装车，发货方负责卸车[6]。", "roles"),
        ("电脑三十分钟无人使用就关机[3]。", "value"),
        ("未满八周岁的儿童须有家长陪同[3]。", "value"),
        ("室内不得饮食、吸烟和拍照[3]。", "list_item"),
        ("工具书可以外借[1]。", "polarity"),
        ("退证时押金不退还[1]。", "polarity"),
        ("借期三十天，不可以续借[1]。", "polarity"),
        ("水渠并不是陈立出资修建的[8]。", "polarity"),
        ("陈立并没有把积蓄花在水渠上[8]。", "polarity"),
        ("Ada Moore did not found the school [9].", "polarity"),
        ("The school was not founded by Ada Moore [9].", "polarity"),
        ("还书时管理员先交给读者检查[1]。", "roles"),
        ("逾期由保安登记[1]。", "roles"),
        ("由管理员赵强登记[1]。", "roles"),
        ("工具书不外借，馆方为此受到读者的称赞[1]。", "coverage"),
        ("逾期每册每天收费两角，比从前更便宜[1]。", "coverage"),
        ("还书时先交给馆长检查，再放回书架[1]。", "roles"),
        ("每人一次可随时借五册，借期三十天，可以续借一次[1]。", "coverage"),
        ("借书证由读者本人持月票到一楼服务台办理[1]。", "coverage"),
        ("All visitors must not bring food [2].", "coverage"),
        ("Maps, atlases and newspapers are kept on the second floor of the annexe [2].", "coverage"),
        ("The link reaches 2,000 metres, whatever the weather [4].", "coverage"),
        ("Dogs are admitted to the garden on weekdays [5].", "coverage"),
        ("The librarian hands the key to the driver in the evening [2].", "roles"),
        ("The librarian hands the key to the guard of Bluebird in the evening [2].", "value"),
        ("借书办法没有提到押金[1]。", "records"),
        ("服务台旁边有一家咖啡馆[1]。", "coverage"),
        ("据说馆长常常亲自教人写毛笔字[1]。", "coverage"),
        ("难道您不知道这里从前是一座宫殿吗？", "coverage"),
        ("我昨天亲眼看见屋顶漏雨。", "coverage"),
        ("据说每人一次可借五册，还可以续借一次[1]。", "coverage"),
        ("每人一次可借五册，对吗[1]？", "coverage"),
        ("书架高一点六米[1]。", "value"),
        ("Perhaps visitors must not bring food [2].", "coverage"),
        ("The atlases came from France [1].", "value"),
        ("Apparently the reading room opens at 8:30 on weekdays [2].", "coverage"),
        ("Does the librarian hand the key to the guard in the evening [2]?", "coverage"),
        ("详见 https://books.example/rules 。", "link"),
        ("The reading room opens at 9:30 on weekdays [2].", "value"),
        ("It is closed on Monday [2].", "value"),
        ("Visitors may bring food [2].", "polarity"),
        ("The reading room is not closed on Sunday [2].", "polarity"),
        ("The guard hands the key to the librarian in the evening [2].", "roles"),
        ("Maps, films and newspapers are kept on the second floor [2].", "list_item"),
        ("A famous poet once wrote his diary here [2].", "coverage"),
        ("The notice says “Silence is golden” [2].", "quotation"),
        ("The passages say nothing about food [2].", "records"),
    ],
)
def test_a_lie_is_stopped(lie: str, reason: str) -> None:
    """Whatever its form, with the check that found it; the mode is conservative, as nothing answers instead."""
    checked = check(lie, language="en" if lie.isascii() else "zh")
    assert lie not in checked.text
    assert checked.mode is PolicyMode.CONSERVATIVE
    assert checked.removed[0].reason == reason


@pytest.mark.parametrize(
    "true",
    [
        "借书证要本人带身份证去一楼服务台办[1]。",
        "2.4 GHz is used by the link [4].",
        "The link reaches 2,000 metres [4].",
        "A visit lasts 18 months [5].",
        "A visit lasts one day [5].",
        "The 2.4GHz link reaches 2,000 metres [4].",
        "押金一百元，退证的时候会退给您[1]。",
        "一次最多能借五册，借三十天，还可以续借一次[1]。",
        "工具书不能借出去[1]。",
        "借書證由讀者本人持身份證到一樓服務臺辦理[1]。",
        "逾期每册每天收费两角，而且还书时先交给管理员检查，再放回书架[1]。",
        "还书要先让管理员检查，再放回书架[1]。",
        "您好，很高兴为您解答！",
        "还有什么想了解的吗？",
        "第一，带上身份证；第二，交一百元押金[1]。",
        "「工具书不外借」是明文规定[1]。",
        "借书办法没有提到停车场[1]。",
        "阅览室周日不开门[2]。",
        "书不能带出去的是工具书[1]。",
        "可以续借的次数只有一次[1]。",
        "Dogs must stay out of the garden at weekends [5].",
        "押金十四天以内退[6]。",
        "The mill does not open after five [7].",
        "The weights are lent for two weeks [7].",
        "The reading room is open from 8:30 on weekdays [2].",
        "On Sunday it is closed [2].",
        "Food may not be brought in by visitors [2].",
        "In the evening the key is handed to the guard by the librarian [2].",
        "You will find maps and newspapers on the second floor [2].",
        "Happy to help! Let me know if you have more questions.",
        "Each person may borrow five volumes for thirty days [1].",
    ],
)
def test_what_is_true_stays(true: str) -> None:
    """Paraphrases, translations and courtesies."""
    checked = check(true, language="en" if true.isascii() else "zh")
    assert (checked.text, checked.mode, checked.removed) == (true, PolicyMode.NORMAL, [])


def test_every_sentence_of_a_passage_supports_itself() -> None:
    """Word by word, alone and with a mark."""
    for number, text in ((1, LOAN), (2, LOAN_EN)):
        checked = check(text, language="en" if number == 2 else "zh")
        assert (checked.text, checked.cited) == (text, [number])


@pytest.mark.parametrize(
    "answer", ["如果要借书，柜台上有人弹琴[1]。", "If you bring food, a famous poet will thank you [2]."]
)
def test_a_condition_without_its_main_clause_is_removed_too(answer: str) -> None:
    """It would be no sentence."""
    assert check(answer, language="en" if answer.isascii() else "zh").text == ""


def test_a_mark_names_the_only_passage_that_may_support_the_sentence() -> None:
    """What stands in another passage is no support for it; a mark after the full stop belongs to the one before."""
    assert check("工具书不外借[2]。").text == ""
    assert check("工具书不外借。[1]押金一百元。[1]").removed == []


def test_a_removed_statement_is_replaced_by_the_passage() -> None:
    """By the sentence that answers the question, once, with its source; then the answer is normal."""
    checked = check("工具书可以外借[1]。", "工具书外借吗？")
    assert checked.text == "据《借书办法》：工具书不外借。"
    assert checked.mode is PolicyMode.NORMAL
    assert [each.replaced_by for each in checked.removed] == ["据《借书办法》：工具书不外借。"]
    assert checked.reason == "unsupported: 工具书可以外借"


def test_what_the_answer_says_already_is_not_quoted_again() -> None:
    """The lie is removed, and the mode says that something is missing."""
    checked = check("工具书不外借[1]。工具书可以外借[1]。", "工具书外借吗？")
    assert (checked.text, checked.mode) == ("工具书不外借[1]。", PolicyMode.CONSERVATIVE)


def test_a_rejected_statement_is_replaced_too() -> None:
    """As if the rules had removed it; the others stay."""
    question = "工具书外借吗？"
    answer = check("押金一百元[1]。退证时退还[1]。", question)
    tightened = reject_statements(answer, {1}, question=question, passages=PASSAGES, language="zh")
    assert tightened.text == "押金一百元[1]。据《借书办法》：工具书不外借。"
    assert [(each.text, each.reason) for each in tightened.removed] == [("退证时退还[1]。", "verifier")]
    assert tightened.mode is PolicyMode.NORMAL
