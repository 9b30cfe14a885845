// The audit log, whether its chain is whole, and the API keys.

import { element } from "../dom.js";
import { action, badge, card, moment, number, pagedTable } from "./parts.js";
import { get } from "./request.js";
import { say } from "./texts.js";

const PAGE = 50;

export async function showAudit(content) {
  const status = element("span", { role: "status" });
  const verify = async () => {
    const { entries, newest, broken_at: broken } = await get("v1/audit/status");
    status.replaceChildren(broken === null ? badge(`${say("chainWhole")} · ${number(entries)} ${say("entries")}`, "good") : badge(`${say("chainBroken")} ${broken}`, "bad"),
      element("code", { class: "hint" }, ` ${newest}`));
  };
  const log = pagedTable(say("audit"), [say("number"), say("time"), say("act"), say("actor"), say("details")], async (before) => {
    const { entries } = await get("v1/audit", { limit: PAGE, before });
    const last = entries.at(-1)?.number ?? 1;
    return { next: last > 1 ? String(last) : null, rows: entries.map((each) => [number(each.number), moment(each.at), each.act, each.actor || "–",
      Object.entries(each.details).map(([name, value]) => `${name}: ${value}`).join(", ")]) };
  }, { none: say("noAudit") });
  const keys = pagedTable(say("keys"), [say("name"), "id", say("state_"), say("rights"), say("sites"), say("user"), say("rateLimit"), say("created"), say("expires")], async (cursor) => {
    const page = await get("v1/keys", { cursor });
    return { next: page.next, rows: page.keys.map((each) => [each.name || "–", each.key_id, stateOf(each), each.rights.join(", "),
      each.sites.join(", ") || say("all"), each.user_id || say("everyone"), each.rate_limit || "–", moment(each.created_at), each.expires_at ? moment(each.expires_at) : say("never")]) };
  }, { none: say("noKeys") });
  await Promise.all([log.ready, keys.ready, verify()]);
  content.replaceChildren(
    card(say("audit"), element("p", { class: "chain" }, `${say("chain")}: `, status, " ", action(say("verify"), verify)), log.holder),
    card(say("keys"), keys.holder));
}

function stateOf(key) {
  if (key.revoked_at) return badge(say("revoked"), "bad");
  if (key.expires_at && new Date(key.expires_at) < new Date()) return badge(say("expired"), "warn");
  return badge(say("valid"), "good");
}
