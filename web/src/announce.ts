/** What a screen reader says of what happens elsewhere on the page. */

import { signal } from "@preact/signals";

export const announcement = signal("");

export function announce(text: string): void {
  // The same words twice are said twice only when something changes.
  announcement.value = announcement.value === text ? `${text}\u00a0` : text;
}
