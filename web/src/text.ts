/** Texts as people may see them: whatever somebody wrote, it can only be read. */

/** Characters that turn the direction of what follows, with which a text can look like another one. */
const TURNING = "\u202a-\u202e\u2066-\u2069";
const HIDDEN = new RegExp(`[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028\\u2029${TURNING}]`, "g");

function picture(character: string): string {
  const code = character.charCodeAt(0);
  if (code === 0x0d) return "";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `\u2039U+${code.toString(16).toUpperCase().padStart(4, "0")}\u203a`;
}

/** A text with its control characters shown as pictures of themselves. */
export const visible = (text: string): string => text.replace(HIDDEN, picture);

/** A value of any kind, as text: strings as they are, the rest as JSON. */
export const written = (value: unknown): string =>
  visible(typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));

export function bytes(count: number): string {
  if (count < 1000) return `${count} bytes`;
  return count < 1_000_000 ? `${(count / 1000).toFixed(0)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}

export function duration(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.floor((ms % 60_000) / 1000);
  return minutes < 60 ? `${minutes} min ${seconds} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const between = (from: string, to: string): number => Date.parse(to) - Date.parse(from);

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const clock = (at: string): string => CLOCK.format(new Date(at));
export const full = (at: string): string => FULL.format(new Date(at));

/** How long ago, in the fewest letters. */
export function ago(at: string, now: number): string {
  const seconds = Math.max(0, (now - Date.parse(at)) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return seconds < 7 * 86_400 ? `${Math.floor(seconds / 86_400)}d` : DAY.format(new Date(at));
}
