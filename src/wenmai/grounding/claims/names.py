"""Claims of names: people, places, titles of books; Chinese and English.

Chinese does not mark names, so people are only recognised by their context (a title after, a naming word before, a
verb of action), and places by their last character, cut at the first function word to the left.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from wenmai.grounding.claims.claim import Claim, ClaimKind
from wenmai.grounding.claims.eras import DYNASTIES_EN, ROMANISED
from wenmai.grounding.lexicon import Lexicon, once_per_lexicon
from wenmai.text.cjk import has_cjk, has_latin
from wenmai.text.patterns import any_of, any_word, chinese, word_list

_HAN = "\u4e00-\u9fff"
_SURNAME = any_of(
    """
    欧阳 司马 诸葛 上官 司徒 夏侯 尉迟 皇甫
    [王李张刘陈杨赵吴周徐孙朱胡郭林罗郑梁谢宋唐许邓冯曹彭曾萧蔡潘袁董余苏叶吕魏蒋沈姜]
    [崔谭陆汪廖韦薛邹孟秦阎严贺龚邵侯邱钟戴傅卢丁柳姚范熊俞顾聂庞樊葛翟祝詹霍耿焦项屈阮蓝]
    """
)
# Surnames that are also everyday words; a title must follow.
_ANY_SURNAME = f"{_SURNAME}|" + any_of(
    """
    [高常何于江石文和易金白黄万古温华安方洪史田任马牛龙毛倪申饶甘尹车施雷纪路鲁章楚燕]
    [单牟简乔赖宁解穆欧庄涂裴]
    """
)
# Everyday words that begin like a name.
_NO_NAME = any_of(
    """
    王朝 王府 王侯 王者 王法 王道 李子 李树 张贴 张罗 张灯 张口 张开 陈列 陈旧 陈述 陈设 陈年 杨树 杨柳
    杨梅 周围 周边 周末 周到 周年 周遭 周全 周转 周岁 徐徐 孙子 孙辈 孙女 朱红 朱漆 胡乱 胡同 胡椒 林木
    林立 林间 林地 林业 林中 罗列 罗盘 梁柱 梁上 梁架 梁枋 谢谢 谢意 谢恩 宋代 宋朝 宋元 宋时 宋末 宋初
    唐代 唐宋 唐朝 唐末 许多 许久 许可 许愿 许是 曾经 曾祖 曾任 曾有 曾在 曾是 曾孙 曾被 曾因
    曾于 曾为 余年 余下 余地 余人 余亩 余户 余里 苏州 苏醒 叶子 叶片 叶落 沈稳 姜汤 陆续 陆路 陆地 汪汪
    秦代 秦汉 秦朝 严格 严谨 严厉 严肃 严禁 严父 严冬 严寒 严密 严重 严惩 贺喜 贺礼 侯门 钟声 钟楼 钟鼓
    钟爱 丁口 丁忧 丁点 柳树 范围 范例 顾客 顾及 顾念 祝福 祝贺 祝愿 祝寿 项目 项下 蓝色 蓝天 熊熊 焦急
    屈服 葛布 吴越 魏晋 傅粉 孟春 孟夏 孟秋 孟冬 韦编 赵宋 吕宋 戴上 刘海 郑重 孙儿
    霍然 陆上 朱砂 朱门 周而 周一 周二 周三 周四 周五 周六 周日
    高[高大低兴处度山地龄寿祖中明] 常[常见年有用住] 何[处时年人以故事等况必] 于[是此今]
    江[南北西东河边湖山] 石[头桥板碑阶材匠刻雕墙柱狮] 文[字化献章物人风庙书] 和[睦气谐平] 易[懂于]
    金[色银属黄] 白[色天墙银] 黄[色昏土河金] 万[一分物事年] 全[村族体家部县] 古[代老人树桥村时今]
    温[和暖] 安[静排全] 方[便法向面言圆] 洪[水灾亮] 史[书料实] 田[地间野产园] 任[何务由] 马[上车路头]
    龙[舟灯头] 解[释说] 单[独位] 路[边上口人]
    """
)
_GIVEN = (
    r"[^\W\d_a-zA-Z的了是在于和与及等也都就又不有这那我你您他她们之其为由所以而则把被让给对"
    r"上下里前后中年日村镇县府祠族氏家公]"
)
_HONORIFIC = any_of(
    """
    老?先生 太公 公公 大人 将军 知县 知府 县令 进士 举人 秀才 贡生 监生 道士 和尚 法师 禅师 师傅 夫人
    老爷 皇帝 书记 教授 村长 支书 阁老 尚书 御史 孺人 员外
    公(?![司共平园里路式开布安告斤顷寓务用正认然事众民益交主子社家德有])
    """
)
_RIGHT = r"(?=$|[，。、；：！？,.;:!?）)」』”’》\s]|{})".format(
    any_of(
        """
        所 主持 主修 负责 主管 兼 接任 出 创 始 修 建 造 兴 重 倡 捐 带 率 携 出资 撰 题 迁 徙 定居 编 纂 著 立 订
        制 定 手 亲 领
        等 之 的 与 和 及 则 又 便 就 于 在 曾 任 中 考 生 卒 去世 逝 说 认为 为 是 公 先 老 早 晚 年 回 来 从
        自 因 把 将 开 筑 设 办 教 写 作 留 葬 什么 何 哪 到 住 去 当 给 对 有 没 也 都 还 能 会 要 不 拿 究竟
        """
    )
)
_LEFT = (
    r"(?:^|(?<=[^\w])"
    r"|(?<=[由是叫名为与和及请即乃祖帝臣兄弟匠士长县令官师者曰年时初末后说有被向跟随从因派使任生理员授监席]))"
)
_CUED = re.compile(rf"{_LEFT}(?!{_NO_NAME})(?P<name>(?:{_SURNAME}){_GIVEN}{{1,2}}?){_RIGHT}")
_NAMED = re.compile(
    r"(?:名叫|名为|叫做|叫作|人称|尊称|取名|本名|原名)"
    rf"(?P<name>[{_HAN}]{{2,4}}?)(?=[，。、；：！？,.;）)的是\s]|$)"
)
_COURTESY = re.compile(rf"(?<=[，、（(；,])(?:字|号|讳|谥号?|别号)(?P<name>[{_HAN}]{{1,3}})(?=[，。、；）),.]|$)")
_GONG = re.compile(
    rf"{_LEFT}(?P<name>(?!主人|[外叔老相天祖太不办阿]){_GIVEN}{{2}}公)"
    rf"(?=[，。、；：！？,.;）)\s的]|$|主|率|创|始|修|建|迁|立|定)"
)
_CLAN = re.compile(rf"(?P<name>(?:{_ANY_SURNAME})氏)|姓(?P<after>{_SURNAME})(?!名|氏)|(?P<before>{_SURNAME})姓")

_CUES = frozenset("叫称名字号讳谥公氏姓")
"""Characters of which a name has one before it or in it that is found without its surname or a title."""

_PLACE_END = word_list("自然村 村 镇 乡 县 府 州 省 市 山 岭 河 溪 江 湖 堰 圳 渠 洞 巷 街")
_NOT_IN_PLACE = frozenset(
    "的了在到于从自往至向是有和与及这那此本该我你您他她它们个座条处各每全建修迁居住过经由为即叫称位"
    "入出沿去来离距近把被让给对说问知看见上下里内外中前后旁边侧又也都就不没无可能会要想请着起成以其"
    "之所而或若如何哪什么谁呢吗吧啊因使据等将曾族搬徙移赴达属管归隶第名间多少几当时年月日代世朝同满"
    "登爬开造盖跨越翻守祭拜进逛游绕望靠依傍连接再回公办任做约共原便方却只另还始初末改并两零立创"
    "一二三四五六七八九十百千万落兴题记载写讲介绍关古老旧整地邻"
    "烧引护背剩容包括节带领提巡种植用放隔壁"
)
_PLAIN_PART = frozenset(
    "大小老古新旧石木高深远近好美青绿荒秃后前东西南北左右宗祖家支总分农渔水土山乡村城州县省市国官江"
    "河湖海学课正厅客食会教礼佛神天地火冰雪风街殿廊拱单独多众邻外本全层砖瓦楼祠桥"
)
_NO_PLACE = any_of(
    """
    知[县府州] [官政学乐洞王首]府 [神九全]州 江山 靠山 火山 登山 爬山 深山 后山 [大小]山 天堂
    课堂 厅堂 [同满一正中后前]堂 城楼 阁楼 小巷 大街 街坊 作坊
    乡村 山村 农村 古村 山洞 轮渡 运河 银河 敬老院 人民政府 青山 绿水青山 名山 江河
    """
)
# Words that begin with a kind of place, so that no name ends there.
_NO_PLACE_END = any_of("山[水区货寨地] 河[流道床] 州官 街坊 江[山湖] 府上 乡[亲民音村] 市[场民] 村[民庄寨落] 县[官令]")
_SHORT_OK = frozenset("州县山江省市")

_TITLE_ZH = re.compile(r"《(?P<name>[^《》\n]{1,60})》")
_TITLE_EN = re.compile(r"[\"“](?P<name>[A-Z][^\"“”\n]{2,80})[\"”]")

_CAPITAL = r"[A-Z][a-zA-ZÀ-ɏ]*(?:['’][a-zA-Z]{2,}|-[A-Za-z]+){0,3}"
_ENGLISH = re.compile(rf"(?<![a-zA-ZÀ-ɏ]){_CAPITAL}(?: (?:(?:of|the) (?=[A-Z]))?{_CAPITAL}){{0,5}}")
_PREPOSITION = re.compile(r"\b(?P<by>by|named|called|from|to|in|at|near|of|with|and)(?: the)? $")
_PLACE_WORD = frozenset(
    word_list(
        """
        village river county mountain mountains mount prefecture province street stream creek lake gate town
        city hill valley road lane square garden peak
        """
    )
)
_PERSON_WORD = frozenset(
    word_list(
        """
        mr mrs ms miss dr master lord lady madam emperor empress general magistrate elder grandfather
        grandmother uncle aunt duke prince king queen scholar patriarch professor abbot monk captain
        governor sir minister
        """
    )
)
_NOT_NAME = frozenset(
    word_list(
        """
        the a an in on at by from to of for with when where who why how what which while as after before
        since until during under over and but or nor so if then there here this that these those it its
        he she they we you i my our your his her their according although because however yes no not now
        today once later only also even each every all some many most one two three four five six seven
        eight nine ten first second third next finally perhaps may might can could would will shall
        should do does did is are was were be let please welcome dear young guest visitor friend hello
        ah oh well indeed records sources source evidence chinese english china clan family
        january february march april june july august september october november december monday tuesday
        wednesday thursday friday saturday sunday ad bc ce bce north south east west confucian buddhist
        taoist daoist dynasty dynasties republic republican reign lunar spring autumn summer winter
        festival century new year come ask tell look see remember built founded said such another both
        have has had i'm i'll i've it's that's there's don't we're you're as reportedly sorry thank
        thanks again good great old stone wood people everyone nobody nothing ignore forget
        """
    )
) | set(DYNASTIES_EN) | set(ROMANISED)  # fmt: skip


class _Patterns(NamedTuple):
    """The patterns that contain words of a lexicon.

    Attributes:
        titled: a person before a title.
        place_end: the kind of place at the end of a Chinese name.
        no_place: words that have the form of a Chinese place's name.
        place_words: kinds of places in English names.
        not_name: English words that begin or end no name.
    """

    titled: re.Pattern[str]
    place_end: re.Pattern[str]
    no_place: re.Pattern[str]
    place_words: frozenset[str]
    not_name: frozenset[str]


@once_per_lexicon
def _patterns(lexicon: Lexicon) -> _Patterns:
    words = lexicon.words
    place_kinds = sorted([*chinese(words.place_kinds), *_PLACE_END], key=len, reverse=True)
    return _Patterns(
        titled=re.compile(rf"(?P<name>(?:{_ANY_SURNAME})(?:[{_HAN}]{{0,2}}?))(?:{any_word(words.titles, _HONORIFIC)})"),
        place_end=re.compile("|".join(place_kinds)),
        no_place=re.compile(any_word(chinese(words.not_names), f"{_NO_PLACE}|{_NO_PLACE_END}")),
        place_words=_PLACE_WORD.union(words.place_kinds),
        not_name=_NOT_NAME.union(words.not_names),
    )


def find_names(text: str, lexicon: Lexicon) -> Iterator[Claim]:
    """Names in a text with folded width; they may overlap."""
    for match in _TITLE_ZH.finditer(text):
        yield _claim(ClaimKind.TITLE, match, match["name"])
    for match in _TITLE_EN.finditer(text):
        if _is_title(match["name"]):
            yield _claim(ClaimKind.TITLE, match, match["name"].rstrip(" .,"))
    patterns = _patterns(lexicon)
    if has_cjk(text):
        yield from _people(text, patterns.titled)
        yield from _places(text, patterns)
    if has_latin(text):
        yield from _english(text, patterns)


def _claim(kind: ClaimKind, match: re.Match[str], value: str, group: str | int = 0) -> Claim:
    start, end = match.span(group)
    return Claim(kind=kind, text=match[group], value=value.lower(), start=start, end=end)


def _is_title(quoted: str) -> bool:
    words = [word for word in re.findall(r"[A-Za-z][\w'’-]*", quoted) if len(word) > len("the")]
    capitals = sum(word[0].isupper() for word in words)
    return len(words) > 1 and capitals == len(words) and quoted[-1] not in "!?"


def _people(text: str, titled: re.Pattern[str]) -> Iterator[Claim]:
    further = () if _CUES.isdisjoint(text) else (_NAMED, _COURTESY, _GONG)
    for pattern in (titled, _CUED, *further):
        for match in pattern.finditer(text):
            yield _claim(ClaimKind.PERSON, match, match["name"], 0 if pattern is titled else "name")
    for match in _CLAN.finditer(text) if further else ():
        surname = match["after"] or match["before"] or match["name"].removesuffix("氏")
        yield _claim(ClaimKind.PERSON, match, surname + "氏")


def _places(text: str, patterns: _Patterns) -> Iterator[Claim]:
    floor = 0
    for match in patterns.place_end.finditer(text):
        end, suffix = match.end(), match[0]
        start = match.start()
        while start > max(floor, match.start() - 4) and _may_name(text[start - 1]):
            start -= 1
        name, part = text[start:end], text[start : match.start()]
        following = text[end : end + 1]
        long_enough = len(part) > 1 or (len(part) == 1 and suffix in _SHORT_OK)
        if (
            not long_enough
            or all(char in _PLAIN_PART for char in part)
            or patterns.no_place.fullmatch(name)
            or patterns.no_place.match(text, match.start())
            or patterns.place_end.match(following)  # 溪 in 云溪镇
        ):
            continue
        floor = end
        yield Claim(kind=ClaimKind.PLACE, text=name, value=name, start=start, end=end)


def _may_name(char: str) -> bool:
    return "\u4e00" <= char <= "\u9fff" and char not in _NOT_IN_PLACE


def _english(text: str, patterns: _Patterns) -> Iterator[Claim]:
    for match in _ENGLISH.finditer(text):
        words = match[0].split(" ")
        start = match.start()
        while words and words[0].lower().removesuffix("'s").removesuffix("’s") in patterns.not_name:
            start += len(words.pop(0)) + 1
        while words and (words[-1].lower() in patterns.not_name or words[-1] in {"of", "the"}):
            words.pop()
        name = " ".join(words)
        kind = _english_kind(text, start, words, patterns.place_words)
        if kind:
            bare = " ".join(word for word in words if word.lower() not in _PERSON_WORD) or name
            value = re.sub(r"['’]s$", "", bare).lower()
            yield Claim(kind=kind, text=name, value=value, start=start, end=start + len(name))


def _english_kind(text: str, start: int, words: list[str], place_words: frozenset[str]) -> ClaimKind | None:
    lowered = [word.lower() for word in words]
    if len("".join(words)) <= 1:  # a label
        return None
    if len(words) > 1 and any(word in place_words for word in lowered):
        return ClaimKind.PLACE
    if len(words) > 1:
        reign = any(word in ROMANISED or word in {"dynasty", "reign", "festival"} for word in lowered)
        return None if reign else ClaimKind.PERSON
    cue = _PREPOSITION.search(text[max(0, start - 14) : start])
    if not cue or lowered[0] in _PERSON_WORD or lowered[0] in place_words or lowered[0].isupper():
        return None
    return ClaimKind.PLACE if cue["by"] in {"from", "to", "in", "at", "near", "of"} else ClaimKind.PERSON
