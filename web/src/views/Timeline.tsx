/** What a turn spent its time on: as a strip, and step by step. */

import type { Piece, Turn } from "../state/conversation";
import { between, duration, visible } from "../text";

interface Step {
  name: string;
  kind: string;
  from: number;
  to: number;
}

const NAMES: Record<string, string> = { text: "Answer", thought: "Thinking", asked: "Waited for a person", steered: "Message taken in" };

function stepOf(turn: Turn, piece: Piece): Step {
  const from = between(turn.from, piece.from);
  const end = piece.kind === "steered" ? piece.from : (piece.to ?? turn.to ?? piece.from);
  const name = piece.kind === "tool" ? visible(piece.name) : (NAMES[piece.kind] ?? piece.kind);
  return { name, kind: piece.kind, from, to: between(turn.from, end) };
}

export function Timeline({ turn }: { turn: Turn }) {
  const total = Math.max(1, between(turn.from, turn.to ?? turn.from));
  const steps = turn.pieces.map((piece) => stepOf(turn, piece));
  const first = steps[0]?.from ?? total;
  const all = [{ name: "Until the first sign", kind: "wait", from: 0, to: first }, ...steps];
  return (
    <div class="timeline">
      <svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">
        <rect class="step-track" width="1000" height="12" rx="3" />
        {all.map((step, place) => (
          <rect
            key={place}
            class={`step-${step.kind}`}
            x={(1000 * step.from) / total}
            width={Math.max(3, (1000 * (step.to - step.from)) / total)}
            height="12"
          />
        ))}
      </svg>
      <ol>
        {all.map((step, place) => (
          <li key={place}>
            <svg viewBox="0 0 8 8" aria-hidden="true">
              <rect class={`step-${step.kind}`} width="8" height="8" rx="2" />
            </svg>
            <span>{step.name}</span>
            <span class="step-time">
              +{duration(step.from)}
              {step.to - step.from >= 50 && ` for ${duration(step.to - step.from)}`}
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}
