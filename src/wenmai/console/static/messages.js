// The stored messages of a session, and the feedback on its answers.

import { call } from "./api.js";

const PAGE = 50;
const RATED = 100;

/** A page of messages, each with a field `html`, null where there is none; `next` is the `before` of the older page. */
export async function messagesOf(sessionId, query = {}) {
  const path = `v1/sessions/${encodeURIComponent(sessionId)}/messages`;
  const { messages, html, next } = await call("GET", path, { query: { limit: PAGE, html: true, ...query } });
  return { messages: messages.map((each, index) => ({ ...each, html: html[index] })), next };
}

/** The newest message, of one persona or of all; null while the service cannot be reached. */
export async function newestMessage(sessionId, query = {}) {
  try {
    return (await messagesOf(sessionId, { ...query, limit: 1 })).messages.at(-1) ?? null;
  } catch {
    return null;
  }
}

/** The ratings of the newest answers, as pairs of trace and rating. */
export async function ratingsOf(sessionId) {
  const query = { session_id: sessionId, limit: RATED };
  const { traces } = await call("GET", "api/v1/npc/traces", { query });
  return traces.filter((each) => each.rating).map((each) => [each.trace_id, each.rating]);
}
