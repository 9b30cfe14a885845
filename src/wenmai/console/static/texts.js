// The words of the pages, in Chinese and English.

const TEXTS = {
  zh: {
    skip: "跳到输入框", sessions: "对话列表", close: "关闭", newTalk: "新对话", search: "搜索对话", api: "接口文档", console: "控制台",
    otherLanguage: "Switch to English", languageMark: "EN", theme: "切换深色或浅色", personas: "与谁交谈",
    incognito: "无痕", preferences: "偏好", conversation: "对话", suggestions: "可以接着问", question: "输入问题……",
    send: "发送", stop: "停止", today: "今天", yesterday: "昨天", earlier: "更早", untitled: "新对话", rename: "改名",
    delete: "删除", deleted: "已删除", undo: "撤销", copy: "复制", copied: "已复制", again: "重试", inspect: "为什么这样答",
    source: "出处", thinking: "正在回答", stopped: "已停止", unfinished: "这个回答没有完成", retrying: "连接断开，正在重试……",
    conservative: "记载不足，未作断言", refuse: "不便回答", failed: "出错了", key: "API 密钥或令牌", keyNeeded: "这个服务需要 API 密钥或令牌",
    signIn: "登录", noSessions: "还没有对话", nothingFound: "没有找到", title: "标题", save: "保存", export: "导出", older: "更早的消息",
    verbosity: "详略", brief: "简短", normal: "适中", detailed: "详细", tone: "语气", casual: "随和", formal: "正式",
    respectful: "恭敬", answerLanguage: "回答语言", tags: "兴趣", addTag: "添加兴趣", afterFirst: "第一问之后才能设定偏好",
    clear: "清除", chosen: "你选的", partly: "暂时不可用：#。这个回答可能不如平时完整",
    part_model: "语言模型", part_embedder: "按意思检索", part_search: "查找证据", part_recall: "回忆从前的对话", part_summary: "对话摘要",
    part_state: "业务状态", part_understanding: "理解问题的模型", part_verifier: "核验的模型", saved: "已保存", inspectTitle: "这一轮的依据", blocks: "模型看到的内容", tokens: "词元", cut: "裁去",
    steps: "步骤", evidence: "证据", removed: "被去掉的句子", replaced: "换成", decision: "判断", intent: "问句类型",
    mode: "方式", reason: "原因", searched: "检索用语", model: "模型", versions: "版本", degraded: "降级", noTrace: "这一轮没有记录",
    milliseconds: "毫秒", table: "数据表", domain: "领域", verified: "已核实", unverified: "未核实", resumed: "回答还在生成，稍候",
    user: "你", asked: "问题", persona: "人设", prompt: "提示词", ownPrompt: "人设自带提示词", premises: "未证实的前提", feedback: "你的评价",
    cited: "引用", used: "用途", state: "业务状态", field: "项目", before: "之前", after: "之后", changes: "变化", unchanged: "这一轮没有变化",
    businessIntent: "意图", active_domain: "领域", business_object: "对象", operation_stage: "环节", inferred: "推断自", turn: "第 # 轮", earlierTurn: "那一轮在更早的消息里", incognitoHint: "无痕提问，不影响偏好……", same: "与当时相同", replay: "重放", replayTitle: "用同样的内容再答一次", running: "正在重放……",
    then: "当时的回答", now: "这次的回答", unverifiedAnswer: "未经核验", up: "有帮助", down: "没帮上", why: "为什么？（可不填）", assistant: "回答", role: "我的身份", noRole: "不限",
    object: "当前业务", noObject: "未指明", customer: "客户", stages: "所处环节", setStage: "改为这一环节", corrected: "已更正", operation: "当前业务", welcome: "想问什么都可以。事实只来自证据，没有记载就直说。", step: "步骤", status: "状态", kind: "内容", score: "得分",
  },
  en: {
    skip: "Skip to the question", sessions: "Conversations", close: "Close", newTalk: "New conversation",
    search: "Search conversations", api: "API", console: "Console", otherLanguage: "切换到中文", languageMark: "中", theme: "Dark or light",
    personas: "Talk with", incognito: "Incognito", preferences: "Preferences", conversation: "Conversation",
    suggestions: "You may ask", question: "Ask a question…", send: "Send", stop: "Stop", today: "Today", yesterday: "Yesterday",
    earlier: "Earlier", untitled: "New conversation", rename: "Rename", delete: "Delete", deleted: "Deleted", undo: "Undo",
    copy: "Copy", copied: "Copied", again: "Try again", inspect: "Why this answer", source: "Source", thinking: "Answering",
    stopped: "Stopped", unfinished: "This answer was not completed", retrying: "Connection lost, trying again…",
    conservative: "Not enough in the records, nothing is claimed", refuse: "Not answered", failed: "Something went wrong",
    key: "API key or token", keyNeeded: "This service needs an API key or a token", signIn: "Sign in", noSessions: "No conversations yet",
    nothingFound: "Nothing found", title: "Title", save: "Save", export: "Export", older: "Earlier messages",
    verbosity: "Length", brief: "brief", normal: "normal", detailed: "detailed", tone: "Tone", casual: "casual",
    formal: "formal", respectful: "respectful", answerLanguage: "Language of answers", tags: "Interests",
    addTag: "Add an interest", afterFirst: "Preferences can be set after the first question", clear: "Clear", chosen: "your choice", saved: "Saved",
    partly: "Not available just now: #. This answer may be less complete than usual",
    part_model: "the language model", part_embedder: "search by meaning", part_search: "search of the evidence", part_recall: "recall of earlier talk", part_summary: "the summary of the talk",
    part_state: "the business state", part_understanding: "the model that reads questions", part_verifier: "the model that verifies",
    inspectTitle: "Why this answer", blocks: "What the model saw", tokens: "tokens", cut: "cut", steps: "Steps",
    evidence: "Evidence", removed: "Removed statements", replaced: "replaced by", decision: "Decision", intent: "Dialogue act",
    mode: "Mode", reason: "Reason", searched: "Searched for", model: "Model", versions: "Versions", degraded: "Degraded",
    noTrace: "There is no trace of this turn", milliseconds: "ms", table: "As a table", domain: "Domain",
    verified: "verified", unverified: "unverified", resumed: "The answer is still being made",
    user: "You", asked: "Question", persona: "persona", prompt: "prompt", ownPrompt: "prompt of the persona", premises: "Unsupported premises",
    feedback: "Your feedback", cited: "cited", used: "Use", state: "Business state", field: "Field", before: "Before", after: "After",
    changes: "Changes", unchanged: "Not changed by this turn", businessIntent: "Intent", active_domain: "Domains", business_object: "Object", operation_stage: "Stage",
    inferred: "inferred from", turn: "turn #", earlierTurn: "That turn is among the earlier messages", incognitoHint: "Ask without changing preferences…", same: "as it was", replay: "Replay", replayTitle: "Answer the same again", running: "Running…", then: "The answer then", now: "The answer now", unverifiedAnswer: "not verified", up: "Helpful", down: "Not helpful", why: "Why? (optional)", assistant: "Answer", role: "I am", noRole: "any role",
    object: "Working on", noObject: "nothing named", customer: "Customer", stages: "Stage", setStage: "Set this stage",
    corrected: "Corrected", operation: "Current operation", welcome: "Ask anything. Facts come from evidence only; where there is none, the answer says so.",
    step: "Step", status: "Status", kind: "Block", score: "Score",
  },
};

let current = localStorage.getItem("wenmai.language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export const language = () => current;

/** The parts of the service that failed for an answer, in words; a cache that failed changes no answer and has none. */
export const failedParts = (names) => names.map((each) => TEXTS[current][`part_${each}`]).filter(Boolean).join(current === "zh" ? "、" : ", ");

/** The text of a key in the current language. */
export const text = (key) => TEXTS[current][key] ?? key;

/** Of texts by language, such as a persona's name, the one of the current language. */
export const localized = (texts) => texts?.[current] ?? Object.values(texts ?? {})[0] ?? "";

export function switchLanguage() {
  current = current === "zh" ? "en" : "zh";
  localStorage.setItem("wenmai.language", current);
}

/** Fill in the texts of the page itself. */
export function translatePage() {
  document.documentElement.lang = current;
  for (const each of document.querySelectorAll("[data-text]")) each.textContent = text(each.dataset.text);
  for (const each of document.querySelectorAll("[data-label]")) each.setAttribute("aria-label", text(each.dataset.label));
  for (const each of document.querySelectorAll("button[data-label]")) each.title = text(each.dataset.label);
  for (const each of document.querySelectorAll("[data-placeholder]")) each.placeholder = text(each.dataset.placeholder);
}
