/** Which view is shown: it stands in the fragment of the address, which the host never sees. */

import { signal } from "@preact/signals";

const SESSION = "#/sessions/";

export const openId = signal<string | null>(read());

function read(): string | null {
  if (!location.hash.startsWith(SESSION)) return null;
  try {
    return decodeURIComponent(location.hash.slice(SESSION.length)) || null;
  } catch {
    return null;
  }
}

export const linkTo = (id: string | null): string => (id === null ? "#/" : `${SESSION}${encodeURIComponent(id)}`);

export function navigate(id: string | null): void {
  location.hash = linkTo(id);
}

addEventListener("hashchange", () => {
  openId.value = read();
});
