// JSON and other code, with colour: members, strings and numbers. Text is set as text, so markup in it does nothing.

import type { ComponentChildren, JSX } from 'preact'

/** A string with the colon that makes it a member, another string, or a number or word. */
const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\b\d[\d.eE+-]*\b|\b(?:true|false|null)\b/g

export function coloured(text: string): ComponentChildren[] {
  const pieces: ComponentChildren[] = []
  let at = 0
  for (const match of text.matchAll(TOKENS)) {
    const [whole, string, colon] = match
    if (match.index > at) pieces.push(text.slice(at, match.index))
    const tone = string === undefined ? 'near' : colon === undefined ? 'ok' : 'track'
    pieces.push(<span class={`said ${tone}`}>{string ?? whole}</span>, colon ?? '')
    at = match.index + whole.length
  }
  pieces.push(text.slice(at))
  return pieces
}

export function Json({ value, label }: { value: unknown; label: string }): JSX.Element {
  return (
    <div class="code">
      <pre tabIndex={0} aria-label={label}>
        {coloured(JSON.stringify(value, null, 2))}
      </pre>
    </div>
  )
}
