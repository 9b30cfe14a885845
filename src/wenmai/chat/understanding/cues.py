"""Cue patterns in Chinese and English, shared by dialogue acts and rewriting.

All patterns but ``TITLE`` are for normalised text (:func:`wenmai.text.cjk.normalise`). None nests
repetitions, so that each takes linear time.
"""

import re


def pattern_of(*, zh: str = "", en: str = "") -> re.Pattern[str]:
    """A pattern of alternatives, separated by white space instead of ``|``; ``_`` stands for a blank.

    English alternatives match whole words.
    """
    parts = []
    if zh:
        parts.append("|".join(zh.split()))
    if en:
        parts.append(rf"\b(?:{'|'.join(en.split()).replace('_', ' ')})\b")
    return re.compile("|".join(parts))


_A_BIT = "(?:一点儿|一点|点儿|点|一些|些)"
_EARLIER = "(?:刚才|刚刚|之前|上次|前面|上面|先前|一开始|最开始|第一次|上一句|上一个)"
_LANGUAGE = "(?:中文|汉语|普通话|国语|英文|英语|日文|日语|韩文|韩语|法文|法语|德语|西班牙语|俄语|粤语)"
_LANGUAGE_EN = "(?:chinese|mandarin|english|japanese|korean|french|german|spanish|russian)"
_LOCAL = "(?![里儿]|个?(?:村|地方|镇|县|时候))"

GREETING = pattern_of(
    zh="""
    大家好 你们好 (?:老人家|老师|大爷|大妈|大叔|阿姨|师傅|老板|先生|女士|爷爷|奶奶|朋友|各位|前辈)们?好[啊呀哇]?
    你好(?!吗) 您好(?!吗) 早上好 上午好 中午好 下午好 晚上好 早安 早[啊呀] 哈喽 哈啰 嗨 幸会 久仰 打扰了 有人在吗 在吗
    (?:你|您)是谁 (?:你|您)叫什么(?:名字)? 怎么称呼(?:你|您)? 自我介绍
    """,
    en="""
    hello hi hiya hey ahoy howdy greetings (?:good_)?(?:morning|afternoon|evening)(?:_all|_everyone|_everybody)?
    good_day nice_to_meet_you who_are_you
    what(?:'s|_is)_your_name introduce_yourself
    """,
)
"""A greeting, or a question about the persona's identity."""

PREFERENCE = pattern_of(
    zh=f"""
    (?:说|讲|答|回答|回复|解释|介绍|写)?[得的]?[再更]?(?:详细|具体|细致|仔细|简短|简单|简洁|精简|简练|短|长|慢|通俗|明白|清楚){_A_BIT}
    长话短说 言简意赅 (?:别|不要|不用)(?:太|这么|那么)?(?:啰嗦|罗嗦|长|详细|简短) 太(?:长|短|啰嗦|简单|复杂)了 说重点
    讲重点 换(?:个|一种)说法 (?:再说|重复|再讲)一遍 (?:轻松|随意|随便|活泼|正式|严肃|客气|礼貌|亲切){_A_BIT} 用敬语
    称呼我 叫我 (?:用|说|讲|改用|换成|切换到?|换){_LANGUAGE}(?:来?(?:回答|回复|说|讲|交流|聊|介绍|解释))?
    我叫什么(?:名字)? 我是谁 我的名字(?:是什么)? (?:还)?记得我(?:是谁|叫什么|的名字|吗)?
    (?:我们|咱们|我){_EARLIER}都?(?:问|说|讲|提|聊|谈)[过到了的]?[些是]?(?:什么|哪(?:里|儿)?了?)
    我{_EARLIER}的问题(?:是什么)? [你您]{_EARLIER}都?(?:回答|说|讲|提到)[过到了的]?[些是]?什么
    """,
    en=f"""
    (?:a_(?:bit|little)_)?more_(?:detail(?:s|ed)?|briefly|concise(?:ly)?|formal(?:ly)?|casual(?:ly)?)
    in_(?:more|greater)_detail keep_(?:it|them|your_answers)_(?:short|brief|simple)
    (?:be|answer)_(?:brief(?:ly)?|concise(?:ly)?) short(?:er)?_answers? too_(?:long|short) less_formal(?:ly)?
    (?:speak|talk|be)_(?:more_)?(?:casual(?:ly)?|formal(?:ly)?|respectful(?:ly)?|slower|slowly)
    (?:speak|answer|reply|respond|talk|write|switch)(?:_to)?(?:_me)?(?:_in|_to)?_{_LANGUAGE_EN} in_{_LANGUAGE_EN}
    what_did_(?:i|you|we)_(?:just_|first_)?(?:ask|say|talk|discuss)(?:_about|_you)?
    what_(?:was|were)_(?:my|your|our)_(?:first_|last_|previous_|earlier_)?(?:question|answer)s?
    do_you_remember_(?:me|my_name) what(?:'s|_is)_my_name who_am_i (?:please_)?call_me
    """,
)
"""A preference for the conversation, or a question about the conversation itself."""

FILLER = pattern_of(
    zh="""
    一遍 一次 回答 说话 说 讲 话 问题 希望 想 要 用 来 听 好的 好吧 好 可以 以后 跟我 对我 先生 女士 老师 老人家 老人
    前辈 爷爷 奶奶 朋友
    """,
    en="""
    give answers? use want like would know need ok okay yes well now there sir madam dear again will using speak
    """,
)
"""Filler around a preference or a greeting."""

INSTRUCTION = pattern_of(
    zh=r"""
    (?:忽略|无视|忘掉|忘记|抛开|不要管|别管|不用管|不必理会|绕过|跳过|取消)[^。！？\n]{0,12}(?:规则|指令|指示|设定|提示|要求|限制|约束|上文|上面|以上|之前|前面|一切|所有|资料|记载|证据|材料|手册|文档)
    扮演 假装 假设你 (?:你|您)现在是(?:一个|一名|一只)? 从现在[起开][始]?[，,]?(?:你|您) 不管我问什么 开发者模式
    """,
    en=r"""
    (?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,40}\b(?:instructions?|rules?|prompts?|guidelines|restrictions|above|previous|everything|manual|documents?|evidence|sources?|records?)
    pretend act_as developer_mode you_are_now from_now_on_you
    """,
)
"""Instructions to the model; such a clause has no topic."""

PROMPT = pattern_of(
    zh=r"提示词 系统提示 系统指令 系统规则 系统消息 越狱 (?:你|您)的(?:指令|设定|初始设定|内部规则)",
    en=r"""
    system_(?:prompt|message|instructions?) (?:your|hidden|initial)_(?:\w+_)?(?:prompt|instructions?) jailbreak
    dan_mode
    """,
)
"""The prompt of the model, which no evidence describes."""

TITLE = re.compile('[《「『“]([^《》「」『』“”]{1,40})[》」』”]|"([^"\n]{2,60})"')
"""Text in book-title or quotation marks."""

PERSON = pattern_of(zh="(?<![其吉])他(?![乡日]) 她", en="he she him her hers his they them their")
"""A personal pronoun."""

PRONOUN = re.compile(rf"{PERSON.pattern}|它|\b(?:it|its)\b")
"""An anaphoric pronoun."""

DEMONSTRATIVE = pattern_of(
    zh=f"""
    这{_LOCAL} 那{_LOCAL} 那(?:边|里|儿) (?<![尤极与土])其(?![实他它余次间中]) (?<![因从彼如在])此(?!外)
    (?<![应不活])该(?!不该)
    """,
    en=r"""
    (?:this|these|those)\b(?!_(?:village|place|town)) that(?=_(?:one|rule|story|person|man|woman|year)\b|\W*$)
    (?<!is_)(?<!are_)(?<!was_)(?<!were_)there(?!_(?:is|are|was|were|an?|any|no|some|be|been)\b|'s)
    """,
)
"""A demonstrative; its noun may or may not follow."""

LEADING_CONJUNCTION = re.compile(
    r"^(?:那么|那(?![个些位条座间件种样天年时里儿边]))[，,\s]*|^(?:and|but|so|then|ok|okay)\b[,\s]*"
)
"""那 and ``and`` as conjunctions at the start of a question; they refer to nothing."""

CONTINUATION = pattern_of(
    zh="""
    后来 之后 接着 接下来 然后 继续 往下 再讲 再说 多讲 多说 还有 别的 另外 其他 更多 展开 意思 含义 原因 真的 详情
    """,
    en="""
    what_about how_about then next else more again continue go_on mean(?:s|ing)? really elaborate explain
    happen(?:s|ed)?
    """,
)
"""A request to continue, without a topic."""

GENERIC = pattern_of(
    zh="""
    故事 典故 传说 例子 事例 细节 来历 来源 由来 起源 结果 内容 出处 依据 证据 影响 作用 区别 关系 特点 道理 背景
    经过 过程 当时 那时 现在 如今 年代 时间 地点 人物 名字 修建 兴建 建造 建成 建立 重修 修缮 主持 去世 出生 参加
    开始 结束 使用 流传 传下来 制定 规定 写成 写下 真 讲 说 谈 看 做 用 去 来 对 好 多 人 事 年 时 里 上 下 条 点 些
    句 个 位 样
    """,
    en="""
    stor(?:y|ies) tales? examples? details? reasons? origins? sources? evidence specific particular concrete true
    words? say says said year time date place name built build founded written wrote made died born come came any
    others? ones?
    """,
)
"""Generic words, with ``CONTINUATION``: a question that has no others takes its topic from the context."""
