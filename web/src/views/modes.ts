/** What a message does while a turn runs, in words. */

import type { Mode } from "../api";

export const MODES: Record<Mode, { short: string; long: string }> = {
  queue: { short: "Queue", long: "waits its turn" },
  steer: { short: "Steer", long: "joins the running turn at its next safe point" },
  collect: { short: "Collect", long: "is answered together with others that collect" },
  interrupt: { short: "Interrupt", long: "stops the running turn, then is answered" },
  rollback: { short: "Roll back", long: "undoes the running turn, then is answered" },
  refuse: { short: "Refuse", long: "is sent only if nothing runs" },
};
