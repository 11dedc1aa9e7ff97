import { render } from "preact";
import { get, Problem } from "./api";
import { followBoard } from "./state/board";
import { connection } from "./stream";
import { App } from "./views/App";
import { signInFromAddress } from "./views/SignIn";

const RETRY_MS = 1500;

/** Look who is there, then follow the board; a host that is not there yet is asked again. */
async function begin(): Promise<void> {
  try {
    await get("/v1/status");
    connection.value = "online";
    await followBoard();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    connection.value = error.status === 401 ? "signed-out" : "offline";
    if (error.status !== 401) setTimeout(() => void begin(), RETRY_MS);
  }
}

async function start(): Promise<void> {
  await signInFromAddress();
  // A page that was signed out has let go of everything, so signing in begins anew.
  render(<App onSignedIn={() => location.reload()} />, document.getElementById("page")!);
  await begin();
}

void start();
