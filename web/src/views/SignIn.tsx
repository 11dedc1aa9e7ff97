/** Signing in: with a link that works once. */

import { signal } from "@preact/signals";
import { useId, useRef } from "preact/hooks";
import { ask, Problem } from "../api";
import { linkTo, navigate, openId } from "../routing";
import { ErrorNote, useWork } from "./parts";

const MARK = "#sign-in=";

/** Why the link of this page's address did not work, if it did not. */
export const refused = signal<Problem | null>(null);

/** The code of a link, and the session that it leads to, if it leads to one. */
function readLink(link: string): { code: string; session: string | null } {
  const [code = "", session = ""] = link.slice(link.lastIndexOf("=") + 1).split("/");
  return { code, session: session || null };
}

/** Sign in with the code in this page's address, if there is one. It is gone from there before it is used. */
export async function signInFromAddress(): Promise<void> {
  if (!location.hash.startsWith(MARK)) return;
  const { code, session } = readLink(location.hash);
  history.replaceState(null, "", `/${linkTo(session)}`);
  openId.value = session;
  try {
    await ask("POST", "/sign-in", { code });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    refused.value = error;
  }
}

export function SignIn({ onDone }: { onDone: () => void }) {
  const work = useWork();
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  const submit = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    const { code, session } = readLink(input.current?.value.trim() ?? "");
    refused.value = null;
    if (!(await work.run(() => ask("POST", "/sign-in", { code })))) return;
    if (session) navigate(session);
    onDone();
  };
  const problem = work.problem ?? refused.value;
  return (
    <main class="sign-in" id="main">
      <h1>antiphon</h1>
      <p>This browser is not signed in. On the machine where the host runs, type</p>
      <pre tabIndex={0}>antiphon open</pre>
      <p>
        or, when its browser is not this one, <code>antiphon open --print</code>, and paste the link here.
      </p>
      <form onSubmit={(event) => void submit(event)} class="form">
        <label for={id}>Sign-in link</label>
        <input id={id} ref={input} required autoComplete="off" spellcheck={false} />
        {problem && <ErrorNote problem={problem} />}
        <div class="buttons">
          <button type="submit" class="primary" disabled={work.busy}>
            Sign in
          </button>
        </div>
      </form>
    </main>
  );
}
