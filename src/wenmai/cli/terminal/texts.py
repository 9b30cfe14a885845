"""User interface texts of the terminal chat, in Chinese and English."""

_TEXTS = {
    "you": ("你", "You"),
    "welcome": (
        "你正在与{name}交谈。输入 /help 查看命令，Ctrl-D 离开。",
        "You are talking with {name}. /help lists the commands, Ctrl-D quits.",
    ),
    "farewell": ("下次接着谈：wenmai chat --session {session}", "To continue: wenmai chat --session {session}"),
    "conservative": ("（证据不足，答得保守）", "(conservative answer: insufficient evidence)"),
    "refuse": ("（此话题不谈）", "(forbidden topic)"),
    "degraded": ("（降级：{parts}）", "(degraded: {parts})"),
    "final": ("（以下为定稿）", "(the final answer)"),
    "sources": ("出处", "Sources"),
    "followups": ("还可以问", "You may also ask"),
    "unknown_command": ("没有 {name} 这个命令；/help 列出全部。", "There is no {name}; /help lists the commands."),
    "new": ("新的会话开始了。", "A new session begins."),
    "no_session": ("还没有会话，先问点什么吧。", "There is no session yet; ask something first."),
    "no_trace": ("还没有可解释的回答。", "There is no answer to explain yet."),
    "no_sessions": ("没有会话。", "There are no sessions."),
    "untitled": ("（无题）", "(untitled)"),
    "persona_now": ("现在由{name}作答。", "You are now talking with {name}."),
    "continued": ("接着谈：{title}", "Continuing: {title}"),
    "prefs_help": (
        "修改：/prefs tone=casual verbosity=brief language=en +茶 -天气",
        "To change: /prefs tone=casual verbosity=brief language=en +tea -weather",
    ),
    "prefs_bad": ("看不懂 {word}", "not understood: {word}"),
    "help_persona": (
        "列出角色，或换一位：/persona 编号",
        "list the personas, or switch: /persona ID",
    ),
    "help_prefs": ("查看或修改偏好", "show or change your preferences"),
    "help_why": ("解释上一个回答：步骤、证据、提示词", "explain the last answer: steps, evidence, prompt"),
    "help_new": ("开始新的会话", "begin a new session"),
    "help_sessions": (
        "列出会话，或接着谈其中一个：/sessions 编号",
        "list your sessions, or continue one: /sessions ID",
    ),
    "help_help": ("本帮助", "this help"),
    "help_quit": ("离开", "quit"),
    "why_question": ("问题", "Question"),
    "why_searched": ("检索用的问题", "Search query"),
    "why_intent": ("意图", "Intent"),
    "why_mode": ("模式", "Mode"),
    "why_model": ("模型", "Model"),
    "why_steps": ("步骤", "Steps"),
    "why_evidence": ("证据（✓ 为引用）", "Evidence (✓ cited)"),
    "why_blocks": ("提示词各块", "Blocks of the prompt"),
    "why_removed": ("无证据而删去", "Removed as unsupported"),
    "tokens": ("词元", "tokens"),
}


def ui_text(key: str, language: str, **values: object) -> str:
    """The text in ``zh`` or ``en``, formatted with the values."""
    chinese, english = _TEXTS[key]
    return (chinese if language == "zh" else english).format(**values)
