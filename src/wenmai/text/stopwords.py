"""Stop words; lexical search removes them from queries."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_ZH = _words(
    # In this order: function words, pronouns and demonstratives, question words, polite phrases.
    """
    的 了 吗 现在 如今 目前 嘛 呢 吧 啊 呀 哦 哟 呗 嗯 么 是 有 有过 在 被 与 及 和 或 也 都 还 又 就 很 再 嗎 是不是
    有没有 是否 其实 的话 而且 但是 不过 因为 所以 如果 虽然 关于 对于 以及 还是 就是 还有 另外 然后 那么
    到底 究竟 我 你 您 他 她 它 我们 你们 他们 她们 它们 咱 咱们 自己 大家 这 那 这个 那个 这些 那些 这里
    那里 这儿 那儿 这样 那样 此 该 其 其中 這 這個 我們 什么 什么样 是什么 是什么时候 是什么人 是什么地方
    有什么 为什么 为啥 啥 什么意思 叫什么 叫什么名字 什么名字 什么时候 何时 何地 何处 何人 为何 如何 怎么
    怎样 怎么样 怎么回事 哪 哪些 有哪些 哪个 哪一个 哪里 哪儿 在哪 在哪里 在哪儿 哪位 哪一位 哪年 哪一年
    哪天 哪一天 几 几个 几时 多少 有多少 多久 多大 多长 谁 是谁 什麼 為什麼 请 请问 问一下 想问 想问一下
    要 需要 要不要 需不需要 应该 该不该 应不应该
    想知道 我想知道 我想了解 想了解 知道 告诉 告诉我 请告诉我 给我 帮我 麻烦 能 能不能 能否 可以 可否
    可不可以 讲讲 讲一讲 讲一下 说说 说一说 说一下 谈谈 谈一谈 聊聊 聊一聊 介绍 介绍一下 解释 解释一下 一下
    具体 详细 你好 您好 谢谢 请讲 请说 請問 說說
    """
)
"""Chinese stop words, removed from a query before it is split into bigrams; the longest match wins."""

CONTENT_ZH = _words(
    """
    要求 要点 要素 要件 要约 要害 要塞 主要 重要 必要 只要 次要 首要 摘要 纪要 提要 概要 需求
    目的 的士 的确 了解 了结 为了 得了 酒吧 网吧 是非 国是 所有 拥有 有名 有余 有限 有效
    有关 有机 有害 有毒 有利 有偿 有意 有序 有色 有望 有待 国有 私有 共有 固有 特有 含有
    持有 占有 享有 具有 稀有 原有 现有 存在 自在 在线 在职 在校 在读 在建 在途 在编 在岗
    在场 在家 内在 外在 潜在 被子 棉被 植被 被告 被褥 被害 被单 被套 被动 与会 参与 赠与
    给与 普及 涉及 及格 及时 波及 顾及 危及 提及 触及 和睦 和平 和气 和谐 和善 和尚 和解
    和约 和弦 和声 和服 和田 中和 饱和 温和 缓和 总和 共和 祥和 柔和 也门 首都 成都 都市
    都督 都护 古都 京都 迁都 定都 建都 国都 还愿 还款 还清 还贷 还书 还原 还本 还给 归还
    偿还 退还 交还 返还 送还 借还 奉还 往还 就业 就医 就诊 就餐 就职 就读 就近 就地 就任
    就绪 成就 造就 迁就 再次 再生 再版 再婚 再审 再保险 再贷款 自我 我国 其他 其它 其余
    其次 尤其 吉他 他人 维他命 自己人 大家族 此外 彼此 那达慕 几何 几率 几代 几世
    茶几 申请 请假 请柬 请求 请示 请客 邀请 聘请 提请 报请 恳请 能力 能人 能源 能量 能耗
    能效 能手 才能 技能 功能 性能 智能 节能 职能 机能 效能 潜能 核能 电能 热能 太阳能
    可能 万能 全能 与人为善 现在 不过期 不过敏 不过夜 不过户 哪吒
    """
)
"""Content words that contain a stop word; they are kept whole."""

STOP_EN = _words(
    """
    a about am an and any are aren't as at be been being but by can can't cannot could couldn't did didn't
    do does doesn't doing don't for from had hadn't has hasn't have haven't having he he'd he'll he's her
    hers herself him himself his how how's i i'd i'll i'm i've if in into is isn't it it'd it'll it's its
    itself just let let's me my myself no nor not of off on once or our ours ourselves please s she she'd
    she'll she's should shouldn't so some such t tell than that that's the their theirs them themselves then
    there there's these they they'd they'll they're they've this those to too us very was wasn't we we'd
    we'll we're we've were weren't what what's when when's where where's which while who who's whom whose
    why why's with won't would wouldn't you you'd you'll you're you've your yours yourself yourselves
    """
)
"""English stop words of queries and index; not ``may`` and ``will``: a month, a name."""
