"""Lexicon of events and entities: the synonyms by which a sentence is matched with a question."""

import re

from wenmai.text.patterns import any_of

_EVENTS = {
    "rebuild": any_of(
        r"""
        重修 重建 再建 复建 重葺 修缮 翻修 大修 维修 修葺 整修 修复 恢复 \brebuil[dt]\w* \brestor\w+
        \brepair\w* \brenovat\w+ \breconstruct\w* \brefurbish\w*
        """
    ),
    "enlarge": any_of(r"扩建 增修 增建 加建 \benlarg\w+ \bextend\w* \bexpan[ds]\w* \badded\b"),
    "compile": any_of(
        r"""
        修谱 续修 初修 三修 编修 修纂 纂修 编纂 编写 编印 撰写 刊刻 修过 \bcompil\w+ \bedited\b
        \bprinted\b
        """
    ),
    "order": any_of(
        r"""
        订立 制定 定下 立下 写定 订下 家训成
        (?<=家训)(?:是谁|由谁|谁|什么时候|何时|哪一?年)(?:立|定|写|订) \bwr(?:ote|itten)\b \blaid_down\b
        \bset_down\b \bdrawn_up\b
        """
    ),
    "build": any_of(
        r"""
        始建 兴建 修建 建造 建成 落成 竣工 创建 建立 建于 修于 修筑 营建 开建 动工 创立 创办 设立 开办
        (?<![福封])建(?!议|康|文|炎|安|隆|宁|德|置) 修(?!养|身|行|辞|改|订|谱|书|过) 盖(?!章|头)
        造(?!就|诣|型|谣) 筑(?!物) 立于 \bbuil[dt](?:ing)?\b \bfound(?:ed|ing)\b \bconstruct\w*
        \berect\w* \bestablish\w* \bset_up\b \bcreated\b
        """
    ),
    "dig": any_of(
        r"""
        开凿 挖掘 开挖 凿(?!空) 挖 开渠 修渠 开(?=[^，。]{0,4}渠|出) (?<=[谁时年月人])开的 \bdug\b
        \bdig\b \bdigging\b
        """
    ),
    "destroy": any_of(
        r"""
        毁 焚 烧 倒塌 坍塌 拆除 拆掉 冲垮 冲毁 冲走 火灾 失火 着火 \bdestroy\w* \bburn(?:ed|t|ing)?\b
        \bcollaps\w+ \bdemolish\w* \bfire\b \bswept_away\b
        """
    ),
    "flood": any_of(r"洪水 大水 水灾 发水 涨水 \bflood\w*"),
    "drought": any_of(r"大旱 旱灾 \bdroughts?\b"),
    "birth": any_of(
        r"""
        出生 诞生 诞辰 生于 降生 生辰 哪一?年生 何年生 时候生 (?<=年)生(?=$|[，。？于的]) \bborn\b
        \bbirth\b
        """
    ),
    "death": any_of(
        r"""
        去世 逝世 卒 病故 身故 亡故 过世 死于 死的 哪一?年死 终年 \bdied\b \bdeath\b \bdie\b
        \bpassed_away\b
        """
    ),
    "move": any_of(
        r"""
        迁居 迁到 迁来 迁入 迁徙 迁往 分迁 迁至 迁(?=$|[的于，。]) 搬到 搬来 搬迁 定居 移居 徙居
        从哪[里儿]来 哪[里儿]来的 来自 从[^，。]{1,8}来 \bmov(?:ed?|ing)\b \bmigrat\w+
        \bsettl(?:ed?|ing)\b \brelocat\w+ \bcame_(?:here|there|from|to)\b \bcome_(?:here|from)\b
        """
    ),
    "plant": any_of(r"栽 种下 种植 手植 \bplant(?:ed|ing)?\b"),
    "examine": any_of(r"中举 考中 中进士 登科 及第 考取 \bgraduate\b \bpassed_the\b"),
    "marry": any_of(r"娶 嫁 成婚 成亲 \bmarri(?:ed|age)\b"),
    "list": any_of(r"列为 公布 评为 列入 \blisted\b \bdesignated\b"),
    "hold": any_of(r"祭祖 祭祀 举行 举办 \bheld\b \bsacrific\w+ \bcelebrat\w+"),
}
EVENTS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _EVENTS.items()}
"""Events by group of synonyms; matches of an earlier group are cut out before the later ones are searched."""

ONE_TIME_EVENTS = frozenset({"order", "build", "dig", "birth", "death", "examine", "list"})
"""Events that happen once: two years for one conflict."""

_ENTITIES = {
    "hall": any_of(r"祠堂 宗祠 家祠 祖祠 祠(?!堂) \bhalls?\b(?!_(?:names?|facing))"),
    "bridge": any_of(r"桥(?!头|墩) \bbridges?\b"),
    "pagoda": any_of(r"塔 \bpagodas?\b"),
    "temple": any_of(r"(?<!家)[庙寺](?!会) \btemples?\b \bshrines?\b"),
    "school": any_of(r"书院 学堂 私塾 义学 小学(?!教室) \bacadem(?:y|ies)\b \bschools?\b"),
    "arch": any_of(r"牌坊 牌楼 \barchways?\b"),
    "gatehouse": any_of(r"门楼 \bgatehouses?\b"),
    "stage": any_of(r"戏台 戏楼 \bstages?\b"),
    "canal": any_of(r"渠(?!口|线|泥|成) 圳 \bcanals?\b"),
    "weir": any_of(r"陂 堰 \bweirs?\b"),
    "reservoir": any_of(r"水库 \breservoirs?\b"),
    "genealogy": any_of(r"族谱 家谱 宗谱 谱书 \bgenealog(?:y|ies)\b"),
    "precepts": any_of(r"家训 祖训 族规 家规 \bprecepts?\b"),
    "village": any_of(
        r"""
        (?<![全各本邻两])村(?![民人里中口东西南北头尾内外委志史落名]) \bvillages?\b
        """
    ),
    "well": any_of(r"(?<!市)井(?!井|然) \b(?:old|stone|village|ancient|deep)_wells?\b"),
    "tree": any_of(r"樟树 榕树 古树 大树 \btrees?\b \bcamphor\b"),
    "stele": any_of(r"碑(?!文|记|上) \bsteles?\b \bstelae\b \btablets?\b"),
    "granary": any_of(r"义仓 粮仓 \bgranar(?:y|ies)\b"),
    "house": any_of(r"民居 老宅 故居 宅院 \bhouses?\b \bresidences?\b"),
    "pavilion": any_of(r"凉亭 亭子 (?<=[\u4e00-\u9fff])阁 \bpavilions?\b"),
    "street": any_of(r"石板街 老街 \bstreets?\b"),
    "drum": any_of(r"大鼓 鼓楼 \bdrums?\b"),
}
ENTITY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _ENTITIES.items()), re.IGNORECASE)
"""Entities of a village; the name of the matching group is the entity."""

PERSON_WORDS = re.compile(
    any_of(
        r"""
        族人 村民 先祖 始祖 祖先 始迁祖 世祖 后人 子孙 工匠 族长 乡绅 族众 众人 房长 先生 长老 村里人
        全村 各房 合力 合修
        \b(?:clansmen|villagers?|ancestors?|founder|forebears?|craftsmen|masons?|elders?|families|settler|head_of_the_clan)\b
        """
    ),
    re.IGNORECASE,
)
"""Persons without a name; they answer *who*."""

PLACE_WORDS = re.compile(
    any_of(
        r"""
        位于 坐落 地处 座落 背靠 面对 面临 村口 村头 村[东西南北中] [东西南北]侧 [山桥]脚 [溪河江]边
        西北 东北 西南 东南 离县城 在[^，。；]{1,12}[里边侧旁东西南北前后上下口]
        从[^，。；]{1,12}(?:迁|来|引|流)
        \b(?:stands?|located|lies|situated|faces|north|south|east|west|beside|foot_of|in_front_of|near|at_the|from)\b
        """
    ),
    re.IGNORECASE,
)
"""Words that give a location; they answer *where*."""
