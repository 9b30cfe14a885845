"""Rules for keys and tokens whose issuers mark them: the documented prefixes, alphabets and lengths."""

from wenmai.text.redact.rule import Found, Kind, Rule, Span, expression

_PREFIXED = (
    r"(?:A3T[0-9A-Z]|AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA)[0-9A-Z]{16}",  # AWS
    r"ABSK[0-9A-Za-z+/]{60,}={0,2}",  # AWS Bedrock
    r"gh[pousr]_[0-9A-Za-z]{20,255}",  # GitHub
    r"github_pat_[0-9A-Za-z_]{22,255}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[0-9A-Za-z_\-]{16,}(?:\.[0-9a-z]{2}\.?[0-9a-z]{7,9})?",
    r"GR1348941[0-9A-Za-z_\-]{20,}",  # GitLab, as the one before
    r"sk-ant-[a-z0-9]{2,12}-[0-9A-Za-z_\-]{16,}",  # Anthropic
    r"sk-(?:proj|svcacct|admin|None)-[0-9A-Za-z_\-]{16,}",  # OpenAI
    r"sk-or-v1-[0-9a-f]{32,}",  # OpenRouter
    r"sk-[0-9A-Za-z]{16,}",  # OpenAI, DeepSeek, Moonshot
    r"sk-lf-[0-9a-f-]{30,}|pk-lf-[0-9a-f-]{30,}|lsv2_(?:pt|sk)_[0-9a-f]{20,}_[0-9a-f]{8,}",  # Langfuse, LangSmith
    r"(?:sk|rk|pk)_(?:live|test|prod)_[0-9A-Za-z]{10,}|whsec_[0-9A-Za-z+/=]{16,}",  # Stripe
    r"xox[abeoprs](?:\.xox[bp])?-[0-9A-Za-z-]{10,}",  # Slack
    r"xapp-[0-9]-[0-9A-Z]{6,}-[0-9]{6,}-[0-9A-Za-z]{16,}",
    r"AIza[0-9A-Za-z_\-]{30,}|ya29\.[0-9A-Za-z_\-]{16,}|GOCSPX-[0-9A-Za-z_\-]{20,}|1//0[0-9A-Za-z_\-]{30,}",  # Google
    r"wmk_[0-9a-f]{12}_[0-9A-Za-z]{38}",  # Wenmai
    r"npm_[0-9A-Za-z]{30,}",  # npm
    r"pypi-[0-9A-Za-z_\-]{16,}",  # PyPI
    r"hf_[0-9A-Za-z]{20,}|api_org_[0-9A-Za-z]{30,}",  # Hugging Face
    r"r8_[0-9A-Za-z]{30,}|gsk_[0-9A-Za-z]{30,}|xai-[0-9A-Za-z]{40,}|pplx-[0-9A-Za-z]{30,}|fw_[0-9A-Za-z]{20,}",
    r"SG\.[0-9A-Za-z_\-]{16,32}\.[0-9A-Za-z_\-]{16,64}",  # SendGrid
    r"key-[0-9a-f]{32}|pubkey-[0-9a-f]{32}|[0-9a-f]{32}-us[0-9]{1,2}",  # Mailgun, Mailchimp
    r"(?:SK|AC)[0-9a-f]{32}",  # Twilio
    r"dop_v1_[0-9a-f]{64}|doo_v1_[0-9a-f]{64}|dor_v1_[0-9a-f]{64}",  # DigitalOcean
    r"sq0(?:atp|csp|idp)-[0-9A-Za-z_\-]{20,}|EAAA[0-9A-Za-z_\-]{50,}|EAA[CMBR][0-9A-Za-z]{60,}",  # Square, Facebook
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",  # Shopify
    r"dckr_pat_[0-9A-Za-z_\-]{20,}|dp\.(?:pt|st|ct|sa|scim|audit)\.[0-9A-Za-z_.\-]{20,}",  # Docker, Doppler
    r"hv[sbr]\.[0-9A-Za-z_\-]{20,}|[0-9A-Za-z]{14}\.atlasv1\.[0-9A-Za-z_\-=]{60,70}",  # HashiCorp
    r"glsa_[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}|glc_[0-9A-Za-z+/]{32,}={0,3}|eyJrIjoi[0-9A-Za-z]{50,}={0,3}",  # Grafana
    r"NRAK-[0-9A-Z]{27}|NRJS-[0-9a-f]{19}|NRII-[0-9A-Za-z-]{32}",  # New Relic
    r"lin_api_[0-9A-Za-z]{40}|secret_[0-9A-Za-z]{43}|ntn_[0-9A-Za-z]{40,}|figd_[0-9A-Za-z_\-]{30,}",
    r"ATATT3[0-9A-Za-z_\-=]{60,}|ATCTT3[0-9A-Za-z_\-=]{60,}|ATBB[0-9A-Za-z]{24,}",  # Atlassian
    r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}|rubygems_[0-9a-f]{48}|CLOJARS_[0-9a-z]{60}|oy2[0-9a-z]{43}",  # registries
    r"pul-[0-9a-f]{40}|sntry[su]_[0-9A-Za-z+/=_\-]{40,}|phc_[0-9A-Za-z]{40,}|phx_[0-9A-Za-z]{40,}",  # services
    r"LTAI[0-9A-Za-z]{12,20}|AKID[0-9A-Za-z]{28,36}|AKLT[0-9A-Za-z]{30,}",  # Alibaba, Tencent, Volcengine
    r"ops_eyJ[0-9A-Za-z+/]{60,}={0,3}|A3-[0-9A-Z]{6}-(?:[0-9A-Z]{11}|[0-9A-Z]{6}-[0-9A-Z]{5})(?:-[0-9A-Z]{5}){3}",
    r"AGE-SECRET-KEY-1[0-9A-Z]{58}|dapi[0-9a-f]{32}(?:-[0-9])?|pscale_(?:tkn|oauth|pw)_[0-9A-Za-z_.=\-]{30,}",
    r"[0-9]{8,10}:AA[0-9A-Za-z_\-]{33}",  # Telegram
    r"[MNO][0-9A-Za-z_\-]{23,27}\.[0-9A-Za-z_\-]{6}\.[0-9A-Za-z_\-]{27,40}",  # Discord
    r"eyJ[0-9A-Za-z_\-]{8,}\.eyJ[0-9A-Za-z_\-]{8,}(?:\.[0-9A-Za-z_\-+/=]*)?",  # JWT
    r"eyJ[0-9A-Za-z_\-]{16,}\.(?:[0-9A-Za-z_\-]*\.){3}[0-9A-Za-z_\-]{10,}",  # JWE
    r"tvly-[0-9A-Za-z_\-]{20,}|re_[0-9A-Za-z]{8,}_[0-9A-Za-z]{16,}|apify_api_[0-9A-Za-z]{30,}|sbp_[0-9a-f]{40}",
    r"[0-9A-Za-z_~.]{3}[0-9]Q~[0-9A-Za-z_~.\-]{31,34}",  # Azure
)

_WEBHOOKS = (
    r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[0-9A-Za-z+/]{20,}"
    r"|https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/[0-9]{15,}/[0-9A-Za-z_\-]{30,}"
    r"|https://[0-9a-z]{1,64}@(?:[0-9a-z]+\.)?(?:ingest\.)?sentry\.io/[0-9]+"
)

_BLOCK = r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"


def _prefixed(found: Found) -> Span | None:
    """A token: with digits, or with capitals in the middle of it, so that it is not a word."""
    text = found.text
    if found.left.isalnum() or found.left in b"_-":
        return None
    if not any(map(str.isdecimal, text)) and len(expression("[a-z][A-Z]").findall(found.text)) < _CAPITALS:
        return None
    return found.span(Kind.API_KEY, end=found.start + len(text.rstrip("-._")))


_CAPITALS = 2


def _private_key(found: Found) -> Span | None:
    """To the last line of the block; without one, as far as the text looks like a key."""
    if found.match.group(3) is not None:
        return found.span(Kind.API_KEY)
    start, end = found.match.span(2)
    body = found.data[start:end].lstrip(_KEY_BYTES)
    return found.span(Kind.API_KEY, end=end - len(body))


_KEY_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n\\"

SIGN = r"[0-9A-Za-z_+/.~\-]{15}|-----BEGIN|(?i)bearer|authorization|x-api-key"

RULES = (
    Rule(Kind.API_KEY, rf"({_BLOCK}((?:[^-]|-[^-])*)(-----END [0-9A-Z ]{{1,60}}-----)?)", _private_key),
    Rule(Kind.API_KEY, rf"({_WEBHOOKS})"),
    Rule(Kind.API_KEY, rf"({'|'.join(_PREFIXED)})", _prefixed),
    Rule(Kind.API_KEY, r"(?i:\bbearer|\bauthorization:\s?token|\bx-api-key:)\s+([0-9A-Za-z._~+/\-]{16,}=*)", _prefixed),
    Rule(Kind.API_KEY, r"(?i:authorization[\"']?\s?:\s?[\"']?(?:bearer|token))\s+([0-9A-Za-z._~+/\-]{8,}=*)"),
    Rule(Kind.SECRET, r"(?i:authorization[\"']?\s?:\s?[\"']?basic)\s+([0-9A-Za-z+/\-_]{8,}={0,2})"),
)
