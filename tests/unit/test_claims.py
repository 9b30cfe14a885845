"""Claim extraction: claims are found and normalised, turns of phrase are ignored."""

from itertools import pairwise

import pytest

from sample_lexicon import LEXICON
from wenmai.grounding.claims.claim import TIMES
from wenmai.grounding.claims.dates import FESTIVALS, FESTIVALS_EN
from wenmai.grounding.claims.eras import DYNASTIES_EN, REIGNS, ROMANISED, sexagenary, year_of_reign
from wenmai.grounding.claims.extraction import ClaimKind, find_claims
from wenmai.grounding.claims.numerals import chinese_number


def values(text: str, *kinds: ClaimKind) -> list[str]:
    """The values of a text's claims, of some kinds or all."""
    return [claim.value for claim in find_claims(text, LEXICON) if not kinds or claim.kind in kinds]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("祠堂建于1523年", "1523"),
        ("祠堂建于公元1523年", "1523"),
        ("祠堂建于１５２３年", "1523"),
        ("祠堂建于一五二三年", "1523"),
        ("建于嘉靖二年", "1523"),
        ("建于嘉靖贰年", "1523"),
        ("建于明嘉靖2年", "1523"),
        ("建于嘉靖元年", "1522"),
        ("清光绪二十二年刊本", "1896"),
        ("乾隆三十一年", "1766"),
        ("民国十二年", "1923"),
        ("洪武七年", "1374"),
        ("北宋庆历三年", "1043"),
        ("公元前221年", "-221"),
        ("公元841年", "841"),
        ("二〇二四年", "2024"),
        ("It was built in 1523.", "1523"),
        ("In 1702 villagers rebuilt it.", "1702"),
        ("in AD 841", "841"),
        ("in 221 BC", "-221"),
        ("in the second year of the Jiajing reign", "1523"),
        ("in the 26th year of the Wanli reign", "1598"),
        ("in the twenty-sixth year of Wanli", "1598"),
        ("Jiajing 2", "1523"),
        ("十六世纪", "16c"),
        ("16世纪", "16c"),
        ("the 16th century", "16c"),
        ("the sixteenth century", "16c"),
        ("1950年代", "1950s"),
        ("20世纪50年代", "1950s"),
        ("the 1950s", "1950s"),
        ("嘉靖癸未年", "癸未"),
    ],
)
def test_a_year_is_one_value_however_it_is_written(text: str, value: str) -> None:
    """Digits, Chinese digits, reign years and English words for one year give one value."""
    assert value in values(text, ClaimKind.YEAR)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("嘉靖年间", ClaimKind.REIGN, "嘉靖"),
        ("正德年间重修", ClaimKind.REIGN, "正德"),
        ("the Qianlong Emperor", ClaimKind.REIGN, "乾隆"),
        ("嘉靖九十年", ClaimKind.REIGN, "嘉靖90"),
        ("明代中叶", ClaimKind.DYNASTY, "明"),
        ("清末", ClaimKind.DYNASTY, "清"),
        ("明嘉靖二年", ClaimKind.DYNASTY, "明"),
        ("the Ming dynasty", ClaimKind.DYNASTY, "明"),
        ("the late Qing", ClaimKind.DYNASTY, "清"),
        ("the Northern Song dynasty", ClaimKind.DYNASTY, "北宋"),
        ("明清两代", ClaimKind.DYNASTY, "清"),
        ("五月初五", ClaimKind.DATE, "05-05"),
        ("农历正月十三", ClaimKind.DATE, "01-13"),
        ("8月15日", ClaimKind.DATE, "08-15"),
        ("on May 5, 1523", ClaimKind.DATE, "05-05"),
        ("on 5 May", ClaimKind.DATE, "05-05"),
        ("in March", ClaimKind.DATE, "03"),
        ("冬至祭祖", ClaimKind.DATE, "冬至"),
        ("at the winter solstice", ClaimKind.DATE, "冬至"),
        ("端午", ClaimKind.DATE, "05-05"),
        ("三百亩", ClaimKind.NUMBER, "300 亩"),
        ("300亩", ClaimKind.NUMBER, "300 亩"),
        ("三百余亩", ClaimKind.NUMBER, "300 亩"),
        ("1.5万亩", ClaimKind.NUMBER, "15000 亩"),
        ("叁佰亩", ClaimKind.NUMBER, "300 亩"),
        ("一百二十六户", ClaimKind.NUMBER, "126 户"),
        ("120 households", ClaimKind.NUMBER, "120 户"),
        ("one hundred and twenty-six households", ClaimKind.NUMBER, "126 户"),
        ("1,200 people", ClaimKind.NUMBER, "1200 人"),
        ("家训十则", ClaimKind.NUMBER, "10 个"),
        ("ten precepts", ClaimKind.NUMBER, "10 个"),
        ("走六里", ClaimKind.NUMBER, "6 里"),
        ("一里渠泥", ClaimKind.NUMBER, "1 里"),
        ("历五百年", ClaimKind.NUMBER, "500 年"),
        ("三个月", ClaimKind.NUMBER, "3 月"),
        ("门票30元", ClaimKind.NUMBER, "30 元"),
        ("百分之八十", ClaimKind.NUMBER, "80 %"),
        ("开放时间9:00", ClaimKind.NUMBER, "09:00"),
        ("上午九点", ClaimKind.NUMBER, "09:00"),
        ("最多六台设备", ClaimKind.NUMBER, "6 个"),
        ("无人使用三十分钟就休眠", ClaimKind.NUMBER, "30 分钟"),
        ("展出五周", ClaimKind.NUMBER, "5 周"),
        ("未满三周岁", ClaimKind.NUMBER, "3 岁"),
        ("等三个小时", ClaimKind.NUMBER, "3 小时"),
        ("入会满一年", ClaimKind.NUMBER, "1 年"),
        ("一小时内答复", ClaimKind.NUMBER, "1 小时"),
        ("八折优惠", ClaimKind.NUMBER, "8 折"),
        ("after one month", ClaimKind.NUMBER, "1 月"),
        ("wait for 40 seconds", ClaimKind.NUMBER, "40 秒"),
        ("第十二条", ClaimKind.NUMBER, "#12"),
        ("the twelfth precept", ClaimKind.NUMBER, "#12"),
        ("第十二世", ClaimKind.GENERATION, "12"),
        ("十二世祖", ClaimKind.GENERATION, "12"),
        ("第五代", ClaimKind.GENERATION, "5"),
        ("the 5th generation", ClaimKind.GENERATION, "5"),
        ("the twenty-first generation", ClaimKind.GENERATION, "21"),
        ("twelve generations", ClaimKind.GENERATION, "12"),
        ("《严氏族谱》", ClaimKind.TITLE, "严氏族谱"),
        ('the "Records of the Yan Clan"', ClaimKind.TITLE, "records of the yan clan"),
        ("由严文渊主持修建", ClaimKind.PERSON, "严文渊"),
        ("严文渊公", ClaimKind.PERSON, "严文渊"),
        ("欧阳修题字", ClaimKind.PERSON, "欧阳修"),
        ("是王守仁修的", ClaimKind.PERSON, "王守仁"),
        ("七世祖严守正创建", ClaimKind.PERSON, "严守正"),
        ("知县何大人", ClaimKind.PERSON, "何"),
        ("他名叫阿福。", ClaimKind.PERSON, "阿福"),
        ("严守正，字子明，", ClaimKind.PERSON, "子明"),
        ("文渊公主持", ClaimKind.PERSON, "文渊公"),
        ("村里人姓王", ClaimKind.PERSON, "王氏"),
        ("It was built by Yan Wenyuan.", ClaimKind.PERSON, "yan wenyuan"),
        ("built by Master Zhang", ClaimKind.PERSON, "zhang"),
        ("a man named Wang", ClaimKind.PERSON, "wang"),
        ("迁居青溪村", ClaimKind.PLACE, "青溪村"),
        ("到了苏州", ClaimKind.PLACE, "苏州"),
        ("白沙渡", ClaimKind.PLACE, "白沙渡"),
        ("经过通济桥", ClaimKind.PLACE, "通济桥"),
        ("背靠笔架山", ClaimKind.PLACE, "笔架山"),
        ("the Tongji Bridge", ClaimKind.PLACE, "tongji bridge"),
        ("He moved to Shexian.", ClaimKind.PLACE, "shexian"),
    ],
)
def test_a_claim_is_found_and_normalised(text: str, kind: ClaimKind, value: str) -> None:
    """Each kind is found in both languages, with the same value for all spellings."""
    assert value in values(text, kind), find_claims(text, LEXICON)


@pytest.mark.parametrize(
    "text",
    [
        "第一，您要孝顺；第二，您要勤俭。",
        "我们一起去看看。",
        "千万别忘了。",
        "老百姓都知道。",
        "万一下雨怎么办？",
        "凡事要三思。",
        "十分感谢，一五一十地说。",
        "过了一年，又过了一年。",
        "这事说来话长，有两点要讲。",
        "有两种说法，三个方面。",
        "一座祠堂，一条路，一个人，一位老人。",
        "一天一天过去，一年四季，一生一世。",
        "您说得明白，讲得清楚。",
        "明日清晨再来，明年开春再看。",
        "元旦那天很热闹，元宝堆成山。",
        "周末来玩，周围很静。",
        "写汉字，学汉语，唐突了。",
        "他很高兴，大家都很安静。",
        "这是方便的，也是平常的。",
        "王",
        "许多人曾经来过，陆续离开，严格地说。",
        "祠堂就在村里，老祠堂前有一座石桥。",
        "知县来了，全县都知道。",
        "天堂一样的学堂。",
        "正统的做法，大中小都有。",
        "四世同堂，一家和气。",
        "说到做到，后生可畏。",
        "In a word, it is old.",
        "May I ask you something? You may march on.",
        "One of them, no one else; one day I will tell you.",
        "There are two ways to look at it, and two or three reasons.",
        "First, listen. Second, remember. Thirdly, rest.",
        "Hundreds of visitors come; a hundred thanks.",
        "The hall is old. Welcome, young friend. However, I cannot say.",
        "He spoke Chinese and English on Monday.",
        '"Well said!" he answered.',
        "1. 先看祠堂\n2. 再看石桥",
        "记载如此[1]，不敢添减【2】。",
        "",
        "。。。",
    ],
)
def test_a_turn_of_phrase_is_no_claim(text: str) -> None:
    """Idioms, list marks, courtesies and everyday words that look like a number, a dynasty or a name."""
    assert find_claims(text, LEXICON) == []


def test_offsets_count_in_the_text_as_given() -> None:
    """Full-width digits and supplementary characters do not shift them."""
    text = "𠮷村建于１５２３年，有三百亩。"
    for claim in find_claims(text, LEXICON):
        assert text[claim.start : claim.end] == claim.text
    assert [claim.text for claim in find_claims(text, LEXICON)] == ["１５２３年", "三百亩"]


def test_claims_do_not_overlap_and_come_in_order() -> None:
    """明嘉靖二年（1523年） is a dynasty and twice the same year."""
    found = find_claims("明嘉靖二年（1523年），严氏第十二世严文渊建祠。", LEXICON)
    assert [(claim.kind, claim.value) for claim in found][:3] == [
        (ClaimKind.DYNASTY, "明"),
        (ClaimKind.YEAR, "1523"),
        (ClaimKind.YEAR, "1523"),
    ]
    assert all(one.end <= other.start for one, other in pairwise(found))


def test_the_personas_own_name_is_no_claim() -> None:
    """Known names are ignored, in full or in part."""
    assert find_claims("严氏先祖在此。", LEXICON, known=["严氏先祖"]) == []
    assert find_claims("Ancestor Yan greets you; ask Ancestor Yan.", LEXICON, known=["Ancestor Yan"]) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("三百", 300), ("一百零五", 105), ("廿三", 23), ("两千零二十四", 2024), ("十", 10), ("一五二三", 1523)],
)
def test_chinese_numerals_have_their_value(text: str, number: int) -> None:
    """By places and digit by digit."""
    assert chinese_number(text) == number


def test_a_reign_has_no_year_past_its_end() -> None:
    """嘉靖 had 45 years; the 46th was the first of 隆庆 and a 90th never was."""
    assert year_of_reign("嘉靖", 45) == 1566
    assert year_of_reign("嘉靖", 90) is None
    assert sexagenary(1523) == "癸未"


@pytest.mark.parametrize("seed", ["一", "1", "1,", "严", "A ", "Ab ", "《", "明嘉靖", "twenty ", "村", "(", "百分之"])
def test_hostile_repetition_finds_an_end(seed: str) -> None:
    """No rule backtracks over a long run; the test's timeout is the limit."""
    assert isinstance(find_claims(seed * (60_000 // len(seed)), LEXICON), list)


NAMED_TIMES = [
    *(f"{name}那天祠堂开门" for name in FESTIVALS),
    *(f"{name}三年重修" for name in REIGNS if name[0] != "乾"),  # of these only 乾隆 is known, as 乾 is folded
    *(f"It opens at the {name.title()}." for name in FESTIVALS_EN),
    *(f"It was rebuilt under {name.capitalize()}." for name in ROMANISED),
    *(f"It was built under the {name.title()} dynasty." for name in DYNASTIES_EN),
    *(f"It opens on 3 {month}." for month in ("Jan", "February", "March", "Apr", "May", "June", "July", "Aug", "Sept")),
    *(f"It opens in {month}." for month in ("October", "November", "December")),
]


@pytest.mark.parametrize("text", NAMED_TIMES)
def test_a_named_time_is_found_in_a_sentence_without_numbers(text: str) -> None:
    """Each festival, reign, dynasty and month is a claim of time, whatever else its sentence has."""
    assert values(text, *TIMES)
