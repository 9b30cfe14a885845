"""A profile of another trade than the shipped ones: a clinic, with business rules and a few passages."""

from pathlib import Path

PERSONA = """
    summary: {en: Answers from the handbook.}
    system: {en: Answer from the evidence.}
    greetings: {zh: [您好。]}
    openings: {zh: [""]}
    closings: {zh: [""]}
    conservative: {zh: ["关于{topic}，没有写明。"]}
    refusals: {zh: [这件事不便谈。]}
    out_of_scope: {zh: [这里不谈。]}
    clarifications: {zh: [您指什么？]}
    acknowledgements: {zh: [记下了。]}
"""
PROFILE = f"""
name: clinic
settings: {{sample_sites: [default/default], language: zh}}
personas:
  - npc_id: nurse
    name: {{zh: 护士}}{PERSONA}
  - npc_id: desk
    name: {{zh: 前台}}{PERSONA}
evidence: [clinic.jsonl]
business: clinic.rules.yaml
"""
RULES = """
intents:
  procedure: {words: [怎么, 如何, 流程], domains: [guide]}
  fee: {words: [多少钱, 费用], domains: [fees]}
domains: {guide: [], fees: []}
objects:
  核磁共振: {words: [核磁, 磁共振]}
  超声: {words: [B超, 彩超]}
stages: {预约: [], 检查: [], 取报告: [拿报告]}
customers: ['病历号\\s*(\\d{5})']
filters: [domain, object]
"""
PASSAGES = [
    ("guide", "核磁共振", "核磁共振须提前3天在二楼窗口预约。"),
    ("guide", "核磁共振", "核磁共振取报告在检查后第2天，到五楼东侧领取。"),
    ("guide", "超声", "超声预约当天即可，在一楼大厅办理。"),
    ("guide", "超声", "超声取报告在检查后30分钟，到一楼西侧领取。"),
    ("fees", "核磁共振", "核磁共振每个部位收费620元。"),
    ("fees", "超声", "超声每个部位收费110元。"),
]


def write_clinic(folder: Path) -> Path:
    """Write the clinic's profile, with rules and passages, into the folder; returns its path."""
    lines = [
        f'{{"evidence_id": "c{number}", "title": "{thing}手册", "text": "{text}", "domains": ["{domain}"],'
        f' "tags": ["{thing}"], "source_ref": "手册", "language": "zh"}}'
        for number, (domain, thing, text) in enumerate(PASSAGES)
    ]
    (folder / "clinic.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "clinic.rules.yaml").write_text(RULES, encoding="utf-8")
    (folder / "clinic.yaml").write_text(PROFILE, encoding="utf-8")
    return folder / "clinic.yaml"
