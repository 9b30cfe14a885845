"""Reigns, dynasties and the sexagenary cycle, mapped to western years.

The first years are those of the standard chronologies of Chinese era names (the lunar year is taken as the
western year that contains most of it). A reign name that was used twice (至元) means the longer use.
"""

from itertools import pairwise

from wenmai.text.patterns import pairs, word_list

_LISTS = {
    "唐": """
        武德618 贞观627 永徽650 显庆656 开元713 天宝742 乾元758 宝应762 广德763 大历766 建中780 贞元785
        元和806 长庆821 宝历825 大和827 开成836 会昌841 大中847 咸通860 乾符874 广明880 中和881 光启885
        龙纪889 景福892 乾宁894 光化898 天祐904-907
    """,
    "宋": """
        建隆960 乾德963 开宝968 太平兴国976 雍熙984 端拱988 淳化990 至道995 咸平998 景德1004
        大中祥符1008 天禧1017 乾兴1022 天圣1023 明道1032 景祐1034 宝元1038 康定1040 庆历1041 皇祐1049
        至和1054 嘉祐1056 治平1064 熙宁1068 元丰1078 元祐1086 绍圣1094 元符1098 建中靖国1101 崇宁1102
        大观1107 政和1111 重和1118 宣和1119 靖康1126 建炎1127 绍兴1131 隆兴1163 乾道1165 淳熙1174
        绍熙1190 庆元1195 嘉泰1201 开禧1205 嘉定1208 宝庆1225 绍定1228 端平1234 嘉熙1237 淳祐1241
        宝祐1253 开庆1259 景定1260 咸淳1265 德祐1275 景炎1276 祥兴1278-1279
    """,
    "元": """
        中统1260 至元1264 元贞1295 大德1297 至大1308 皇庆1312 延祐1314 至治1321 泰定1324 天历1328
        至顺1330 元统1333 至正1341-1368
    """,
    "明": """
        洪武1368 建文1399 永乐1403 洪熙1425 宣德1426 正统1436 景泰1450 天顺1457 成化1465 弘治1488
        正德1506 嘉靖1522 隆庆1567 万历1573 泰昌1620 天启1621 崇祯1628-1644
    """,
    "清": "顺治1644 康熙1662 雍正1723 乾隆1736 嘉庆1796 道光1821 咸丰1851 同治1862 光绪1875 宣统1909-1912",
    "民国": "民国1912-1949",
}

DYNASTIES: dict[str, tuple[int, int]] = {
    "夏": (-2070, -1600),
    "商": (-1600, -1046),
    "周": (-1046, -256),
    "秦": (-221, -206),
    "汉": (-202, 220),
    "晋": (265, 420),
    "隋": (581, 618),
    "唐": (618, 907),
    "五代": (907, 960),
    "宋": (960, 1279),
    "北宋": (960, 1127),
    "南宋": (1127, 1279),
    "元": (1271, 1368),
    "明": (1368, 1644),
    "清": (1636, 1912),
    "民国": (1912, 1949),
}
"""Each dynasty with its first and last year."""


def _reigns() -> dict[str, tuple[str, int, int]]:
    found: dict[str, tuple[str, int, int]] = {}
    for dynasty, listed in _LISTS.items():
        body, _, last = listed.rpartition("-")
        entries = [(item.rstrip("0123456789"), item) for item in word_list(body)]
        starts = [int(item[len(name) :]) for name, item in entries]
        ends = [later for _, later in pairwise(starts)] + [int(last)]
        found |= {name: (dynasty, start, end) for (name, _), start, end in zip(entries, starts, ends, strict=True)}
    return found


REIGNS = _reigns()
"""Each reign name with its dynasty, first and last western year."""

ROMANISED = pairs(
    """
    hongwu=洪武 jianwen=建文 yongle=永乐 hongxi=洪熙 xuande=宣德 zhengtong=正统 jingtai=景泰 tianshun=天顺
    chenghua=成化 hongzhi=弘治 zhengde=正德 jiajing=嘉靖 longqing=隆庆 wanli=万历 taichang=泰昌
    tianqi=天启 chongzhen=崇祯 shunzhi=顺治 kangxi=康熙 yongzheng=雍正 qianlong=乾隆 jiaqing=嘉庆
    daoguang=道光 xianfeng=咸丰 tongzhi=同治 guangxu=光绪 xuantong=宣统 zhenguan=贞观 kaiyuan=开元
    qingli=庆历 xining=熙宁 zhizheng=至正
    """
)
"""Romanised reign names, in lower case."""

DYNASTIES_EN = pairs(
    """
    xia=夏 shang=商 zhou=周 qin=秦 han=汉 jin=晋 sui=隋 tang=唐 song=宋 northern_song=北宋
    southern_song=南宋 yuan=元 ming=明 qing=清
    """
)
"""English names of dynasties, in lower case."""

_STEMS = "甲乙丙丁戊己庚辛壬癸"
_BRANCHES = "子丑寅卯辰巳午未申酉戌亥"


def year_of_reign(reign: str, number: int) -> int | None:
    """The western year of a reign's year ``number`` (from 1); None if the reign is unknown or was shorter."""
    if reign not in REIGNS:
        return None
    _, start, end = REIGNS[reign]
    return start + number - 1 if 1 <= number <= end - start + 1 else None


def reigns_of_year(year: int) -> list[str]:
    """The reign names in use in a western year."""
    return [name for name, (_, start, end) in REIGNS.items() if start <= year <= end]


def dynasties_of_year(year: int) -> list[str]:
    """The dynasties that a western year falls in; two around a change."""
    return [name for name, (start, end) in DYNASTIES.items() if start <= year <= end]


def sexagenary(year: int) -> str:
    """The stem and branch of a western year of our era: 癸未 for 1523."""
    return _STEMS[(year - 4) % 10] + _BRANCHES[(year - 4) % 12]
