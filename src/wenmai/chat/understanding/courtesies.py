"""Patterns of courtesies and of challenges, in Chinese and English, for normalised text with simplified characters."""

import re

from wenmai.chat.understanding.cues import pattern_of
from wenmai.text.patterns import any_of

_VERY = "(?:真是?|太|好|很|挺|怪|还|蛮|非常|十分|特别|实在是?|确实|多么?|相当|可真?)"
_PRAISE = any_of(
    """
    有意思 有趣 好玩 精彩 厉害 了不起 不容易 不简单 感人 感动 神奇 奇妙 美 漂亮 壮观 伟大 棒 赞 不错 妙 好听 好看
    长见识 涨知识 有学问 有道理 清楚 详细 周到 开心 高兴 遗憾 可惜 巧 难得 佩服 期待
    """
)
_PRAISE_EN = (
    "(?:interesting|fascinating|amazing|awesome|wonderful|lovely|cool|great|nice|neat|impressive|incredible|beautiful|"
    "helpful|useful|brilliant|fantastic|excellent|remarkable|funny|sad|touching|moving|sweet|perfect|clear|kind|thoughtful)"
)

COURTESY = pattern_of(
    zh=f"""
    (?:非常|十分|太|真是?)?(?:谢谢|多谢|感谢|谢过|谢了|谢啦)(?:你们|您们|你|您)?(?:的?(?:帮助|帮忙|回答|解答|讲解|介绍|分享|耐心|提醒|指点|指教|告知|关照|招待|理解))?
    (?:你|您)?辛苦(?:你|您|大家)?[了啦]? 真?没想到 算了(?:算了)? 麻烦(?:你|您)了 费心了? 受教了? 长见识了? 长知识了?
    涨知识了? 学到了? 有劳了? 承教了? 再见 拜拜 回头见 明天见 下次见 改天见 告辞
    (?:下次|改天|回头|有空)再(?:聊|来|见|说) (?:我)?(?:得|要|该|先|就){{0,3}}走了 先这样吧? 就到这(?:里|儿)?吧?
    今天就?(?:先)?到这(?:里|儿)?吧? 没有?(?:别的|其他)?问题了 没(?:有)?什么(?:要|想)问的?了 慢走 留步
    {_VERY}的?(?:{_PRAISE}) (?:{_PRAISE})[啊呀哦呢!了]+ 原来如此 原来是?这样 哇 哈+ 呵+ 嘿嘿 佩服 妙啊
    祝(?:你|您|大家)?[^,，。!?？]{{1,12}} 保重身?体? 多保重 新年快乐 新春快乐 春节快乐 中秋快乐 节日快乐 生日快乐
    周末愉快 恭喜(?:发财)? 身体健康 万事如意 一路平安 晚安
    (?:你|您)?(?:今天|中午|晚上|早上)?吃过?了?(?:饭|早饭|午饭|晚饭)?了?[吗没]
    (?:你|您)?(?:最近|近来|今天)?(?:过得|心情|身体|还)?(?:好吗|好不好|忙吗|忙不忙|怎么样啊?|可好)
    (?:你|您)(?:今天|现在)?(?:累|忙|困|冷|热|饿|渴|开心|高兴|无聊)(?:吗|不累|不忙|了吗) (?:你|您)睡(?:了|醒了)?吗
    (?:你|您)是(?:不是)?(?:真人|机器人|人类|ai|人工智能|电脑程序)吗?
    (?:你|您)(?:平时|也)?(?:喜欢|爱)[^,，。?？]{{1,6}}吗 今天?天?气?真(?:好|热|冷|不错) (?:很|真)?高兴认识(?:你|您)
    (?:你|您)[^,，。!?？]{{0,8}}(?:忙不忙|累不累|烦不烦|困不困|冷不冷|热不热|饿不饿)
    (?:今天|最近|现在)(?:忙不忙|累不累|冷不冷|热不热) 在吗 在不在
    (?:就|那就)?(?:算|当)(?:是)?我(?:记|看|听|弄|搞)错了?
    打扰(?:你|您)?一下 (?:上回|上次|这次|今天|昨天)?(?:真是|还是|这)?多亏了?(?:你|您)们?了? (?:可|真是)?帮了?我?大忙了?
    我(?:才|倒)要谢谢?(?:你|您)们? 感恩 爱(?:你|您)们? (?:周|星期|礼拜)[一二三四五六日天末]见
    (?:那|就)*(?:一会儿?|待会儿?|晚点|明早|下周|到时候?|改日)见
    (?:我)?心里有[数底]了? (?:我)?想(?:请教|咨询|打听|问)(?:一下|点事儿?|个事儿?|件事)?
    (?:我)?(?:头一回|头一次|第一次|初次)来(?:这儿|这里|你们这儿?|办事)?
    (?:我)?(?:还)?有点儿?(?:懵|紧张|晕|累|困|激动) 我?是?新来的
    (?:到时候?|改天|回头)请(?:你|您)(?:们)?(?:吃|喝)[^,，。!?？]{{1,4}}
    (?:人|事|活)多不多[呀啊]? (?:你|您|你们)?(?:真是?|太)?(?:贴心|热心|周到|细心)了?
    没关系 不客气 不用谢 对不起 抱歉 不好意思 让(?:你|您)久等了
    """,
    en=rf"""
    (?:many_|a_lot_of_)?thanks(?:_so_much|_a_lot|_a_million|_again|_anyway|_very_much)?
    thank_(?:you|u)(?:_so_much|_very_much|_a_lot|_again|_kindly)?(?:_for_[^,.!?]{{1,40}})? never_mind
    thx cheers much_appreciated
    (?:i_)?(?:really_|do_)?appreciate_(?:it|that|your_\w+)
    (?:that(?:'s|_is|_was)|this_(?:is|was))_(?:so_|very_|really_|quite_|a_)*{_PRAISE_EN}
    (?:it(?:'s|_is|_was)_)?(?:how|so|very|really|quite|most|truly|pretty)_{_PRAISE_EN} what_an?_(?:{_PRAISE_EN}_)?\w+
    {_PRAISE_EN} that_helps?(?:_a_lot)? good_to_know wow oh_wow ha(?:ha)+ bye(?:_bye)? goodbye farewell
    see_(?:you|ya)(?:_\w+)? take_care have_a_(?:nice|good|great|lovely)_\w+ good_night
    (?:talk|speak)_to_you_(?:later|soon) until_next_time
    (?:i_)?(?:have_to|must|need_to|should)_(?:go|leave|run)(?:_now)?
    that(?:'s|_is|_will_be)_all(?:_for_(?:now|today)|_i_(?:need|needed|wanted))? no_(?:more|further|other)_questions
    happy_new_year merry_christmas happy_(?:birthday|holidays|easter) all_the_best best_wishes good_luck
    congratulations get_well_soon (?:i_)?wish_you_[^,.!?]{{1,30}} you(?:'re|_are)_welcome
    how_are_(?:you|things)(?:_doing|_going)?(?:_today)? how(?:'s|_is)_(?:it_going|your_day(?:_going)?|life|everything)
    how_was_your_\w+ how_have_you_been have_you_eaten(?:_yet|_today)?
    did_you_(?:sleep_well|have_(?:lunch|dinner|breakfast)) what(?:'s|_is)_up
    are_you_(?:busy|tired|happy|hungry|ok|okay|well|cold|a_robot|a_bot|human|a_human|real|an_ai|a_real_person|a_machine)(?:_today|_now)?
    do_you_(?:like|enjoy|love)_\w+(?:_\w+)? (?:nice|lovely|beautiful|good)_weather(?:_today)? sorry my_apologies
    no_(?:problem|worries) nice_(?:talking|chatting|speaking)_(?:to|with)_you
    bless_you ta(?:_very_much)? worth_a_(?:try|shot|go) (?:i'm_)?new_here fair_winds bye_for_now
    (?:i(?:'ve|_have)?_)?just_(?:got|bought)_(?:my|our)_(?:first|new)_\w+ (?:that_)?clears_(?:it|that)_up
    i_(?:enjoyed|loved|liked)_(?:that|this|it|our_\w+|talking_(?:to|with)_you)
    """,
)
"""Thanks, a farewell, interest, a wish or small talk; words of address may remain."""

ACKNOWLEDGEMENT = pattern_of(
    zh="""
    嗯+ 好的?吧? 好嘞 好呀? 行吧? 行嘞 明白[了啦]? 了解 懂了 我懂了? 知道了 了解了? 收到 原来 噢 哦 可以了 没事了?
    不错 赞 棒 妙
    是的 对的?
    """,
    en="""
    i_see got_it i_(?:understand|get_it) understood makes_sense sounds_good fair_enough noted alright all_right right
    ok okay sure yes yeah yep oh ah fine damn hm+ well gosh whoa
    """,
)
"""An acknowledgement; a message of nothing else is a courtesy."""

THANKS_LEAD = re.compile(
    r"^(?:非常|十分|太|真是?)?(?:谢谢|多谢|感谢)|^祝|^(?:many |a lot of )?thanks\b|^thank (?:you|u)\b"
    r"|^i(?:'d| would)? (?:really )?(?:appreciate|wish you)\b"
)
"""Thanks or a wish at the start of a clause, which states no fact whatever follows: 谢谢你讲的故事."""

CHALLENGE = pattern_of(
    zh="""
    (?:你|您)?(?:真的|能|敢)?确定(?:是)?(?:这样|吗|么|没|不)
    (?:是|当)?真的(?:没有?|不是?|不能|会|可以|有)?(?:了)?(?:吗|么|假的) 当真
    (?:好像|恐怕|似乎|这|那)?不(?:太)?对(?:吧|啊|呀|哦|劲)?(?![面方头话比]) 不是吧 不会吧 不可能
    (?:你|您)?(?:是不是|没有?)?(?:说|讲|记|搞|弄|看)错了? 错了(?:吧|啊)? 怎么(?:会|可能)(?:是)?
    我?不(?:太)?(?:相信|信) 有(?:什么)?(?:把握|根据|依据|凭据|证据)吗 有什么(?:根据|依据|凭据|证据)
    凭什么(?:这么)?说? (?:根据|依据)(?:是|在)?(?:什么|哪) 出处(?:是|在)?(?:什么|哪) 靠谱吗 可靠吗 骗人 瞎说 胡说 少来
    得了吧 别逗 哪有 没那么 不见得 (?:没|不)(?:有)?(?:搞|弄|记)?(?:错|骗我)吧? 我怀疑 (?:再)?(?:核实|确认)一?[下遍]
    """,
    en=r"""
    are_you_(?:really_|quite_|absolutely_|so_)?(?:sure|certain|positive) you_sure really for_real seriously
    is_(?:that|this|it)_(?:really_|actually_)?(?:right|true|correct|so|accurate)(?=\W*$)
    that(?:'s|_is)_(?:not|n't)_(?:right|true|correct|so|what) that_is_n't
    that_(?:can't|cannot|can_not|doesn't|does_not|couldn't)_(?:be|sound|seem)(?:_(?:right|true|correct))?
    (?:that|this)(?:'s|_is)_(?:wrong|incorrect|false|a_mistake)
    you(?:'re|_are|_must_be|_may_be|_might_be)_(?:wrong|mistaken)
    (?:that|this|it)_(?:isn't|wasn't)_(?:right|true|correct) no_way
    i_(?:don't|do_not|can't)_(?:think_so|believe_(?:that|you|it)) i_doubt(?:_that|_it)?
    i'm_not_(?:so_)?sure(?:_about_that)? surely_not not_true nah nope come_on hang_on wait_a_(?:minute|second)
    hold_on wrong how_do_you_know says_who
    what(?:'s|_is)_(?:your|the)_(?:source|evidence|proof)(?:_(?:for|of)_(?:that|this|it))? (?:double|re)[_-]?check
    """,
)
"""A challenge to an answer."""

HEARSAY = pattern_of(
    zh=r"""
    (?:可是?|但是?|不过|然而|可)?我(?:[^,，。]{0,3}?)(?:听[^,，。]{0,4}?(?:说|讲)|看到|读到|查到|记得|以为|印象中?|觉得)
    (?:有人|别人|人家|网上|书上|他们|朋友|同事|导游|老师|家人|手册上|牌子上|攻略上?|百度|医生|护士|客服|柜员|邻居)[^,，。]{0,6}?(?:说|讲|写)
    (?:明明|应该|难道)(?:不?是)? 不是[^,，。?？]{1,24}(?:吗|么) (?:可是|但是?|不过)(?=[^,，。]{0,30}\d)
    """,
    en=r"""
    (?:but_)?i_(?:have_|had_|was_|once_|always_|just_|'ve_)*(?:heard|read|thought|told|saw|seen|remember(?:ed)?|believe(?:d)?|learned|assumed)(?:_(?:that|somewhere|online))?
    i_was_(?:told|under_the_impression)(?:_that)?
    (?:someone|somebody|people|they|others|wikipedia|(?:the|my|a|an|your|this|that|one_of_the|some)_\w+(?:_\w+){0,4}?)_(?:said|says|say|told_(?:me|us)|tells_me|claims?|claimed|wrote|swears|swore|insists)(?:_that)?
    (?:wasn't|isn't|aren't|weren't|didn't|doesn't|don't)_(?:it|that|he|she|they|there)
    """,
)
"""A statement of the user, from hearsay or memory."""
